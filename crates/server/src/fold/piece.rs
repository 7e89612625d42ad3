//! What is shown, piece by piece.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_harness::{ChatTurnOutcome, MessageId, TurnId};
use singletree_llm::ChatMessage;

/// Names one showing of a message: text that turned out to be void keeps its name, and what is shown in its place has another.
/// Written `MESSAGE` the first time, `MESSAGE~2` the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Showing {
    /// The message.
    pub(crate) message: MessageId,
    /// Which time it is shown, from 1.
    pub(crate) attempt: u32,
}

impl fmt::Display for Showing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempt {
            1 => self.message.fmt(f),
            attempt => write!(f, "{}~{attempt}", self.message),
        }
    }
}

/// What a tool gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolAnswer {
    /// The id of the call.
    pub(crate) call: String,
    /// Whether it succeeded.
    pub(crate) success: bool,
    /// What it gave, as the model reads it.
    pub(crate) content: String,
    /// The message that made the call, where that was told.
    pub(crate) of: Option<MessageId>,
    /// The name of the tool message, once it is recorded.
    pub(crate) message: Option<MessageId>,
    /// Whose it is, where that is known.
    pub(crate) agent: Option<String>,
}

/// One piece. Of one message the order is `Begin`, `Text`s, `Call`s, `End`; or `Begin`, `Text`s, `Retract`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    /// A turn was accepted; it may have to wait until others have ended. The message is the user's, none for a resume.
    TurnBegin { turn: TurnId, message: Option<Arc<ChatMessage>> },
    /// An assistant's message begins.
    Begin { showing: Showing, agent: Option<String> },
    /// More of its text; never empty.
    Text { showing: Showing, delta: String },
    /// A message makes a call; arguments that are no object are none.
    Call { message: MessageId, id: String, name: String, arguments: Map<String, Value> },
    /// An assistant's message is recorded: all of its text and calls were told.
    End { showing: Showing, message: Arc<ChatMessage>, side: Option<Value> },
    /// What was shown under this name is void: it is shown again under the next one, or was never recorded.
    Retract { showing: Showing },
    /// What a call gave, as soon as it gave it.
    Answer(ToolAnswer),
    /// What a call gave is recorded; an equal `Answer` was told before.
    Recorded(ToolAnswer),
    /// A user's message was taken by the turn that runs.
    User { id: MessageId, message: Arc<ChatMessage>, side: Option<Value> },
    /// A wait ended, or goes on (`refused`). It begins the turn that resumes.
    Signal { turn: TurnId, signal: String, wait: u64, how: &'static str },
    /// A turn ended.
    TurnEnd { turn: TurnId, outcome: Arc<ChatTurnOutcome> },
}
