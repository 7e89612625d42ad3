//! How long data of the past is kept, and the background task that removes it (INV-12).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use singletree_durable::{Counters, SessionKey, TenantId};

use crate::Result;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::loaded_session::LoadedSession;
use crate::runtime::retention::{Retention, RetentionReport};

/// The time after which all sessions are looked at again, for data that has become too old.
const ROUND: Duration = Duration::from_secs(3600);

/// How many sessions are read at once.
const PAGE: u64 = 64;

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

    pub(crate) async fn retain_all_sessions(
        self: &Arc<Self>,
        retention: &Retention,
    ) -> Result<RetentionReport> {
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
