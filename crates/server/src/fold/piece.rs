//! The pieces in which messages are shown.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_harness::{ChatTurnOutcome, MessageId, TurnId};
use singletree_llm::ChatMessage;

/// The name of one showing of a message. Void text keeps its name; the text that replaces it gets another one.
/// Displayed as `MESSAGE` the first time, as `MESSAGE~2` the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DisplayedMessageId {
    /// The message.
    pub(crate) message: MessageId,
    /// The number of the showing, from 1.
    pub(crate) attempt: u32,
}

impl fmt::Display for DisplayedMessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempt {
            1 => self.message.fmt(f),
            attempt => write!(f, "{}~{attempt}", self.message),
        }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolAnswer {
    /// The id of the call.
    pub(crate) call: String,
    /// Whether the call succeeded.
    pub(crate) success: bool,
    /// The content, as the model reads it.
    pub(crate) content: String,
    /// The message that made the call, if it was shown.
    pub(crate) of: Option<MessageId>,
    /// The id of the tool message, once it is recorded.
    pub(crate) message: Option<MessageId>,
    /// The agent of the tool message, if it is known.
    pub(crate) agent: Option<String>,
}

/// One piece. The order of the pieces of one message is `Begin`, `Text`s, `Call`s, `End`; or `Begin`, `Text`s,
/// `Retract`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProjectionPiece {
    /// A turn was accepted; it may have to wait until others have ended. The message is the user's, none for a resume.
    TurnBegin { turn: TurnId, message: Option<Arc<ChatMessage>> },
    /// An assistant's message begins.
    Begin { showing: DisplayedMessageId, agent: Option<String> },
    /// More text of the message; never empty.
    Text { showing: DisplayedMessageId, delta: String },
    /// A message makes a call. Arguments that are not an object are shown as an empty one.
    Call { message: MessageId, id: String, name: String, arguments: Map<String, Value> },
    /// An assistant's message is recorded: all of its text and calls were shown.
    End { showing: DisplayedMessageId, message: Arc<ChatMessage>, side: Option<Value> },
    /// The text shown under this name is void: it is shown again under the next name, or was never recorded.
    Retract { showing: DisplayedMessageId },
    /// The result of a call, as soon as it is known.
    Answer(ToolAnswer),
    /// The result of a call is recorded; an equal `Answer` was shown before.
    Recorded(ToolAnswer),
    /// The running turn takes a user's message, or has taken it.
    User { id: MessageId, message: Arc<ChatMessage>, side: Option<Value> },
    /// The running turn has not taken this message after all.
    RetractUser { id: MessageId },
    /// A wait ended, or goes on (`refused`). The signal begins the turn that resumes.
    Signal { turn: TurnId, signal: String, wait: u64, how: &'static str },
    /// A turn ended.
    TurnEnd { turn: TurnId, outcome: Arc<ChatTurnOutcome> },
}
