//! Removes, in one session, the data that a retention does not keep: events from the oldest on, then turns that have no
//! events left.
//!
//! Two rules protect readers from gaps. Only the beginning of the log is removed, and never an event that a listener
//! has not read. A turn's row is removed when none of its events is left, so that each remaining event can be shown
//! completely.

use std::collections::BTreeSet;
use std::sync::Arc;

use singletree_durable::{
    Batch, Counters, Error as StoreError, EventRow, InvocationId, RowMutation, SessionKey, Timestamp,
    TurnRow, TurnRowQuery, WaitRowQuery,
};

use crate::Result;
use crate::chat_inner::ChatInner;
use crate::loaded_session::LoadedSession;
use crate::retention::{Retention, RetentionReport};

/// How many events go in one transaction.
const EVENTS: u64 = 256;

/// How many turns go in one transaction.
const TURNS: u64 = 64;

/// The bounds by number and time below which finished turns and events are not kept.
#[derive(Debug, Clone, Copy)]
struct RetentionBounds {
    /// Turns below this number, and events below that, are more than are kept.
    turns: u64,
    events: u64,
    /// Turns that ended and events that occurred before this time are too old.
    old: Option<Timestamp>,
    /// The counters at the start of this pass; later turns and events are not considered.
    now: Counters,
}

impl RetentionBounds {
    fn from_retention(now: Counters, retention: &Retention, at: Timestamp) -> Self {
        let below = |count: u64, kept: Option<u64>| kept.map_or(0, |kept| count.saturating_sub(kept));
        let age = retention.age.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        Self {
            turns: below(now.turns, retention.turns),
            events: below(now.events, retention.events),
            old: age.map(|age| Timestamp::from_millis(at.as_millis().saturating_sub(age))),
            now,
        }
    }

    fn is_time_expired(&self, at: Option<Timestamp>) -> bool {
        self.old.is_some_and(|old| at.is_some_and(|at| at < old))
    }

    /// Tells whether a turn is beyond the bounds, whatever still needs it.
    fn is_turn_expired(&self, row: &TurnRow) -> bool {
        row.no < self.now.turns && (row.no < self.turns || self.is_time_expired(row.ended_at))
    }
}

/// The invocations and turns in use, which are kept.
#[derive(Debug, Default)]
struct RecordsInUse {
    /// Invocations that are not over.
    invocations: BTreeSet<InvocationId>,
    /// The numbers of their turns, and of the turns that these retry.
    turns: BTreeSet<u64>,
    /// The numbers of those that have no outcome yet, or whose outcome is not told yet.
    open: BTreeSet<u64>,
}

impl ChatInner {
    /// Removes the data of a session that a retention does not keep. `counters` are the current counters of the
    /// session.
    pub(crate) async fn apply_retention(
        self: &Arc<Self>,
        key: &SessionKey,
        counters: Counters,
        retention: &Retention,
    ) -> Result<RetentionReport> {
        let bounds = RetentionBounds::from_retention(counters, retention, self.current_time());
        let mut forgotten = RetentionReport::default();
        if !self.has_expired_records(key, &bounds).await? {
            return Ok(forgotten);
        }
        let loaded = self.session_in_memory(key)?;
        // New listeners wait meanwhile, and then see the remaining log.
        let _alone = loaded.forgetting.write().await;
        let busy = self.read_records_in_use(&loaded).await?;
        let done = async {
            let floor = self.drop_expired_events(&loaded, &bounds, &busy, &mut forgotten.events).await?;
            self.drop_expired_turns(&loaded, (&bounds, floor), &busy, &mut forgotten.turns).await
        };
        match done.await {
            // The session changed under us; the next look goes on.
            Err(crate::Error::Store { source: StoreError::Refused { .. } }) | Ok(()) => Ok(forgotten),
            Err(error) => Err(error),
        }
    }

    /// Looks whether the oldest turn or event is beyond the bounds.
    async fn has_expired_records(&self, key: &SessionKey, bounds: &RetentionBounds) -> Result<bool> {
        let oldest = TurnRowQuery::From { no: 0, limit: 1 };
        let turn = self.await_store_read(self.journal.read_turns(key, &oldest)).await?;
        if turn.first().is_some_and(|turn| bounds.is_turn_expired(turn)) {
            return Ok(true);
        }
        let event = self.await_store_read(self.journal.read_events(key, 0, 1)).await?;
        Ok(event
            .first()
            .is_some_and(|event| event.seq < bounds.events || bounds.is_time_expired(Some(event.at))))
    }

    async fn read_records_in_use(&self, loaded: &LoadedSession) -> Result<RecordsInUse> {
        let mut busy = RecordsInUse::default();
        let open = self.await_store_read(self.journal.read_turns(&loaded.key, &TurnRowQuery::Open)).await?;
        busy.open.extend(open.iter().map(|item| item.no));
        busy.invocations.extend(open.into_iter().map(|item| item.invocation));
        // In this order: a turn whose end is stored but not told yet is still here (D20).
        let untold = loaded.lock_state().turn_invocations();
        let pending = self
            .await_store_read(self.journal.read_waits(&WaitRowQuery::Pending(loaded.key.clone())))
            .await?;
        busy.invocations.extend(pending.into_iter().map(|(_, it)| it.invocation));
        busy.invocations.extend(untold.iter().cloned());
        for invocation in &busy.invocations {
            let query = TurnRowQuery::Invocation(invocation.clone());
            let turns = self.await_store_read(self.journal.read_turns(&loaded.key, &query)).await?;
            busy.turns.extend(turns.iter().map(|turn| turn.no));
            if untold.contains(invocation) {
                busy.open.extend(turns.iter().map(|turn| turn.no));
            }
            self.keep_retried_turns(loaded, turns, &mut busy.turns).await?;
        }
        Ok(busy)
    }

    /// Adds the failed turns whose messages these turns answer (D29).
    async fn keep_retried_turns(
        &self,
        loaded: &LoadedSession,
        turns: Vec<TurnRow>,
        busy: &mut BTreeSet<u64>,
    ) -> Result<()> {
        let mut retried: Vec<u64> = turns.into_iter().filter_map(|turn| turn.retries).collect();
        while let Some(no) = retried.pop() {
            if busy.insert(no) {
                let rows = self
                    .await_store_read(self.journal.read_turns(&loaded.key, &TurnRowQuery::No(no)))
                    .await?;
                retried.extend(rows.into_iter().filter_map(|row| row.retries));
            }
        }
        Ok(())
    }

    /// Removes events from the oldest on, up to the first that stays; returns where the log begins then.
    async fn drop_expired_events(
        &self,
        loaded: &LoadedSession,
        bounds: &RetentionBounds,
        busy: &RecordsInUse,
        forgotten: &mut u64,
    ) -> Result<u64> {
        let mut floor = 0;
        loop {
            let rows = self.await_store_read(self.journal.read_events(&loaded.key, floor, EVENTS)).await?;
            let unread = loaded.readers.lowest_position().unwrap_or(u64::MAX).min(bounds.now.events);
            let goes = |it: &&EventRow| {
                let is_beyond = it.seq < bounds.events
                    || bounds.is_time_expired(Some(it.at))
                    || (it.turn < bounds.turns && !busy.turns.contains(&it.turn));
                it.seq < unread && !busy.open.contains(&it.turn) && is_beyond
            };
            let going = rows.iter().take_while(goes).count();
            let Some(last) = going.checked_sub(1).and_then(|left| rows.get(left)) else { return Ok(floor) };
            floor = last.seq + 1;
            self.apply_mutations(loaded, vec![RowMutation::DropEvents { before: floor }]).await?;
            *forgotten += going as u64;
            if going as u64 != EVENTS {
                return Ok(floor);
            }
        }
    }

    /// Removes the turns that are beyond the bounds, not in use, and have no event left.
    async fn drop_expired_turns(
        &self,
        loaded: &LoadedSession,
        (bounds, floor): (&RetentionBounds, u64),
        busy: &RecordsInUse,
        forgotten: &mut u64,
    ) -> Result<()> {
        let (mut from, mut told) = (0, None::<BTreeSet<u64>>);
        loop {
            let page = TurnRowQuery::From { no: from, limit: TURNS };
            let rows = self.await_store_read(self.journal.read_turns(&loaded.key, &page)).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            from = last.no + 1;
            let more = rows.len() as u64 == TURNS && bounds.is_turn_expired(last);
            let may_go = |it: &&TurnRow| {
                it.status.is_ended() && bounds.is_turn_expired(it) && !busy.turns.contains(&it.no)
            };
            let candidates: Vec<u64> = rows.iter().filter(may_go).map(|row| row.no).collect();
            if !candidates.is_empty() {
                let told = match &mut told {
                    Some(told) => told,
                    unread => unread.insert(self.read_turns_with_events(loaded, floor).await?),
                };
                let going = candidates.into_iter().filter(|candidate| !told.contains(candidate));
                let puts: Vec<RowMutation> = going.map(|turn| RowMutation::DropTurn { turn }).collect();
                let count = puts.len() as u64;
                self.apply_mutations(loaded, puts).await?;
                *forgotten += count;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Returns the numbers of the turns of which events are left.
    async fn read_turns_with_events(&self, loaded: &LoadedSession, mut from: u64) -> Result<BTreeSet<u64>> {
        let mut told = BTreeSet::new();
        loop {
            let rows = self.await_store_read(self.journal.read_events(&loaded.key, from, EVENTS)).await?;
            told.extend(rows.iter().map(|row| row.turn));
            match rows.last() {
                Some(last) if rows.len() as u64 == EVENTS => from = last.seq + 1,
                _ => return Ok(told),
            }
        }
    }

    async fn apply_mutations(&self, loaded: &LoadedSession, puts: Vec<RowMutation>) -> Result<()> {
        if puts.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new(loaded.key.clone(), self.journal.fence());
        batch.puts = puts;
        Ok(self.journal.apply(batch).await?)
    }
}
