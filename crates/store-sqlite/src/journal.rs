//! The store as a journal.

use singletree_durable::{
    Batch, BoxFuture, Counters, EarlySignalRow, EventRow, FencingToken, InvocationId, ItemRange, Journal,
    ListItemRow, PositionRow, RecordRow, Result, SessionId, SessionKey, SessionPage, SessionRow,
    SessionSnapshot, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow, UsageRowQuery, WaitRow,
    WaitRowQuery,
};

use crate::writer::WriteOperation;
use crate::{SqliteStore, read};

impl Journal for SqliteStore {
    fn fence(&self) -> FencingToken {
        self.meta().fence
    }

    fn log_epoch(&self) -> &str {
        &self.meta().log_epoch
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let answer = self.hand_over(WriteOperation::Apply(batch));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        let key = key.clone();
        self.query(move |snapshot| read::session::one(snapshot, &key))
    }

    fn dossier<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<SessionSnapshot>> {
        let key = key.clone();
        self.query(move |snapshot| read::dossier::of(snapshot, &key))
    }

    fn numbers<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        let key = key.clone();
        self.query(move |snapshot| read::session::numbers(snapshot, &key))
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        let (tenant, from) = (tenant.clone(), from.cloned());
        self.query(move |snapshot| read::session::page(snapshot, &tenant, from.as_ref(), limit))
    }

    fn recent<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        let (tenant, past) = (tenant.clone(), past.cloned());
        self.query(move |snapshot| read::session::recent(snapshot, &tenant, past.as_ref(), limit))
    }

    fn items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        let (key, range) = (key.clone(), range.clone());
        self.query(move |snapshot| read::item::range(snapshot, &key, &range))
    }

    fn turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        let (key, query) = (key.clone(), query.clone());
        self.query(move |snapshot| read::turn::of(snapshot, &key, &query))
    }

    fn session_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        let (tenant, invocation) = (tenant.clone(), invocation.clone());
        self.query(move |snapshot| read::turn::session_of(snapshot, &tenant, &invocation))
    }

    fn waits<'a>(&'a self, query: &'a WaitRowQuery) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        let query = query.clone();
        self.query(move |snapshot| read::wait::of(snapshot, &query))
    }

    fn mail<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        let key = key.clone();
        self.query(move |snapshot| read::wait::mail(snapshot, &key))
    }

    fn position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        let (key, invocation) = (key.clone(), invocation.clone());
        self.query(move |snapshot| read::position::of(snapshot, &key, &invocation))
    }

    fn positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        let key = key.clone();
        self.query(move |snapshot| read::position::all_of(snapshot, &key))
    }

    fn records<'a>(&'a self, key: &'a SessionKey, turn: u64) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        let key = key.clone();
        self.query(move |snapshot| read::position::records(snapshot, &key, turn))
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        let key = key.clone();
        self.query(move |snapshot| read::event::from(snapshot, &key, from, limit))
    }

    fn usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        let (of, kept) = (of.clone(), self.has_shelf());
        self.query(move |snapshot| if kept { read::usage::of(snapshot, &of) } else { Ok(Vec::new()) })
    }
}
