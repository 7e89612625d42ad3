//! How a chat turn ends, as callers see it (harness-chat §5.2).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use singletree_durable::{InvocationId, Timestamp};
use singletree_graph::{Descriptor, Snapshot};
use singletree_llm::{ChatMessage, ModelFinishReason};

use crate::bucket::FailureBucket;
use crate::side::{EMPTY_ANSWER, FINISH_REASON, SideRecords};
use crate::turn_id::TurnId;

/// Which way a transmission took (harness §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DispatchPath {
    /// Stateless (§3.0).
    Stateless,
    /// A new session (§3.1).
    NewSession,
    /// A session that has begun (§3.2).
    ExistingSession,
    /// The signal of a suspended invocation (§3.3).
    SignalResume,
}

impl DispatchPath {
    /// Returns the number of the specification's section.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stateless => "3.0",
            Self::NewSession => "3.1",
            Self::ExistingSession => "3.2",
            Self::SignalResume => "3.3",
        }
    }
}

/// A turn that reached the end of its graph.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedTurn {
    /// Which turn.
    pub turn: TurnId,
    /// The messages that the turn added after the user's own, of all roles, in order; may be empty (harness-chat §7).
    pub replies: Vec<Arc<ChatMessage>>,
    /// The final state; absent when the outcome was read back from the store.
    pub final_state: Option<Snapshot>,
    /// Which way it came (harness-chat §6).
    pub path: DispatchPath,
    /// How the turn's last answer ended.
    pub answer: AnswerEnd,
}

impl CompletedTurn {
    /// Returns the text of the last message of the turn; empty without one.
    #[must_use]
    pub fn reply_text(&self) -> Cow<'_, str> {
        self.replies.last().map(|reply| reply.text()).unwrap_or_default()
    }

    /// Reads the last message of the turn as JSON of a type, for agents whose replies have a schema.
    ///
    /// # Errors
    /// The message is no JSON of this type.
    pub fn reply_as<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.reply_text())
    }
}

/// How the last answer of a model ended, where its node said so beside the message
/// ([`SideRecords`](crate::SideRecords)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerEnd {
    /// Why the model stopped: `length`, `content_filter` or `error`; none where it ended as usual or is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<ModelFinishReason>,
    /// Whether the model twice gave an answer without a word: then the turn ends without that message (D30).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_answer: bool,
}

impl AnswerEnd {
    /// Tells whether the answer ended as usual.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the side record of the last message of a history, or of the empty answer behind it that was not appended.
    pub fn from_side_records(sides: &SideRecords, len: u64) -> Self {
        let unsaid = sides.side_record_at(len).filter(|side| side[EMPTY_ANSWER] == true);
        let empty_answer = unsaid.is_some();
        let side = unsaid.or_else(|| sides.side_record_at(len.checked_sub(1)?)).unwrap_or_default();
        let finish_reason = ModelFinishReason::deserialize(&side[FINISH_REASON]).ok();
        Self { finish_reason, empty_answer }
    }
}

/// The terms of a suspended turn's wait, beside the descriptor (D2).
#[derive(Debug, Clone, PartialEq)]
pub struct SuspensionTerms {
    /// The number of the wait in its session.
    pub no: u64,
    /// The digest of the exact action that an answer approves; such an answer must carry number and digest.
    pub action: Option<String>,
    /// When it expires.
    pub deadline: Option<Timestamp>,
    /// The JSON Schema of the answer.
    pub payload_schema: Option<Value>,
}

/// A turn that waits for a signal (harness-chat §8).
#[derive(Debug, Clone, PartialEq)]
pub struct SuspendedTurn {
    /// Which turn.
    pub turn: TurnId,
    /// The signal that the turn waits for.
    pub signal_descriptor: Descriptor,
    /// The messages that the turn added before it suspended, in order; may be empty.
    pub pending_messages: Vec<Arc<ChatMessage>>,
    /// The suspended invocation.
    pub invocation_id: InvocationId,
    /// The terms of the wait.
    pub wait: SuspensionTerms,
    /// Which way it came.
    pub path: DispatchPath,
    /// The turn that the end of the wait started, once there is one (D3).
    pub resumed_by: Option<TurnId>,
}

/// A turn that failed, or that was never accepted (harness-chat §10).
#[derive(Debug, Clone, PartialEq)]
pub struct ErroredTurn {
    /// Which turn; none when it was refused before acceptance.
    pub turn: Option<TurnId>,
    /// The action that the caller can take.
    pub error_bucket: FailureBucket,
    /// The category of the error.
    pub error_category: String,
    /// The text to show: a message of the role system (harness-chat §10). It is never part of the history.
    pub reply: ChatMessage,
    /// A description of the error for people: redacted and cut to length (D15).
    pub diagnostic: String,
    /// Whether sending the same again is known to do nothing twice.
    pub retry_safe: bool,
    /// Whether this outcome is stored. False only while the store does not work (D20).
    pub recorded: bool,
    /// How long the model's provider asked to wait, if it did. Known to callers that waited for the turn; it is not
    /// stored.
    pub retry_after: Option<Duration>,
}

impl ErroredTurn {
    /// Returns the error message for operators and callers of the agent; end users are shown the reply (D32). Redacted
    /// and cut to length.
    #[must_use]
    pub fn error_message(&self) -> &str {
        &self.diagnostic
    }

    /// Returns advice for operators and callers of the agent, where it fits one sentence.
    #[must_use]
    pub fn category_hint(&self) -> Option<&'static str> {
        crate::hint::hint_for_error(&self.error_category)
    }

    /// Returns the exhausted budget, when one ended the turn and the diagnostic, which is cut to length, still names it
    /// (D13).
    #[must_use]
    pub fn exhausted_budget(&self) -> Option<&str> {
        if self.error_category != "chat_budget_exhausted" {
            return None;
        }
        let told = self
            .diagnostic
            .strip_prefix("the budget ")
            .or_else(|| self.diagnostic.strip_prefix("the limit "));
        told?.split_once(" of ").map(|(name, _)| name)
    }
}

impl fmt::Display for ErroredTurn {
    /// Writes the category and the diagnostic, which is already redacted and cut to length (D15).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_category, self.diagnostic)
    }
}

/// A turn that failed is an error to whoever called for it: `chat.answer(…).await?` is all that a program needs.
impl std::error::Error for ErroredTurn {}

/// How a chat turn ended (harness-chat §5.2).
#[derive(Debug, Clone, PartialEq)]
pub enum ChatTurnOutcome {
    /// The graph reached its end.
    Completed(CompletedTurn),
    /// A node suspended.
    Suspended(SuspendedTurn),
    /// The turn failed.
    Errored(ErroredTurn),
}

impl ChatTurnOutcome {
    /// Returns which turn it is; none when it was refused before acceptance.
    #[must_use]
    pub fn turn_id(&self) -> Option<&TurnId> {
        match self {
            Self::Completed(it) => Some(&it.turn),
            Self::Suspended(it) => Some(&it.turn),
            Self::Errored(it) => it.turn.as_ref(),
        }
    }

    /// Returns the specification's word for the variant.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Completed(_) => "completed",
            Self::Suspended(_) => "suspended",
            Self::Errored(_) => "errored",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<(), Box<ErroredTurn>> {
        Err(Box::new(ErroredTurn {
            turn: None,
            error_bucket: FailureBucket::UserCorrectable,
            error_category: "chat_signal_mismatch".to_owned(),
            reply: ChatMessage::system("Please answer what is shown."),
            diagnostic: "the answer names another action".to_owned(),
            retry_safe: true,
            recorded: true,
            retry_after: None,
        }))
    }

    // spec: harness-chat §10
    #[test]
    fn a_turn_that_failed_is_an_error_that_says_category_and_diagnostic_and_stays_what_it_is() {
        let called = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> { Ok(refused()?) };
        let error = called().unwrap_err();
        assert_eq!(error.to_string(), "chat_signal_mismatch: the answer names another action");
        let kept = error.downcast_ref::<Box<ErroredTurn>>().unwrap();
        assert_eq!(*kept, refused().unwrap_err());
        assert!(error.source().is_none(), "the diagnostic says it all");
    }
}
