//! The second agent of the load: waits with a deadline, and a list field that one release has and the next has not.

use std::time::Duration;

use serde_json::{Value, json};
use singletree_engine::{
    Ctx, END, FieldContent, FieldShape, FieldSpec, Graph, NodeResult, Reducer, Signal, Snapshot,
    StateMigrations, StateSchema, StateUpdate,
};
use singletree_harness::{Durability, GraphAgent, MESSAGE_SHAPE};

/// Its name; sessions whose id begins with `o` are its own.
pub(super) const OFFICE: &str = "office";

/// How long its waits wait.
const DEADLINE: Duration = Duration::from_millis(400);

fn state_schema(release: u32) -> StateSchema {
    let field = |name: &'static str, shape: FieldShape, default: Value| {
        FieldSpec::new(name, shape, FieldContent::from_json(default))
    };
    let messages = field("messages", FieldShape::Record(MESSAGE_SHAPE.into()).list(), json!([]));
    let mut fields =
        vec![messages.reducer(Reducer::Append), field("approved", FieldShape::Bool, json!(false))];
    if has_notes(release) {
        fields.push(field("notes", FieldShape::Str.list(), json!([])).reducer(Reducer::Append));
    }
    StateSchema::new("office", fields).with_version(release.to_string())
}

/// Every second release has the list.
fn has_notes(release: u32) -> bool {
    release % 2 == 1
}

/// Returns the text of the message that is answered.
fn message_text(state: &Snapshot) -> String {
    let messages = state.get("messages").and_then(FieldContent::as_list).cloned().unwrap_or_default();
    let user = messages
        .iter()
        .rev()
        .filter_map(|message| message.json().ok())
        .find(|message| message["role"] == "user");
    user.and_then(|user| user["content"].as_str()).unwrap_or_default().to_owned()
}

async fn run_gate_node(cx: Ctx<Snapshot>) -> NodeResult<Snapshot> {
    if message_text(cx.state()).starts_with("later ") {
        return cx.suspend(Signal::new("later").expires_in(DEADLINE)).await;
    }
    Ok(StateUpdate::new())
}

/// Makes the agent of a release. Each release migrates the state of every earlier release to its own version.
pub(super) fn build_agent(release: u32) -> Result<GraphAgent, singletree_engine::Error> {
    let tell = move |cx: Ctx<Snapshot>| async move {
        let text = message_text(cx.state());
        let said = json!([{ "role": "assistant", "content": format!("Noted: {text}.") }]);
        let update = StateUpdate::new().with_json("messages", said);
        NodeResult::<Snapshot>::Ok(match has_notes(release) {
            true => update.with_json("notes", json!([text])),
            false => update,
        })
    };
    let graph = Graph::<Snapshot>::builder_with(state_schema(release))
        .node("gate", run_gate_node)
        .node("tell", tell)
        .edge("gate", "tell")
        .edge("tell", END)
        .entry("gate")
        .compile()?;
    let migrations = (1..release).fold(StateMigrations::new(), |all, from| {
        all.with(from.to_string(), (from + 1).to_string(), |mut state| {
            state.remove("notes");
            Ok(state)
        })
    });
    Ok(GraphAgent::new(OFFICE, &graph).durability(Durability::Step).session_migrations(migrations))
}
