//! The store as a journal.

use singletree_durable::{
    AcquiredSession, Batch, BoxFuture, ChangeFollower, Counters, EarlySignalRow, EventRow, FencingToken,
    InvocationId, ItemRange, Journal, ListItemRow, LoggedTurn, LoggedTurnQuery, PositionRow, RecordRow,
    Result, ServedGraphs, SessionId, SessionKey, SessionPage, SessionRow, SessionSnapshot, TenantId,
    Timestamp, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery, WaitRow, WaitRowQuery,
};

use crate::PostgresStore;
use crate::changes::PostgresChangeFollower;

impl Journal for PostgresStore {
    fn acquire<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        Box::pin(self.inner().acquire_session(key))
    }

    fn release(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        self.inner().release_sessions(keys)
    }

    fn read_newest_fence(&self) -> BoxFuture<'_, Result<FencingToken>> {
        Box::pin(self.inner().read_newest_fence())
    }

    fn has_other_writers(&self) -> bool {
        true
    }

    fn follow_changes(&self) -> Option<Box<dyn ChangeFollower>> {
        Some(Box::new(PostgresChangeFollower::new(self.inner().clone())))
    }

    fn check_lease<'a>(&'a self, key: &'a SessionKey, fence: FencingToken) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.inner().check_lease(key, fence))
    }

    fn announce_graphs(&self, served: ServedGraphs) {
        self.inner().announce_graphs(served);
    }

    fn log_epoch(&self) -> &str {
        &self.inner().log_epoch
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.inner().submit_batch(batch)
    }

    fn read_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        Box::pin(self.inner().read_session(key))
    }

    fn read_session_snapshot<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionSnapshot>> {
        Box::pin(self.inner().read_snapshot(key))
    }

    fn read_counters<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        Box::pin(self.inner().read_counters(key))
    }

    fn read_session_page<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        Box::pin(self.inner().read_session_page(tenant, from, limit))
    }

    fn read_recent_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        Box::pin(self.inner().read_recent_sessions(tenant, past, limit))
    }

    fn read_items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        Box::pin(self.inner().read_items(key, range))
    }

    fn read_turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        Box::pin(self.inner().read_turns(key, query))
    }

    fn find_session_of_invocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        Box::pin(self.inner().find_session_of_invocation(tenant, invocation))
    }

    fn read_waits<'a>(
        &'a self,
        query: &'a WaitRowQuery,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        Box::pin(self.inner().read_waits(query))
    }

    fn read_early_signals<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        Box::pin(self.inner().read_early_signals(key))
    }

    fn read_position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        Box::pin(self.inner().read_position(key, invocation))
    }

    fn read_positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        Box::pin(self.inner().read_positions(key))
    }

    fn read_turn_records<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: u64,
    ) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        Box::pin(self.inner().read_turn_records(key, turn))
    }

    fn read_events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        Box::pin(self.inner().read_events(key, from, limit))
    }

    fn read_logged_turns<'a>(
        &'a self,
        queries: &'a [LoggedTurnQuery],
    ) -> BoxFuture<'a, Result<Vec<LoggedTurn>>> {
        Box::pin(self.inner().read_logged_turns(queries))
    }

    fn read_model_usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        Box::pin(self.inner().read_model_usage(of))
    }
}
