//! The agents of the simulated process: a model with tools, and a graph that waits.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_agent::{Agent, AgentResources};
use singletree_engine::{
    Ctx, END, FieldContent, FieldShape, FieldSpec, Graph, NodeResult, Reducer, Signal, Snapshot,
    StateMigrations, StateSchema, StateUpdate,
};
use singletree_env::Env;
use singletree_harness::{Durability, GraphAgent, MESSAGE_SHAPE, WhileSuspended};
use singletree_llm::{ModelRetryPolicy, Script, ScriptedProvider};
use singletree_tools::{LiveToolbox, ToolLimits, Toolbox, Toolset};

use crate::campaign::WORKER;
use crate::error::Result;
use crate::model::{ModelAnswerSource, ProposingModel, SimulatedModel};
use crate::tool::{SimulatedTool, SimulatedToolKind, ToolWorld};
use crate::tool_server::ServerToolset;

/// The name of the agent that waits.
pub(crate) const OFFICE: &str = "office";

/// The signal that its sessions may receive early.
pub(crate) const EARLY: &str = "early";

/// The signal with a deadline.
pub(crate) const LATER: &str = "later";

/// How many agents of the model a tool loop may ask in one invocation.
pub(crate) const MODEL_CALLS_MAX: u64 = 8;

const SCRIPT: &str = include_str!("script.json");

/// Settings of the agents that a seed draws.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentSettings {
    pub(crate) while_suspended: WhileSuspended,
    pub(crate) approval_expires_in: Duration,
    pub(crate) deadline: Duration,
    /// Whether the office commits after each node.
    pub(crate) office_durability: Durability,
}

/// Makes the agents of a release, the default one first.
pub(crate) fn build_agents(
    settings: &AgentSettings,
    release: u32,
    env: &Env,
    (world, server): (&ToolWorld, ServerToolset),
) -> Result<[GraphAgent; 2]> {
    let script = ScriptedProvider::new(Script::from_json(SCRIPT)?);
    let model = SimulatedModel::new(ModelAnswerSource::Script(script), world);
    let server: Arc<dyn Toolset> = Arc::new(server);
    let live = LiveToolbox::new(Toolbox::new([], ToolLimits::standard())?, [server]);
    let talker = Agent::new("talker", model)
        .toolbox(live)
        .tools(fixed_tools(world))
        .retry(ModelRetryPolicy::new())
        .model_time(Duration::from_secs(60))
        .max_model_calls(MODEL_CALLS_MAX)
        .show_thinking(true)
        .approval_expires_in(settings.approval_expires_in)
        .env(env.clone())
        .build()?;
    let office = build_office(settings, release, env)?;
    Ok([talker.while_suspended(settings.while_suspended), office.while_suspended(settings.while_suspended)])
}

/// Returns functions that make the tools of a process, but for those of the server of tools.
fn fixed_tools(
    world: &ToolWorld,
) -> impl Iterator<Item = impl FnOnce() -> singletree_tools::Result<SimulatedTool>> {
    SimulatedToolKind::FIXED.into_iter().map(|kind| {
        let world = world.clone();
        move || SimulatedTool::new(kind, world)
    })
}

/// Makes the agent that pursues campaigns: its model proposes this plan.
pub(crate) fn build_worker(
    plan: &Value,
    env: &Env,
    world: &ToolWorld,
) -> Result<(GraphAgent, AgentResources)> {
    let line = SimulatedModel::new(ModelAnswerSource::Drawn, world);
    let worker = Agent::new(WORKER, ProposingModel::new(line, plan.clone()))
        .tools(fixed_tools(world))
        .retry(ModelRetryPolicy::new())
        .model_time(Duration::from_secs(60))
        .env(env.clone());
    Ok(worker.build_with_resources()?)
}

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

/// Returns the fields of the second agent's state in a release; none for other agents.
pub(crate) fn fields_of_release(agent: &str, release: u32) -> Option<&'static [&'static str]> {
    let fields = match has_notes(release) {
        true => ["messages", "approved", "notes"].as_slice(),
        false => ["messages", "approved"].as_slice(),
    };
    (agent == OFFICE).then_some(fields)
}

/// Every second release has the list.
fn has_notes(release: u32) -> bool {
    release % 2 == 1
}

/// Returns the text of the message that is answered.
fn message_text(state: &Snapshot) -> String {
    let messages = state.get("messages").and_then(FieldContent::as_list).cloned().unwrap_or_default();
    let texts = messages.iter().rev().filter_map(|message| message.json().ok());
    let user = texts.into_iter().find(|message| message["role"] == "user");
    user.and_then(|user| user["content"].as_str().map(str::to_owned)).unwrap_or_default()
}

async fn run_gate_node(cx: Ctx<Snapshot>, deadline: Duration) -> NodeResult<Snapshot> {
    let text = message_text(cx.state());
    let approved = |value: bool| serde_json::Map::from_iter([("approved".to_owned(), json!(value))]);
    match text.split(' ').next() {
        Some(LATER) => cx.suspend(Signal::new(LATER).expires_in(deadline)).await,
        Some("valued") => {
            let signal = Signal::new("valued").expires_in(deadline).on_deadline(approved(false));
            cx.suspend(signal).await
        }
        // An early signal has an id of its own for each subject.
        Some(EARLY) => {
            cx.suspend(Signal::new(format!("{EARLY}-{}", text.replace(' ', "-"))).expires_in(deadline)).await
        }
        Some(_) | None => Ok(StateUpdate::new()),
    }
}

/// Makes the second agent. Each release migrates the state of every earlier release to its own version.
fn build_office(settings: &AgentSettings, release: u32, env: &Env) -> Result<GraphAgent> {
    let tell = move |cx: Ctx<Snapshot>| async move {
        let text = message_text(cx.state());
        let said = json!([{ "role": "assistant", "content": format!("Noted: {text}.") }]);
        let update = StateUpdate::new().with_json("messages", said);
        NodeResult::<Snapshot>::Ok(match has_notes(release) {
            true => update.with_json("notes", json!([text])),
            false => update,
        })
    };
    let deadline = settings.deadline;
    let graph = Graph::<Snapshot>::builder_with(state_schema(release))
        .node("gate", move |cx| run_gate_node(cx, deadline))
        .node("tell", tell)
        .edge("gate", "tell")
        .edge("tell", END)
        .entry("gate")
        .env(env.clone())
        .compile()?;
    let migrations = (1..release).fold(StateMigrations::new(), |all, from| {
        all.with(from.to_string(), (from + 1).to_string(), |mut state| {
            state.remove("notes");
            Ok(state)
        })
    });
    Ok(GraphAgent::new(OFFICE, &graph)
        .durability(settings.office_durability)
        .early_signals([format!("{EARLY}-*")])
        .session_migrations(migrations))
}
