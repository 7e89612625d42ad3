//! How an outcome is stored on its turn's row, and how it is read back: replies by their place, never by content.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singletree_durable::{JsonDocument, StoredTurnStatus, TurnRow, WaitRow};
use singletree_graph::{Descriptor, Item};
use singletree_llm::ChatMessage;

use crate::Error;
use crate::bucket::FailureBucket;
use crate::codec::stored::store_corrupt_error;
use crate::outcome::{AnswerEnd, ChatTurnOutcome, ErroredTurn, SuspensionTerms};
use crate::turn_id::TurnId;
use crate::usage::TurnModelUsage;

/// The stored form of an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub enum OutcomeRecord {
    /// Completed, with these replies.
    Completed(ReplyRange),
    /// Suspended.
    Suspended {
        /// The messages of the turn so far.
        tail: ReplyRange,
        /// The number of the wait.
        wait: u64,
    },
    /// Errored.
    Errored {
        /// The bucket of the error.
        bucket: FailureBucket,
        /// The category of the error.
        category: String,
        /// The text that people were shown.
        reply: String,
        /// The diagnostic.
        diagnostic: String,
        /// Whether the same message may be sent again.
        retry_safe: bool,
        /// Whether its invocation had effects: then the session keeps the committed part of its run (D29).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        effects: bool,
        /// How long the history was when it ended: where people are shown the turn. Older records do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<u64>,
    },
}

/// Which messages of the history the turn added after the user's own (D6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyRange {
    /// The generation of the list: 0, which is not written, until the history is first rewritten.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u64,
    /// The position of the first message.
    pub from: u64,
    /// The position past the last message.
    pub to: u64,
    /// Whether the session had a history before the turn (harness-chat §6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
    /// How its last answer ended.
    #[serde(default, skip_serializing_if = "AnswerEnd::is_usual")]
    pub answer: AnswerEnd,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An outcome, and the turn's model usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredOutcome {
    /// The outcome.
    #[serde(flatten)]
    pub recorded: OutcomeRecord,
    /// The model usage of the turn.
    #[serde(default, skip_serializing_if = "TurnModelUsage::is_empty")]
    pub used: TurnModelUsage,
}

impl StoredOutcome {
    /// Reads the outcome from a turn's row; none while the turn has not ended.
    pub fn from_turn_row(row: &TurnRow) -> Result<Option<Self>, Error> {
        let ended = row.outcome.as_ref().map(JsonDocument::decode::<Self>).transpose();
        ended.map_err(|error| {
            store_corrupt_error(format!("the outcome of turn {}", row.no), Some(error.into()))
        })
    }
}

impl OutcomeRecord {
    pub(crate) fn to_json_document(&self) -> Result<JsonDocument, Error> {
        self.to_json_with_usage(&TurnModelUsage::default())
    }

    /// Encodes the outcome together with the turn's model usage.
    pub(crate) fn to_json_with_usage(&self, used: &TurnModelUsage) -> Result<JsonDocument, Error> {
        let json = match used.is_empty() {
            true => JsonDocument::from_serializable(self),
            false => {
                JsonDocument::from_serializable(&StoredOutcome { recorded: self.clone(), used: used.clone() })
            }
        };
        json.map_err(|error| {
            store_corrupt_error("an outcome that JSON cannot represent".into(), Some(error.into()))
        })
    }

    /// Makes the record of a failed turn.
    pub fn from_errored_turn(turn: &ErroredTurn) -> Self {
        Self::Errored {
            bucket: turn.error_bucket,
            category: turn.error_category.clone(),
            reply: turn.reply.text().into_owned(),
            diagnostic: turn.diagnostic.clone(),
            retry_safe: turn.retry_safe,
            effects: false,
            place: None,
        }
    }

    /// Says of a failed turn whether it had effects, and where it stands in the history.
    pub(crate) fn with_effects_and_place(mut self, had_effects: bool, at: Option<u64>) -> Self {
        if let Self::Errored { effects, place, .. } = &mut self {
            (*effects, *place) = (had_effects, at);
        }
        self
    }
}

impl OutcomeRecord {
    /// Tells whether the same message may be sent again under the same idempotency key (D3).
    pub fn permits_resend(&self) -> bool {
        match self {
            Self::Completed(_) | Self::Suspended { .. } => false,
            Self::Errored { retry_safe, category, .. } => {
                *retry_safe || category.as_str() == "chat_session_suspended"
            }
        }
    }
}

impl TurnRowExt for TurnRow {
    fn turn_id(&self) -> TurnId {
        TurnId::new(self.invocation.clone(), self.ordinal)
    }
}

/// Values that a turn's row has beyond its columns.
pub trait TurnRowExt {
    /// Returns the turn's name.
    fn turn_id(&self) -> TurnId;
}

/// Returns the descriptor of a stored wait.
pub fn decode_wait_descriptor(wait: &WaitRow) -> Result<Descriptor, Error> {
    let metadata = wait.metadata.as_ref().map(JsonDocument::decode).transpose();
    let metadata = metadata.map_err(|error| {
        store_corrupt_error(format!("the metadata of wait {}", wait.no), Some(error.into()))
    })?;
    Ok(Descriptor { signal_id: wait.signal.clone(), metadata })
}

/// Returns the terms of a stored wait.
pub fn decode_wait_terms(wait: &WaitRow) -> Result<SuspensionTerms, Error> {
    let schema = wait.payload_schema.as_ref().map(JsonDocument::decode).transpose();
    let payload_schema = schema.map_err(|error| {
        store_corrupt_error(format!("the schema of wait {}", wait.no), Some(error.into()))
    })?;
    Ok(SuspensionTerms { no: wait.no, action: wait.action.clone(), deadline: wait.deadline, payload_schema })
}

/// Reads a message off an item.
pub fn decode_message(item: &Item) -> Result<Arc<ChatMessage>, Error> {
    item.decode_shared::<ChatMessage>()
        .map_err(|error| store_corrupt_error("a stored message".into(), Some(error.into())))
}

/// Returns the status that an outcome gives its turn.
pub(crate) fn status_of_outcome(outcome: &ChatTurnOutcome) -> StoredTurnStatus {
    match outcome {
        ChatTurnOutcome::Completed(_) => StoredTurnStatus::Completed,
        ChatTurnOutcome::Suspended(_) => StoredTurnStatus::Suspended,
        ChatTurnOutcome::Errored(_) => StoredTurnStatus::Errored,
    }
}
