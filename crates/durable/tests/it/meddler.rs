//! A journal in which somebody else is always a little faster.

use std::collections::VecDeque;
use std::sync::Mutex;

use singletree_durable::{
    Batch, BoxFuture, Counters, EventRow, Fence, InvocationId, ItemRange, ItemRow, Journal, MemoryStore,
    PositionRow, RecordRow, Result, SessionId, SessionKey, SessionPage, SessionRow, TenantId, TurnQuery,
    TurnRow, WaitQuery, WaitRow,
};

/// Lands the next of its own batches right before each batch of the caller.
#[derive(Debug)]
pub(crate) struct Meddler {
    inner: MemoryStore,
    next: Mutex<VecDeque<Batch>>,
}

impl Meddler {
    pub(crate) fn new(inner: MemoryStore, batches: impl Into<VecDeque<Batch>>) -> Self {
        Self { inner, next: Mutex::new(batches.into()) }
    }
}

impl Journal for Meddler {
    fn fence(&self) -> Fence {
        self.inner.fence()
    }

    fn log_epoch(&self) -> &str {
        self.inner.log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        if let Some(meddle) = self.next.lock().expect("no test panics here").pop_front() {
            // The memory store writes when it is called.
            drop(self.inner.apply(meddle));
        }
        self.inner.apply(batch)
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        self.inner.session(key)
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
        self.inner.items(key, range)
    }

    fn turns<'a>(&'a self, key: &'a SessionKey, query: &'a TurnQuery) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
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
