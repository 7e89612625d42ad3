//! A store whose answers wait at the gates of a scheduler.

use std::sync::Arc;

use singletree_durable::{
    AcquiredSession, Batch, BoxFuture, Counters, EarlySignalRow, EventRow, FencingToken, InvocationId,
    ItemRange, Journal, JournalMaintenance, ListItemRow, PositionRow, RecordRow, Result, SessionId,
    SessionKey, SessionPage, SessionRow, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery,
    WaitRow, WaitRowQuery,
};
use singletree_store_sqlite::SqliteStore;

use crate::scheduler::{Place, Scheduler};

/// A file's store whose answers wait at the gates of a scheduler.
#[derive(Debug)]
pub(crate) struct Gated {
    store: Arc<SqliteStore>,
    scheduler: Scheduler,
}

impl Gated {
    pub(crate) fn new(store: Arc<SqliteStore>, scheduler: Scheduler) -> Self {
        Self { store, scheduler }
    }

    /// Reads, and holds the answer back. The store is asked in a task of its own: that its answer has come is noted
    /// also while who asked waits at the gate himself.
    fn read<'a, T: Send + 'static>(
        &self,
        name: &'static str,
        reading: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'a, T> {
        let scheduler = self.scheduler.clone();
        Box::pin(async move { held(scheduler.ask(name, false), reading).await })
    }
}

async fn held<T: Send + 'static>(place: Option<Place>, work: impl Future<Output = T> + Send + 'static) -> T {
    let Some(place) = place else { return work.await };
    let come = place.come();
    let answer = tokio::spawn(async move {
        let answer = work.await;
        come();
        answer
    });
    place.through().await;
    answer.await.unwrap()
}

impl Journal for Gated {
    fn acquire<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        let (store, name) = (self.store.clone(), key.clone());
        let acquiring = self.read("acquire", async move { store.acquire(&name).await });
        Box::pin(async move {
            let fence = acquiring.await?.fence;
            // By the single reads, so that others may come between them.
            Ok(AcquiredSession { fence, snapshot: self.read_session_snapshot(key).await? })
        })
    }

    fn release(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        self.store.release(keys)
    }

    fn read_newest_fence(&self) -> BoxFuture<'_, Result<FencingToken>> {
        self.store.read_newest_fence()
    }

    fn log_epoch(&self) -> &str {
        self.store.log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        // The call itself takes its place in the store's order; only its answer waits.
        Box::pin(held(self.scheduler.ask("apply", false), self.store.apply(batch)))
    }

    fn read_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        let store = self.store.clone();
        let key = key.clone();
        self.read("session", async move { store.read_session(&key).await })
    }

    fn read_counters<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        let store = self.store.clone();
        let key = key.clone();
        self.read("numbers", async move { store.read_counters(&key).await })
    }

    fn read_session_page<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        let store = self.store.clone();
        let (tenant, from, limit) = (tenant.clone(), from.cloned(), limit);
        self.read("sessions", async move { store.read_session_page(&tenant, from.as_ref(), limit).await })
    }

    fn read_recent_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        let (store, tenant, past) = (self.store.clone(), tenant.clone(), past.cloned());
        self.read("recent", async move { store.read_recent_sessions(&tenant, past.as_ref(), limit).await })
    }

    fn read_items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        let store = self.store.clone();
        let (key, range) = (key.clone(), range.clone());
        self.read("items", async move { store.read_items(&key, &range).await })
    }

    fn read_turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        let store = self.store.clone();
        let (key, query) = (key.clone(), query.clone());
        self.read("turns", async move { store.read_turns(&key, &query).await })
    }

    fn find_session_of_invocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        let store = self.store.clone();
        let (tenant, invocation) = (tenant.clone(), invocation.clone());
        self.read("session_of", async move { store.find_session_of_invocation(&tenant, &invocation).await })
    }

    fn read_waits<'a>(
        &'a self,
        query: &'a WaitRowQuery,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        let store = self.store.clone();
        let query = query.clone();
        self.read("waits", async move { store.read_waits(&query).await })
    }

    fn read_position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        let store = self.store.clone();
        let (key, invocation) = (key.clone(), invocation.clone());
        self.read("position", async move { store.read_position(&key, &invocation).await })
    }

    fn read_early_signals<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        let store = self.store.clone();
        let key = key.clone();
        self.read("mail", async move { store.read_early_signals(&key).await })
    }

    fn read_positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        let store = self.store.clone();
        let key = key.clone();
        self.read("positions", async move { store.read_positions(&key).await })
    }

    fn read_turn_records<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: u64,
    ) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        let store = self.store.clone();
        let (key, turn) = (key.clone(), turn);
        self.read("records", async move { store.read_turn_records(&key, turn).await })
    }

    fn read_events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        let store = self.store.clone();
        let (key, from, limit) = (key.clone(), from, limit);
        self.read("events", async move { store.read_events(&key, from, limit).await })
    }

    fn read_model_usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let (store, of) = (self.store.clone(), of.clone());
        self.read("usage", async move { store.read_model_usage(&of).await })
    }
}

impl JournalMaintenance for Gated {
    fn read_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        let store = self.store.clone();
        let (past, limit) = (past.cloned(), limit);
        self.read("ownerless", async move { store.read_ownerless_turns(past.as_ref(), limit).await })
    }

    fn read_waits_by_deadline<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        let store = self.store.clone();
        self.read("deadlines", async move { store.read_waits_by_deadline(until, limit).await })
    }

    fn read_tenants<'a>(
        &'a self,
        past: Option<&'a TenantId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        let store = self.store.clone();
        let past = past.cloned();
        self.read("tenants", async move { store.read_tenants(past.as_ref(), limit).await })
    }
}
