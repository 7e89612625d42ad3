//! A journal that dies.

use singletree_durable::{
    Batch, BoxFuture, Counters, EarlySignalRow, EventRow, FencingToken, InvocationId, ItemRange, Journal,
    JournalMaintenance, ListItemRow, PositionRow, RecordRow, Result, SessionId, SessionKey, SessionPage,
    SessionRow, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery, WaitRow, WaitRowQuery,
};

use super::FaultInjectingStore;

impl<S: Journal + ?Sized> Journal for FaultInjectingStore<S> {
    fn fence(&self) -> FencingToken {
        self.inner.fence()
    }

    fn log_epoch(&self) -> &str {
        self.inner.log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.fuse.guard(|| self.inner.apply(batch))
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

    fn recent<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        self.inner.recent(tenant, past, limit)
    }

    fn items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        self.inner.items(key, range)
    }

    fn turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        self.inner.turns(key, query)
    }

    fn session_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        self.inner.session_of(tenant, invocation)
    }

    fn waits<'a>(&'a self, query: &'a WaitRowQuery) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.inner.waits(query)
    }

    fn mail<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        self.inner.mail(key)
    }

    fn position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        self.inner.position(key, invocation)
    }

    fn positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        self.inner.positions(key)
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

    fn usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        self.inner.usage(of)
    }
}

impl<S: JournalMaintenance + ?Sized> JournalMaintenance for FaultInjectingStore<S> {
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

    fn tenants<'a>(&'a self, past: Option<&'a TenantId>, limit: u64) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        self.inner.tenants(past, limit)
    }
}
