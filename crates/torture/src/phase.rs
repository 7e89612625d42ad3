//! Which part of a turn's life a commit is.

use serde::{Deserialize, Serialize};
use singletree_durable::{Batch, JsonDocument, RowMutation, StoredTurnStatus};

/// The purpose of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchPurpose {
    /// A message is accepted.
    Accept,
    /// A node's step, or one fact of it.
    Step,
    /// A turn suspends.
    Suspend,
    /// A wait is answered and the resuming turn accepted.
    Resume,
    /// A turn or a wait is cancelled.
    Cancel,
    /// A turn reaches the end of its graph.
    Finish,
    /// A turn fails.
    Fail,
    /// A dead owner's turn is taken over.
    TakeOver,
    /// A session is deleted.
    Delete,
    /// Anything else.
    Other,
}

impl BatchPurpose {
    /// The phases in which a crash must have been seen.
    pub const AIMED: [Self; 6] =
        [Self::Accept, Self::Step, Self::Suspend, Self::Resume, Self::Cancel, Self::Finish];

    /// Determines the phase of a batch from its puts.
    #[must_use]
    pub fn from_batch(batch: &Batch) -> Self {
        let told = |kind: &str| {
            batch.puts.iter().any(|put| matches!(put, RowMutation::Event(row) if row.kind == kind))
        };
        let has = |put: fn(&RowMutation) -> bool| batch.puts.iter().any(put);
        let cancelled = batch.puts.iter().any(|put| match put {
            RowMutation::Turn(row) => row.outcome.as_ref().is_some_and(is_cancelled_outcome),
            _ => false,
        });
        match () {
            () if has(|it| matches!(it, RowMutation::Delete)) => Self::Delete,
            () if cancelled => Self::Cancel,
            () if told("turn.errored") => Self::Fail,
            () if told("turn.suspended") => Self::Suspend,
            () if told("turn.completed") => Self::Finish,
            () if told("signal.received") => Self::Resume,
            () if told("turn.accepted") => Self::Accept,
            () if has(|it| matches!(it, RowMutation::Position(_) | RowMutation::Record(_))) => Self::Step,
            () if has(
                |it| matches!(it, RowMutation::Turn(row) if row.status == StoredTurnStatus::Accepted),
            ) =>
            {
                Self::TakeOver
            }
            () => Self::Other,
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Step => "step",
            Self::Suspend => "suspend",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Finish => "finish",
            Self::Fail => "fail",
            Self::TakeOver => "take_over",
            Self::Delete => "delete",
            Self::Other => "other",
        }
    }
}

fn is_cancelled_outcome(outcome: &JsonDocument) -> bool {
    let outcome: Result<serde_json::Value, _> = outcome.decode();
    outcome.is_ok_and(|outcome| outcome["category"] == "chat_turn_cancelled")
}
