//! Who looks on as turns run and end: logs and metrics.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use singletree_durable::{RowMutation, SessionKey, StoredTurnKind, Timestamp, TurnRow};
use singletree_engine::{GraphEvent, TraceHeaders};
use singletree_session::{BatchBuilder, ChatTurnOutcome, ModelTokenUsage, StoredOutcome, TurnId, TurnRowExt};

use crate::runtime::chat_inner::ChatInner;

/// How a turn went: told once it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEndReport {
    /// Whose session, and which.
    pub session: SessionKey,
    /// Which turn.
    pub turn: TurnId,
    /// The agent that ran it.
    pub agent: String,
    /// The cause of the turn.
    pub kind: StoredTurnKind,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When this process began to run it; none when it did not.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub outcome: Arc<ChatTurnOutcome>,
    /// The turn's model usage.
    pub usage: Vec<ModelTokenUsage>,
    /// The trace of its invocation, below its span, where somebody keeps traces: the caller, or this chat.
    pub trace: Option<Arc<TraceHeaders>>,
}

/// Is told how turns ended, after the end is recorded.
///
/// A watcher decides nothing and delays nothing: it has to return at once, and is not told whether others were told.
/// Its panics are caught. The end of a turn that a process does not live to tell is in the store.
pub trait TurnWatcher: fmt::Debug + Send + Sync {
    /// A turn has ended.
    fn on_turn_end(&self, report: &TurnEndReport);

    /// Tells whether the watcher is told of the events of runs. It is asked when a run begins.
    fn wants_events(&self) -> bool {
        false
    }

    /// An event of a turn's run has come. It is not stored yet, and may never be: it is for counting, and for nothing that
    /// has to agree with the conversation.
    fn on_event(&self, _event: &GraphEvent) {}
}

impl ChatInner {
    /// Returns the watcher, if it wants the events of runs.
    pub(crate) fn event_watcher(&self) -> Option<&dyn TurnWatcher> {
        self.watcher.as_deref().filter(|watcher| watcher.wants_events())
    }

    /// Tells the watcher of an event. If it panics, the turn goes on.
    pub(crate) fn report_event(&self, event: &GraphEvent) {
        if let Some(watcher) = self.event_watcher() {
            drop(catch_unwind(AssertUnwindSafe(|| watcher.on_event(event))));
        }
    }
}

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChatWorkload {
    /// Sessions in memory.
    pub sessions: usize,
    /// Turns that run.
    pub running: usize,
    /// Turns and answers that wait their place, or are parked behind a wait.
    pub waiting: usize,
    /// Streams of events that are open.
    pub streams: usize,
    /// Sessions in memory that wait for an answer.
    pub pending_waits: usize,
}

/// A turn that a transition ends.
#[derive(Debug)]
pub(crate) struct EndedTurn {
    row: TurnRow,
    trace: Option<Arc<TraceHeaders>>,
}

impl EndedTurn {
    /// Finds all of them.
    pub(crate) fn find_in_batch(writing: &BatchBuilder) -> Vec<Self> {
        let ended = writing.batch.puts.iter().filter_map(|put| match put {
            RowMutation::Turn(row) if row.status.is_ended() => {
                Some(Self { row: row.clone(), trace: writing.trace.clone() })
            }
            _ => None,
        });
        ended.collect()
    }

    /// Returns its number.
    pub(crate) fn turn_number(&self) -> u64 {
        self.row.no
    }

    /// Tells whether an outcome is its own.
    pub(crate) fn matches_outcome(&self, outcome: &ChatTurnOutcome) -> bool {
        outcome.turn_id() == Some(&self.row.turn_id())
    }

    /// Says how it went.
    pub(crate) fn build_end_report(
        &self,
        session: &SessionKey,
        started_at: Option<Timestamp>,
        outcome: &Arc<ChatTurnOutcome>,
    ) -> TurnEndReport {
        let row = &self.row;
        // An outcome that was just written can be read.
        let usage = StoredOutcome::from_turn_row(row)
            .ok()
            .flatten()
            .map(|it| it.used.to_token_usages())
            .unwrap_or_default();
        TurnEndReport {
            session: session.clone(),
            turn: row.turn_id(),
            agent: row.agent.clone(),
            kind: row.kind,
            accepted_at: row.accepted_at,
            started_at,
            ended_at: row.ended_at.unwrap_or(row.accepted_at),
            outcome: outcome.clone(),
            usage,
            trace: self.trace.clone(),
        }
    }
}
