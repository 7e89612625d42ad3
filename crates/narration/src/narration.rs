//! One piece of narration.

use std::time::SystemTime;

use serde::Serialize;

/// Who speaks (agent-chat-output §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The controller, telling what happened.
    System,
    /// The agent, telling why it proposes something.
    Agent,
    /// An echo of what the person said.
    User,
}

/// One piece of narration: when, who, what (agent-chat-output §6).
///
/// The content is opaque: nothing parses it. It can be written out, and not read in:
///
/// ```compile_fail
/// let said: singletree_narration::Narration = serde_json::from_str("{}").unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Narration {
    /// When it was said.
    pub timestamp: SystemTime,
    /// Who said it.
    pub role: Speaker,
    /// What was said.
    pub content: String,
}
