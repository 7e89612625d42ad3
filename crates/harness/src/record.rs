//! How an outcome is stored on its turn's row, and how it is read back: replies by their place, never by content.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use singletree_durable::{
    ItemRange, Journal, JsonDocument, SessionKey, StoredTurnStatus, TurnRow, TurnRowQuery, WaitRow,
    WaitRowQuery,
};
use singletree_engine::{Descriptor, Item};
use singletree_llm::ChatMessage;

use crate::Error;
use crate::bucket::FailureBucket;
use crate::history::HISTORY;
use crate::outcome::{
    AnswerEnd, ChatTurnOutcome, CompletedTurn, DispatchPath, ErroredTurn, SuspendedTurn, SuspensionTerms,
};
use crate::stored::store_corrupt_error;
use crate::turn_id::TurnId;
use crate::usage::TurnModelUsage;

/// The stored form of an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum OutcomeRecord {
    Completed(ReplyRange),
    Suspended {
        tail: ReplyRange,
        wait: u64,
    },
    Errored {
        bucket: FailureBucket,
        category: String,
        reply: String,
        diagnostic: String,
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
pub(crate) struct ReplyRange {
    pub(crate) generation: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Whether the session had a history before the turn (harness-chat §6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) existing: bool,
    /// How its last answer ended.
    #[serde(default, skip_serializing_if = "AnswerEnd::is_usual")]
    pub(crate) answer: AnswerEnd,
}

/// An outcome, and the turn's model usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredOutcome {
    #[serde(flatten)]
    pub(crate) recorded: OutcomeRecord,
    #[serde(default, skip_serializing_if = "TurnModelUsage::is_empty")]
    pub(crate) used: TurnModelUsage,
}

impl StoredOutcome {
    /// Reads the outcome from a turn's row; none while the turn has not ended.
    pub(crate) fn from_turn_row(row: &TurnRow) -> Result<Option<Self>, Error> {
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

    pub(crate) fn from_errored_turn(turn: &ErroredTurn) -> Self {
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
    pub(crate) fn permits_resend(&self) -> bool {
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
pub(crate) trait TurnRowExt {
    /// Returns the turn's name.
    fn turn_id(&self) -> TurnId;
}

/// Reads the outcome of an ended turn back.
pub(crate) async fn read_outcome(
    journal: &dyn Journal,
    key: &SessionKey,
    row: &TurnRow,
) -> Result<Option<ChatTurnOutcome>, Error> {
    let Some(ended) = StoredOutcome::from_turn_row(row)? else { return Ok(None) };
    let turn = row.turn_id();
    let path = |tail: ReplyRange| match (row.wait, tail.existing) {
        (Some(_), _) => DispatchPath::SignalResume,
        (None, true) => DispatchPath::ExistingSession,
        (None, false) => DispatchPath::NewSession,
    };
    Ok(Some(match ended.recorded {
        OutcomeRecord::Completed(tail) => ChatTurnOutcome::Completed(CompletedTurn {
            turn,
            replies: read_reply_messages(journal, key, tail).await?,
            final_state: None,
            path: path(tail),
            answer: tail.answer,
        }),
        OutcomeRecord::Suspended { tail, wait } => {
            let waits = WaitRowQuery::Invocation(key.tenant.clone(), row.invocation.clone());
            let waits = journal.read_waits(&waits).await?;
            let wait = waits.into_iter().map(|(_, it)| it).find(|it| it.no == wait);
            let wait = wait.ok_or_else(|| {
                store_corrupt_error(format!("the wait of turn {} is missing", row.no), None)
            })?;
            ChatTurnOutcome::Suspended(SuspendedTurn {
                turn,
                signal_descriptor: decode_wait_descriptor(&wait)?,
                pending_messages: read_reply_messages(journal, key, tail).await?,
                invocation_id: row.invocation.clone(),
                resumed_by: read_resuming_turn(journal, key, &wait).await?,
                wait: decode_wait_terms(&wait)?,
                path: path(tail),
            })
        }
        OutcomeRecord::Errored { bucket, category, reply, diagnostic, retry_safe, .. } => {
            ChatTurnOutcome::Errored(ErroredTurn {
                turn: Some(turn),
                error_bucket: bucket,
                error_category: category,
                reply: ChatMessage::system(reply),
                diagnostic,
                retry_safe,
                recorded: true,
                retry_after: None,
            })
        }
    }))
}

async fn read_resuming_turn(
    journal: &dyn Journal,
    key: &SessionKey,
    wait: &WaitRow,
) -> Result<Option<TurnId>, Error> {
    let Some(no) = wait.ended_by else { return Ok(None) };
    let rows = journal.read_turns(key, &TurnRowQuery::No(no)).await?;
    Ok(rows.first().map(TurnRowExt::turn_id))
}

/// Returns the descriptor of a stored wait.
pub(crate) fn decode_wait_descriptor(wait: &WaitRow) -> Result<Descriptor, Error> {
    let metadata = wait.metadata.as_ref().map(JsonDocument::decode).transpose();
    let metadata = metadata.map_err(|error| {
        store_corrupt_error(format!("the metadata of wait {}", wait.no), Some(error.into()))
    })?;
    Ok(Descriptor { signal_id: wait.signal.clone(), metadata })
}

/// Returns the terms of a stored wait.
pub(crate) fn decode_wait_terms(wait: &WaitRow) -> Result<SuspensionTerms, Error> {
    let schema = wait.payload_schema.as_ref().map(JsonDocument::decode).transpose();
    let payload_schema = schema.map_err(|error| {
        store_corrupt_error(format!("the schema of wait {}", wait.no), Some(error.into()))
    })?;
    Ok(SuspensionTerms { no: wait.no, action: wait.action.clone(), deadline: wait.deadline, payload_schema })
}

async fn read_reply_messages(
    journal: &dyn Journal,
    key: &SessionKey,
    tail: ReplyRange,
) -> Result<Vec<Arc<ChatMessage>>, Error> {
    let (field, generation) = (HISTORY.to_owned(), tail.generation);
    let limit = tail.to.saturating_sub(tail.from);
    if limit == 0 {
        return Ok(Vec::new());
    }
    let rows =
        journal.read_items(key, &ItemRange::List { field, generation, from: tail.from, limit }).await?;
    rows.iter().map(|row| decode_message(&Item::from_text(row.body.as_str()))).collect()
}

/// Reads a message off an item.
pub(crate) fn decode_message(item: &Item) -> Result<Arc<ChatMessage>, Error> {
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
