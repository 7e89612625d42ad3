//! Data of the past that a retention does not keep is forgotten: events from the oldest on, then turns that have no
//! events left.
//!
//! Two rules protect readers from gaps. Only the beginning of the log is removed, and never an event that a listener
//! has not read. A turn's row is removed when none of its events is left, so that each remaining event can be shown
//! completely.

use std::collections::BTreeSet;
use std::time::Duration;

use singletree_durable::{Counters, EventRow, InvocationId, RowMutation, Timestamp, TurnRow};

use crate::batch::BatchBuilder;

/// The numbers and times below which finished turns and events are not kept.
#[derive(Debug, Clone, Copy)]
pub struct RetentionBounds {
    /// Turns below this number, and events below that, are more than are kept.
    turns: u64,
    events: u64,
    /// Turns that ended and events that occurred before this time are too old.
    old: Option<Timestamp>,
    /// The counters at the start of this pass; later turns and events are not considered.
    now: Counters,
}

/// The invocations and turns in use, which are kept.
#[derive(Debug, Clone, Default)]
pub struct RecordsInUse {
    /// Invocations that are not over.
    pub invocations: BTreeSet<InvocationId>,
    /// The numbers of their turns, and of the turns that these retry.
    pub turns: BTreeSet<u64>,
    /// The numbers of those that have no outcome yet, or whose outcome is not told yet.
    pub open: BTreeSet<u64>,
}

impl RetentionBounds {
    /// Computes the bounds at a time: how many of the last turns and events are kept, and how old they may be.
    #[must_use]
    pub fn new(
        now: Counters,
        at: Timestamp,
        (turns, events): (Option<u64>, Option<u64>),
        age: Option<Duration>,
    ) -> Self {
        let below = |count: u64, kept: Option<u64>| kept.map_or(0, |kept| count.saturating_sub(kept));
        let age = age.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        Self {
            turns: below(now.turns, turns),
            events: below(now.events, events),
            old: age.map(|age| Timestamp::from_millis(at.as_millis().saturating_sub(age))),
            now,
        }
    }

    fn is_time_expired(&self, at: Option<Timestamp>) -> bool {
        self.old.is_some_and(|old| at.is_some_and(|at| at < old))
    }

    /// Tells whether a turn is beyond the bounds, whatever still needs it.
    #[must_use]
    pub fn is_turn_expired(&self, row: &TurnRow) -> bool {
        row.no < self.now.turns && (row.no < self.turns || self.is_time_expired(row.ended_at))
    }

    /// Tells whether an event is beyond the bounds by itself, whatever still needs it.
    #[must_use]
    pub fn is_event_expired(&self, row: &EventRow) -> bool {
        row.seq < self.events || self.is_time_expired(Some(row.at))
    }

    /// Counts the events at the beginning of a part of the log that go. `unread` is the first event that a listener
    /// has not read.
    #[must_use]
    pub fn count_expired_events(
        &self,
        rows: &[EventRow],
        in_use: &RecordsInUse,
        unread: Option<u64>,
    ) -> usize {
        let unread = unread.unwrap_or(u64::MAX).min(self.now.events);
        let is_expired = |row: &&EventRow| {
            let is_beyond =
                self.is_event_expired(row) || (row.turn < self.turns && !in_use.turns.contains(&row.turn));
            row.seq < unread && !in_use.open.contains(&row.turn) && is_beyond
        };
        rows.iter().take_while(is_expired).count()
    }

    /// Returns the numbers of those turns that may go once none of their events is left.
    #[must_use]
    pub fn expired_turns(&self, rows: &[TurnRow], in_use: &RecordsInUse) -> Vec<u64> {
        let may_go = |row: &&TurnRow| {
            row.status.is_ended() && self.is_turn_expired(row) && !in_use.turns.contains(&row.no)
        };
        rows.iter().filter(may_go).map(|row| row.no).collect()
    }
}

/// Forgets the events before a number.
pub fn forget_events(writing: &mut BatchBuilder, before: u64) {
    writing.add_mutation(RowMutation::DropEvents { before });
}

/// Forgets turns of which no event is left.
pub fn forget_turns(writing: &mut BatchBuilder, turns: impl IntoIterator<Item = u64>) {
    for turn in turns {
        writing.add_mutation(RowMutation::DropTurn { turn });
    }
}
