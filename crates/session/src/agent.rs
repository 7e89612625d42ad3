//! The parts of an agent that decisions about a session read.

/// An agent, as rows name it.
#[derive(Debug, Clone, Copy)]
pub struct AgentVersion<'a> {
    /// Its name.
    pub name: &'a str,
    /// The digest of its graph.
    pub graph: &'a str,
    /// The version of the state that its sessions have.
    pub schema_version: &'a str,
    /// Whether its graph has a field for the command that a turn carries out.
    pub takes_commands: bool,
}

/// How a message is handled that is sent while the session waits for a signal (D1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhileSuspended {
    /// It is refused: `chat_session_suspended`.
    #[default]
    Reject,
    /// It waits until the wait ends.
    Queue,
    /// The wait is given up, open tool calls are closed as cancelled, and the message is answered.
    Supersede,
}
