//! The store as a journal.

use singletree_durable::{
    AcquiredSession, Batch, BoxFuture, Counters, EarlySignalRow, EventRow, FencingToken, InvocationId,
    ItemRange, Journal, ListItemRow, LoggedTurn, LoggedTurnQuery, PositionRow, RecordRow, Result, SessionId,
    SessionKey, SessionPage, SessionRow, SessionSnapshot, TenantId, Timestamp, TurnRow, TurnRowQuery,
    UsageRow, UsageRowQuery, WaitRow, WaitRowQuery,
};

use crate::{SqliteStore, format, read};

impl Journal for SqliteStore {
    fn acquire<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        Box::pin(self.acquire_session(key))
    }

    fn release(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        self.release_sessions(&keys);
        Box::pin(std::future::ready(Ok(())))
    }

    fn read_newest_fence(&self) -> BoxFuture<'_, Result<FencingToken>> {
        self.query_in_snapshot(|snapshot| format::read_fence(snapshot))
    }

    fn log_epoch(&self) -> &str {
        &self.metadata().log_epoch
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let answer = self.submit_batch(batch);
        Box::pin(async move { answer.await.map(drop) })
    }

    fn read_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::session::read_session(snapshot, &key))
    }

    fn read_session_snapshot<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionSnapshot>> {
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::dossier::read_session_snapshot(snapshot, &key))
    }

    fn read_counters<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::session::read_counters(snapshot, &key))
    }

    fn read_session_page<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        let (tenant, from) = (tenant.clone(), from.cloned());
        self.query_in_snapshot(move |snapshot| {
            read::session::read_session_page(snapshot, &tenant, from.as_ref(), limit)
        })
    }

    fn read_recent_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        let (tenant, past) = (tenant.clone(), past.cloned());
        self.query_in_snapshot(move |snapshot| {
            read::session::read_recent_sessions(snapshot, &tenant, past.as_ref(), limit)
        })
    }

    fn read_items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        let (key, range) = (key.clone(), range.clone());
        self.query_in_snapshot(move |snapshot| read::item::read_items(snapshot, &key, &range))
    }

    fn read_turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        let (key, query) = (key.clone(), query.clone());
        self.query_in_snapshot(move |snapshot| read::turn::read_turns(snapshot, &key, &query))
    }

    fn find_session_of_invocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        let (tenant, invocation) = (tenant.clone(), invocation.clone());
        self.query_in_snapshot(move |snapshot| {
            read::turn::find_session_of_invocation(snapshot, &tenant, &invocation)
        })
    }

    fn read_waits<'a>(
        &'a self,
        query: &'a WaitRowQuery,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        let query = query.clone();
        self.query_in_snapshot(move |snapshot| read::wait::read_waits(snapshot, &query))
    }

    fn read_early_signals<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::wait::read_early_signals(snapshot, &key))
    }

    fn read_position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        let (key, invocation) = (key.clone(), invocation.clone());
        self.query_in_snapshot(move |snapshot| read::position::read_position(snapshot, &key, &invocation))
    }

    fn read_positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::position::read_positions(snapshot, &key))
    }

    fn read_turn_records<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: u64,
    ) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::position::read_turn_records(snapshot, &key, turn))
    }

    fn read_events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::event::read_events(snapshot, &key, from, limit))
    }

    fn read_logged_turns<'a>(
        &'a self,
        queries: &'a [LoggedTurnQuery],
    ) -> BoxFuture<'a, Result<Vec<LoggedTurn>>> {
        let queries = queries.to_vec();
        self.query_in_snapshot(move |snapshot| read::turn::read_logged_turns(snapshot, &queries))
    }

    fn read_model_usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let (of, kept) = (of.clone(), self.has_document_tables());
        self.query_in_snapshot(move |snapshot| {
            if kept { read::usage::read_model_usage(snapshot, &of) } else { Ok(Vec::new()) }
        })
    }
}
