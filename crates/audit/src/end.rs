//! How a turn ended, in a form that can be logged and compared.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singletree_harness::{ChatTurnOutcome, ErroredTurn};
use singletree_llm::ChatMessage;

/// How a turn ended, as told or as stored: the part in which both must agree.
///
/// The final state is not in it, and neither is the name of a resuming turn: the one is told once only, the other
/// changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum AuditedOutcome {
    /// It reached the end of its graph.
    Completed {
        /// Its replies, each as [`AuditedOutcome::summarize_message`] writes it.
        replies: Vec<String>,
    },
    /// It waits for a signal.
    Suspended {
        /// The signal's id.
        signal: String,
        /// The number of the wait.
        wait: u64,
        /// The messages before the suspension.
        pending: Vec<String>,
    },
    /// It failed.
    Errored {
        /// The category of the error.
        category: String,
        /// Whether the same may be sent again; an idempotency key is free again then (D3).
        retry_safe: bool,
        /// Whether the outcome was recorded when it was told (D20).
        recorded: bool,
    },
}

impl AuditedOutcome {
    /// Writes a message in short: its role, its text, its calls, and the id of the call that it answers.
    #[must_use]
    pub fn summarize_message(message: &ChatMessage) -> String {
        let mut text = format!("{}:{}", message.role.as_str(), message.text());
        for call in &message.tool_calls {
            text += &format!(" ({})", call.id);
        }
        if let Some(call) = &message.tool_call_id {
            text += &format!(" (for {call})");
        }
        text
    }

    /// Tells whether an idempotency key is free again after it (D3).
    #[must_use]
    pub fn frees_key(&self) -> bool {
        match self {
            Self::Completed { .. } | Self::Suspended { .. } => false,
            Self::Errored { category, retry_safe, .. } => *retry_safe || category == "chat_session_suspended",
        }
    }

    /// Returns `completed`, `suspended`, or the category of the error.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Suspended { .. } => "suspended",
            Self::Errored { category, .. } => category,
        }
    }

    /// Returns the turn's messages, as far as its end contains them.
    pub(crate) fn turn_messages(&self) -> Option<&[String]> {
        match self {
            Self::Completed { replies } => Some(replies),
            Self::Suspended { pending, .. } => Some(pending),
            Self::Errored { .. } => None,
        }
    }
}

impl From<&ErroredTurn> for AuditedOutcome {
    fn from(turn: &ErroredTurn) -> Self {
        let category = turn.error_category.clone();
        Self::Errored { category, retry_safe: turn.retry_safe, recorded: turn.recorded }
    }
}

impl From<&ChatTurnOutcome> for AuditedOutcome {
    fn from(outcome: &ChatTurnOutcome) -> Self {
        let briefs = |it: &[Arc<ChatMessage>]| it.iter().map(|it| Self::summarize_message(it)).collect();
        match outcome {
            ChatTurnOutcome::Completed(it) => Self::Completed { replies: briefs(&it.replies) },
            ChatTurnOutcome::Suspended(it) => Self::Suspended {
                signal: it.signal_descriptor.signal_id.clone(),
                wait: it.wait.no,
                pending: briefs(&it.pending_messages),
            },
            ChatTurnOutcome::Errored(it) => it.into(),
        }
    }
}

impl fmt::Display for AuditedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed { replies } => write!(f, "completed {replies:?}"),
            Self::Suspended { signal, wait, pending } => {
                write!(f, "suspended for {signal} (wait {wait}) {pending:?}")
            }
            Self::Errored { category, .. } => write!(f, "errored {category}"),
        }
    }
}
