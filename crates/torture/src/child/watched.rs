//! A journal that tells which commit is under way: before it is handed over, and when it is answered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{
    Batch, BoxFuture, Counters, EventRow, Fence, InvocationId, ItemRange, ItemRow, Journal, PositionRow, Put,
    RecordRow, Result, SessionId, SessionKey, SessionPage, SessionRow, TenantId, Timestamp, TurnQuery,
    TurnRow, Upkeep, WaitQuery, WaitRow,
};

use super::Say;
use crate::phase::Phase;
use crate::wire::{Line, Moment};

/// A store whose commits are told.
pub(super) struct Watched {
    journal: Arc<dyn Journal>,
    upkeep: Arc<dyn Upkeep>,
    say: Say,
    commits: AtomicU64,
}

impl Watched {
    pub(super) fn new(journal: Arc<dyn Journal>, upkeep: Arc<dyn Upkeep>, say: Say) -> Self {
        Self { journal, upkeep, say, commits: AtomicU64::new(0) }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("journal", &self.journal).finish_non_exhaustive()
    }
}

/// Returns the turn that a batch is about.
fn turn(batch: &Batch) -> Option<u64> {
    batch.puts.iter().find_map(|it| match it {
        Put::Turn(row) => Some(row.no),
        Put::Position(row) => Some(row.turn),
        Put::Record(row) => Some(row.turn),
        _ => None,
    })
}

impl Journal for Watched {
    fn fence(&self) -> Fence {
        self.journal.fence()
    }

    fn log_epoch(&self) -> &str {
        self.journal.log_epoch()
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let n = self.commits.fetch_add(1, Ordering::Relaxed);
        let (phase, turn, session) = (Phase::of(&batch), turn(&batch), batch.key.session.to_string());
        let line = move |at| Line::Commit { n, phase, session: session.clone(), turn, at };
        (self.say)(&line(Moment::Begin));
        let landing = self.journal.apply(batch);
        let say = self.say.clone();
        Box::pin(async move {
            let landed = landing.await;
            say(&line(Moment::End));
            landed
        })
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        self.journal.session(key)
    }

    fn numbers<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        self.journal.numbers(key)
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        self.journal.sessions(tenant, from, limit)
    }

    fn items<'a>(&'a self, key: &'a SessionKey, range: &'a ItemRange) -> BoxFuture<'a, Result<Vec<ItemRow>>> {
        self.journal.items(key, range)
    }

    fn turns<'a>(&'a self, key: &'a SessionKey, query: &'a TurnQuery) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        self.journal.turns(key, query)
    }

    fn session_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        self.journal.session_of(tenant, invocation)
    }

    fn waits<'a>(&'a self, query: &'a WaitQuery) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.journal.waits(query)
    }

    fn position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        self.journal.position(key, invocation)
    }

    fn records<'a>(&'a self, key: &'a SessionKey, turn: u64) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        self.journal.records(key, turn)
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        self.journal.events(key, from, limit)
    }
}

impl Upkeep for Watched {
    fn ownerless<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        self.upkeep.ownerless(past, limit)
    }

    fn deadlines<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        self.upkeep.deadlines(until, limit)
    }
}
