//! The demo agent: real tools, and a scripted model that needs no key and no network.
//!
//! The model is a data file of rules over the request. It knows nothing of sessions, restarts or approvals; that a
//! conversation survives them is the work of the chat around it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use singletree_durable::SessionKey;
use singletree_env::{Clock, Env};
use singletree_llm::{BoxError, BoxFuture, Script, ScriptedProvider};
use singletree_tools::{Calculator, ClockTool, NoteStore, Notes, OutboxStore, OutboxTool};

use crate::agent::Agent;
use crate::command::{Artifacts, ScriptedCommands, SnapshotSource};
use crate::error::Result as AgentResult;

/// The name of the demo agent.
pub const NAME: &str = "demo";

/// First messages that one can send to the demo.
pub const EXAMPLES: [&str; 4] =
    ["What time is it?", "Send hello to Ann and Bob", "Tell me a story", "What else can I try?"];

/// The last second of the year 9999.
const LAST_PRINTABLE: Duration = Duration::from_secs(253_402_300_799);

/// The rules of the demo's model.
const SCRIPT: &str = include_str!("demo/script.json");

const SYSTEM: &str =
    "You are the demo agent of singletree. Say that you are a demo. Use the tools that you have.";

/// Where the demo agent's tools reach, and how fast its model speaks.
#[derive(Debug)]
pub struct DemoParts {
    /// Keeps the notes of conversations.
    pub notes: Arc<dyn NoteStore>,
    /// Keeps the messages that conversations send.
    pub outbox: Arc<dyn OutboxStore>,
    /// Its clock tells the time, its timer performs the model's pauses between words.
    pub env: Env,
    /// Where artifacts are kept, of which the model is shown the approved ones with a command; nowhere otherwise.
    pub artifacts: Option<Arc<Artifacts>>,
}

/// The state that the demo's model is shown with a command: the time.
#[derive(Debug)]
struct DemoState {
    clock: Arc<dyn Clock>,
}

impl SnapshotSource for DemoState {
    fn read_snapshot<'a>(&'a self, _session: &'a SessionKey) -> BoxFuture<'a, Result<Value, BoxError>> {
        // The years that RFC 3339 can write; the tool refuses others.
        let time = self.clock.now().to_system_time().clamp(UNIX_EPOCH, UNIX_EPOCH + LAST_PRINTABLE);
        let state = json!({ "time": humantime::format_rfc3339_seconds(time).to_string() });
        Box::pin(async move { Ok(state) })
    }
}

/// Makes the demo agent, called [`NAME`].
///
/// Its tools are `clock`, `calculator`, `notes_add`, `notes_list`, `notes_search` and `send_message`; the last one
/// needs approval.
///
/// # Errors
/// `tool_definition_invalid`, `tool_duplicate`, `script_invalid`: none of them with this crate as it is.
pub fn build_demo_agent(parts: DemoParts) -> AgentResult<Agent> {
    let DemoParts { notes, outbox, env, artifacts } = parts;
    let provider = ScriptedProvider::new(Script::from_json(SCRIPT)?).with_pace(env.timer);
    let state = DemoState { clock: env.clock.clone() };
    let agent = Agent::new(NAME, ScriptedCommands::new(provider))
        .instructions(SYSTEM)
        .snapshots(Arc::new(state))
        .tool(|| ClockTool::new(env.clock))
        .tool(Calculator::new)
        .tools(Notes::new(notes).build_tools()?)
        .tool(|| OutboxTool::new(outbox));
    Ok(artifacts.into_iter().fold(agent, Agent::artifacts))
}
