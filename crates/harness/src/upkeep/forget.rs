//! Removes, in one session, the data that a retention does not keep: events from the oldest on, then turns that have no
//! events left.
//!
//! What goes is decided by `RetentionBounds` of the session core; each removal is a commit of the session.

use std::collections::BTreeSet;
use std::sync::Arc;

use singletree_durable::{Counters, Error as StoreError, SessionKey, TurnRow, TurnRowQuery, WaitRowQuery};
use singletree_session::{BatchBuilder, RecordsInUse, RetentionBounds, apply};

use crate::Result;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::LoadedSession;
use crate::runtime::retention::{Retention, RetentionReport};

/// How many events go in one transaction.
const EVENTS: u64 = 256;

/// How many turns go in one transaction.
const TURNS: u64 = 64;

impl ChatInner {
    /// Removes the data of a session that a retention does not keep. `counters` are the current counters of the
    /// session.
    pub(crate) async fn apply_retention(
        self: &Arc<Self>,
        key: &SessionKey,
        counters: Counters,
        retention: &Retention,
    ) -> Result<RetentionReport> {
        let bounds = {
            let kept = (retention.turns, retention.events);
            RetentionBounds::new(counters, self.current_time(), kept, retention.age)
        };
        let mut forgotten = RetentionReport::default();
        if !self.has_expired_records(key, &bounds).await? {
            return Ok(forgotten);
        }
        let loaded = self.session_in_memory(key)?;
        self.ensure_session_ready(&loaded).await?;
        // New listeners wait meanwhile, and then see the remaining log.
        let _alone = loaded.forgetting.write().await;
        let busy = self.read_records_in_use(&loaded).await?;
        let done = async {
            let floor = self.drop_expired_events(&loaded, &bounds, &busy, &mut forgotten.events).await?;
            self.drop_expired_turns(&loaded, (&bounds, floor), &busy, &mut forgotten.turns).await
        };
        match done.await {
            // The session changed under us; the next look goes on.
            Err(crate::Error::Store {
                source: StoreError::Refused { .. } | StoreError::LeaseLost { .. },
            })
            | Ok(()) => Ok(forgotten),
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
        Ok(event.first().is_some_and(|event| bounds.is_event_expired(event)))
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
        loaded: &Arc<LoadedSession>,
        bounds: &RetentionBounds,
        busy: &RecordsInUse,
        forgotten: &mut u64,
    ) -> Result<u64> {
        let mut floor = 0;
        loop {
            let rows = self.await_store_read(self.journal.read_events(&loaded.key, floor, EVENTS)).await?;
            let going = bounds.count_expired_events(&rows, busy, loaded.readers.lowest_position());
            let Some(last) = going.checked_sub(1).and_then(|left| rows.get(left)) else { return Ok(floor) };
            floor = last.seq + 1;
            self.commit_forgetting(loaded, |writing| apply::forget::forget_events(writing, floor)).await?;
            *forgotten += going as u64;
            if going as u64 != EVENTS {
                return Ok(floor);
            }
        }
    }

    /// Removes the turns that are beyond the bounds, not in use, and have no event left.
    async fn drop_expired_turns(
        &self,
        loaded: &Arc<LoadedSession>,
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
            let candidates = bounds.expired_turns(&rows, busy);
            if !candidates.is_empty() {
                let told = match &mut told {
                    Some(told) => told,
                    unread => unread.insert(self.read_turns_with_events(loaded, floor).await?),
                };
                let going: Vec<u64> =
                    candidates.into_iter().filter(|candidate| !told.contains(candidate)).collect();
                let count = going.len() as u64;
                if count > 0 {
                    self.commit_forgetting(loaded, |writing| apply::forget::forget_turns(writing, going))
                        .await?;
                }
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

    async fn commit_forgetting(
        &self,
        loaded: &Arc<LoadedSession>,
        decision: impl FnOnce(&mut BatchBuilder),
    ) -> Result<()> {
        let ((), commit) = self.commit_decision(loaded, |_, writing| {
            decision(writing);
            Ok::<_, crate::Error>(())
        })?;
        Ok(self.await_commit(loaded, commit).await?)
    }
}
