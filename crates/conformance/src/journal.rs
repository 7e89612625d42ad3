//! The journal of a chat case: in memory, counted, and failing as the fixture says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use singletree::MemoryStore;
use singletree::durable::{
    Batch, BoxFuture, Counters, Error, EventRow, Fence, InvocationId, ItemRange, ItemRow, Journal,
    PositionRow, RecordRow, Result, SessionId, SessionKey, SessionPage, SessionRow, TenantId, Timestamp,
    TurnQuery, TurnRow, Upkeep, WaitQuery, WaitRow,
};

use crate::adapt::StoreSpec;

/// A journal in memory that counts what is asked of a session.
#[derive(Debug, Clone)]
pub(crate) struct WatchedJournal {
    inner: MemoryStore,
    spec: StoreSpec,
    calls: Arc<AtomicUsize>,
}

impl WatchedJournal {
    /// Makes an empty journal.
    #[must_use]
    pub(crate) fn new(spec: StoreSpec) -> Self {
        Self { inner: MemoryStore::new(), spec, calls: Arc::default() }
    }

    /// Returns how often it was called for a session.
    #[must_use]
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns what is inside, which neither counts nor fails.
    #[must_use]
    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn broken<T: Send + 'static>(doing: &'static str) -> BoxFuture<'static, Result<T>> {
        let error = Error::Unavailable { doing, source: "the fixture lets this store fail".into() };
        Box::pin(std::future::ready(Err(error)))
    }
}

impl Journal for WatchedJournal {
    fn fence(&self) -> Fence {
        self.inner.fence()
    }

    fn log_epoch(&self) -> &str {
        self.inner.log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.count();
        if self.spec.save_raises.is_some() { Self::broken("write a batch") } else { self.inner.apply(batch) }
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        self.count();
        if self.spec.load_raises { Self::broken("read a session") } else { self.inner.session(key) }
    }

    fn numbers<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        self.inner.numbers(key)
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        self.inner.sessions(tenant, from, limit)
    }

    fn items<'a>(&'a self, key: &'a SessionKey, range: &'a ItemRange) -> BoxFuture<'a, Result<Vec<ItemRow>>> {
        self.count();
        if self.spec.load_raises { Self::broken("read items") } else { self.inner.items(key, range) }
    }

    fn turns<'a>(&'a self, key: &'a SessionKey, query: &'a TurnQuery) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        self.count();
        self.inner.turns(key, query)
    }

    fn session_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        self.inner.session_of(tenant, invocation)
    }

    fn waits<'a>(&'a self, query: &'a WaitQuery) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.inner.waits(query)
    }

    fn position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        self.inner.position(key, invocation)
    }

    fn records<'a>(&'a self, key: &'a SessionKey, turn: u64) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        self.inner.records(key, turn)
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        self.inner.events(key, from, limit)
    }
}

impl Upkeep for WatchedJournal {
    fn ownerless<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        self.inner.ownerless(past, limit)
    }

    fn deadlines<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.inner.deadlines(until, limit)
    }
}
