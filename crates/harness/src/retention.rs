//! How long data of the past is kept, and the background task that removes it (INV-12).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use singletree_durable::{Counters, SessionKey, TenantId};
use tokio::sync::Notify;

use crate::Result;
use crate::chat::Chat;
use crate::chat_inner::ChatInner;
use crate::loaded_session::LoadedSession;

/// How much is kept of a session beside its state and history. `None` keeps everything.
///
/// Never forgotten: messages of a history; all data of an invocation that is not over, so that each wait, answer,
/// recovery and duplicate still finds it; and events that a stream of this process has not handed out yet. A request
/// for data that is no longer kept gets an error: `chat_events_expired`, `chat_turn_unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// The number of a session's last turns whose records are kept. With a record go the turn's idempotency key (D3: a
    /// later send under it is a new one), its waits, its items that did not become history, and its events.
    pub turns: Option<u64>,
    /// How many of a session's last events are kept. They go in order, oldest first: an event that has to stay keeps
    /// those after it.
    pub events: Option<u64>,
    /// How old the end of a turn, or an event, may be. Whichever bound is narrower counts.
    pub age: Option<Duration>,
}

/// How much was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionReport {
    /// Sessions of which something was forgotten.
    pub sessions: u64,
    /// Records of turns.
    pub turns: u64,
    /// Events.
    pub events: u64,
}

impl RetentionReport {
    fn add_session_report(&mut self, one: Self) {
        self.sessions += u64::from(one.turns + one.events > 0);
        self.turns += one.turns;
        self.events += one.events;
    }
}

/// The time after which all sessions are looked at again, for data that has become too old.
const ROUND: Duration = Duration::from_secs(3600);

/// How many sessions are read at once.
const PAGE: u64 = 64;

/// The background work of a retention.
#[derive(Debug)]
pub(crate) struct RetentionWorker {
    retention: Option<Retention>,
    watching: AtomicBool,
    /// Sessions in which enough has happened that it is worth a look. Held for a moment.
    due: Mutex<BTreeSet<SessionKey>>,
    /// Rung when one is due, and at shutdown.
    pub(crate) bell: Arc<Notify>,
}

impl RetentionWorker {
    pub(crate) fn new(retention: Option<Retention>) -> Self {
        let (due, bell) = Default::default();
        Self { retention, watching: AtomicBool::new(false), due, bell }
    }

    fn take_due_sessions(&self) -> BTreeSet<SessionKey> {
        std::mem::take(&mut *self.due.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Checks whether enough was added since the last look to make another one worthwhile: an eighth of the limit, at least
/// 1 and at most 64.
fn is_retention_due(limit: Option<u64>, before: u64, now: u64) -> bool {
    limit.is_some_and(|limit| now.saturating_sub(before) >= (limit / 8).clamp(1, 64))
}

impl ChatInner {
    /// A turn has ended: perhaps an older one need not be kept any more.
    pub(crate) fn note_turn_end(&self, loaded: &LoadedSession) {
        let Some(retention) = self.retaining.retention else { return };
        let is_due = loaded.lock_state().begin_retention(|before, now| {
            is_retention_due(retention.turns, before.turns, now.turns)
                || is_retention_due(retention.events, before.events, now.events)
        });
        if !is_due {
            return;
        }
        self.retaining.due.lock().unwrap_or_else(PoisonError::into_inner).insert(loaded.key.clone());
        self.retaining.bell.notify_one();
    }

    /// Sees to the retention in the background, from the first call on.
    pub(crate) fn watch_retention(self: &Arc<Self>) {
        let Some(retention) = self.retaining.retention else { return };
        if self.retaining.watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let (watched, timer) = (Arc::downgrade(self), self.env.timer.clone());
        let clock = self.env.monotonic.clone();
        self.tasks.spawn_task(async move {
            let mut round = clock.elapsed_since_origin();
            while let Some(inner) = watched.upgrade().filter(|inner| !inner.is_closing()) {
                // A failed round is left to the next one: nothing depends on it.
                if clock.elapsed_since_origin() >= round {
                    drop(inner.retain_all_sessions(&retention).await);
                    round = clock.elapsed_since_origin() + ROUND;
                }
                for key in inner.retaining.take_due_sessions() {
                    drop(inner.retain_due_session(&key, &retention).await);
                }
                let bell = inner.retaining.bell.clone();
                drop(inner);
                let left = round.saturating_sub(clock.elapsed_since_origin());
                drop(timer.run_with_timeout(left, bell.notified()).await);
            }
        });
    }

    async fn retain_due_session(
        self: &Arc<Self>,
        key: &SessionKey,
        retention: &Retention,
    ) -> Result<RetentionReport> {
        match self.await_store_read(self.journal.read_session(key)).await? {
            Some(row) => self.apply_retention(key, row.counters, retention).await,
            None => Ok(RetentionReport::default()),
        }
    }

    async fn retain_all_sessions(self: &Arc<Self>, retention: &Retention) -> Result<RetentionReport> {
        let mut all = RetentionReport::default();
        if let Some(tenant) = &self.bound {
            self.retain_tenant_sessions(tenant, retention, &mut all).await?;
            return Ok(all);
        }
        let mut past = None;
        loop {
            let tenants = self.await_store_read(self.upkeep.read_tenants(past.as_ref(), PAGE)).await?;
            for tenant in &tenants {
                self.retain_tenant_sessions(tenant, retention, &mut all).await?;
            }
            match tenants.into_iter().next_back() {
                Some(last) if !self.is_closing() => past = Some(last),
                _ => return Ok(all),
            }
        }
    }

    async fn retain_tenant_sessions(
        self: &Arc<Self>,
        tenant: &TenantId,
        retention: &Retention,
        all: &mut RetentionReport,
    ) -> Result<()> {
        let mut from = None;
        loop {
            let page =
                self.await_store_read(self.journal.read_session_page(tenant, from.as_ref(), PAGE)).await?;
            for row in page.sessions {
                if self.is_closing() {
                    return Ok(());
                }
                let has_turns = row.counters != Counters::default();
                if has_turns {
                    all.add_session_report(self.apply_retention(&row.key, row.counters, retention).await?);
                }
            }
            from = page.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }
}

impl Chat {
    /// Applies a retention now, in all sessions of all tenants that the chat serves, in small transactions beside
    /// running turns.
    ///
    /// # Errors
    /// `store_unavailable` and its kin; data that was forgotten by then stays forgotten.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: all of it is forgotten.
    pub async fn retain(&self, retention: &Retention) -> Result<RetentionReport> {
        let (inner, retention) = (self.inner.clone(), *retention);
        self.inner.run_call_in_task(async move { inner.retain_all_sessions(&retention).await }).await
    }
}
