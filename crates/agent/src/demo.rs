//! The demo agent: real tools, and a scripted model that needs no key and no network.
//!
//! The model is a data file of rules over the request. It knows nothing of sessions, restarts or approvals; that a
//! conversation survives them is the work of the chat around it.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use singletree_harness::Agent;
use singletree_llm::{Script, ScriptedProvider, Timer};
use singletree_tools::{
    Calculator, ClockTool, NoteStore, Notes, OutboxStore, OutboxTool, Tool, ToolLimits, Toolbox,
};

use crate::agent_loop::AgentLoop;
use crate::error::Result;

/// The name of the demo agent.
pub const NAME: &str = "demo";

/// First messages that one can send to the demo.
pub const EXAMPLES: [&str; 4] =
    ["What time is it?", "Send hello to Ann and Bob", "Tell me a story", "What else can I try?"];

/// The rules of the demo's model.
const SCRIPT: &str = include_str!("demo/script.json");

const SYSTEM: &str =
    "You are the demo agent of singletree. Say that you are a demo. Use the tools that you have.";

/// Where the demo agent's tools reach, and how fast its model speaks.
pub struct DemoParts {
    /// Keeps the notes of conversations.
    pub notes: Arc<dyn NoteStore>,
    /// Keeps the messages that conversations send.
    pub outbox: Arc<dyn OutboxStore>,
    /// Where the time comes from.
    pub now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    /// Performs the model's pauses between words.
    pub pace: Arc<dyn Timer>,
}

impl fmt::Debug for DemoParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DemoParts")
            .field("notes", &self.notes)
            .field("outbox", &self.outbox)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

/// Makes the demo agent, called [`NAME`].
///
/// Its tools are `clock`, `calculator`, `notes_add`, `notes_list`, `notes_search` and `send_message`; the last one
/// needs approval.
///
/// # Errors
/// `tool_definition_invalid`, `tool_duplicate`, `script_invalid`: none of them with this crate as it is.
pub fn build_demo_agent(parts: DemoParts) -> Result<Agent> {
    let DemoParts { notes, outbox, now, pace } = parts;
    let mut tools: Vec<Arc<dyn Tool>> = vec![Arc::new(ClockTool::new(now)?), Arc::new(Calculator::new()?)];
    tools.extend(Notes::new(notes).build_tools()?);
    tools.push(Arc::new(OutboxTool::new(outbox)?));
    let toolbox = Toolbox::new(tools, ToolLimits::standard())?;
    let provider = ScriptedProvider::new(Script::from_json(SCRIPT)?).with_pace(pace);
    AgentLoop::builder(Arc::new(provider)).system(SYSTEM).toolbox(toolbox).agent(NAME)
}
