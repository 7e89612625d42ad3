//! A store that breaks one promise.

mod batches;
mod checkpoints;
mod documents;
mod journal;
mod paused;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Bench, Clause, Stores};
use crate::{
    AuditRow, Batch, Blob, BoxFuture, Change, DocumentKey, Error, Expect, Fence, Put, Result, SessionId,
    SessionKey, TenantId, Timestamp, TurnRow, Upkeep, WaitRow,
};

/// Wraps the stores of a sound bench so that they break exactly one clause, and no other.
///
/// It proves that the suite can fail: for each clause, `check` of that clause fails on the saboteur of that clause, and
/// every other check passes. It is part of the suite's tests and of no use elsewhere.
#[derive(Debug)]
pub struct Saboteur {
    bench: Arc<dyn Bench>,
    broken: Option<Clause>,
    /// Guards the history of calls that the wrapped stores share; held for one look, never across an await.
    memo: Arc<Mutex<Memo>>,
}

impl Saboteur {
    /// Breaks this clause of the stores that the bench opens; with `None`, breaks nothing.
    #[must_use]
    pub fn new(bench: Arc<dyn Bench>, broken: Option<Clause>) -> Self {
        Self { bench, broken, memo: Arc::default() }
    }

    fn wrap(&self, stores: Stores, before: Option<Fence>) -> Stores {
        let trick = Trick { broken: self.broken, memo: self.memo.clone() };
        Stores {
            upkeep: Arc::new(TrickedUpkeep { inner: stores.upkeep, trick: trick.clone() }),
            sessions: Arc::new(sessions::TrickedSessions {
                inner: stores.sessions,
                journal: stores.journal.clone(),
                trick: trick.clone(),
            }),
            checkpoints: Arc::new(checkpoints::TrickedCheckpoints {
                inner: stores.checkpoints,
                trick: trick.clone(),
            }),
            paused: Arc::new(paused::TrickedPaused { inner: stores.paused, trick: trick.clone() }),
            documents: Arc::new(documents::TrickedDocuments {
                inner: stores.documents,
                trick: trick.clone(),
            }),
            journal: Arc::new(journal::TrickedJournal::new(stores.journal, trick, before)),
        }
    }

    async fn open_again(&self, old: Stores) -> Result<Stores> {
        let fence = old.journal.fence();
        let stores = self.bench.reopen(old).await?;
        let made = std::mem::take(&mut lock(&self.memo).made);
        if self.broken == Some(Clause::Durable) {
            for key in made {
                let mut loss = Batch::new(key, stores.journal.fence());
                loss.put(Put::Delete);
                stores.journal.apply(loss).await?;
            }
        }
        if self.broken == Some(Clause::DocumentsDurable) {
            let documents = std::mem::take(&mut lock(&self.memo).documents).into_keys();
            let lose = |key| Change::Remove { key, expect: Expect::Any };
            stores.documents.change(documents.map(lose).collect()).await?;
        }
        lock(&self.memo).is_reopened = true;
        Ok(self.wrap(stores, Some(fence)))
    }
}

impl Bench for Saboteur {
    fn open(&self) -> BoxFuture<'_, Result<Stores>> {
        *lock(&self.memo) = Memo::default();
        Box::pin(async { Ok(self.wrap(self.bench.open().await?, None)) })
    }

    fn reopen(&self, old: Stores) -> BoxFuture<'_, Result<Stores>> {
        Box::pin(self.open_again(old))
    }

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
        self.bench.audit()
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an error that no sound store has.
fn sabotage() -> Error {
    Error::Unavailable { doing: "work while it is sabotaged", source: "sabotage".into() }
}

/// The broken clause and the history of calls needed to break it.
#[derive(Debug, Clone)]
struct Trick {
    broken: Option<Clause>,
    memo: Arc<Mutex<Memo>>,
}

impl Trick {
    /// Counts a call as in flight until the returned guard is dropped.
    fn enter(&self) -> InFlight {
        self.memo().in_flight += 1;
        InFlight { trick: self.clone(), is_done: false }
    }

    fn breaks(&self, clause: Clause) -> bool {
        self.broken == Some(clause)
    }

    fn memo(&self) -> MutexGuard<'_, Memo> {
        lock(&self.memo)
    }
}

/// A call that was made and is not done.
#[derive(Debug)]
struct InFlight {
    trick: Trick,
    is_done: bool,
}

impl InFlight {
    fn is_alone(&self) -> bool {
        self.trick.memo().in_flight == 1
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut memo = self.trick.memo();
        memo.in_flight -= 1;
        memo.is_torn |= !self.is_done;
    }
}

/// A history of the calls to the wrapped stores since they were opened.
#[derive(Debug, Default)]
struct Memo {
    is_reopened: bool,
    /// Sessions that have a head, and those that were deleted.
    made: BTreeSet<SessionKey>,
    deleted: BTreeSet<SessionKey>,
    /// The last put of each kind that the saboteur merges instead of replacing.
    turns: BTreeMap<(SessionKey, u64), TurnRow>,
    waits: BTreeMap<(SessionKey, u64), WaitRow>,
    fields: BTreeSet<(SessionKey, String)>,
    mail: BTreeSet<(SessionKey, String)>,
    records: BTreeSet<(SessionKey, u64, String)>,
    used: BTreeSet<(SessionKey, String)>,
    position_turns: BTreeMap<(SessionKey, String), u64>,
    parents: BTreeMap<SessionKey, Option<crate::Parent>>,
    /// The last counters put since the session was made.
    counters: BTreeMap<SessionKey, crate::Counters>,
    placed: BTreeSet<(SessionKey, u64)>,
    sided: BTreeSet<(SessionKey, u64)>,
    with_events: BTreeSet<SessionKey>,
    heirs: BTreeSet<SessionKey>,
    /// The position rows of the last read.
    positions: BTreeMap<(SessionKey, String), Option<crate::PositionRow>>,
    /// The last record that was saved as a whole.
    saved: BTreeMap<SessionKey, (crate::SessionRecord, crate::Version)>,
    state: BTreeMap<SessionKey, BTreeMap<String, crate::Json>>,
    paused: BTreeSet<(crate::TenantId, crate::InvocationId)>,
    checkpoints: BTreeSet<(crate::TenantId, crate::InvocationId)>,
    /// The session and the expiry of each written document.
    documents: BTreeMap<DocumentKey, (Option<SessionId>, Option<Timestamp>)>,
    /// The documents whose last change removed them.
    removed: BTreeSet<DocumentKey>,
    /// The blobs that were kept, in order.
    blobs: Vec<(SessionKey, Blob)>,
    /// Whether a call was dropped before it was done.
    is_torn: bool,
    /// Whether the last batch deletes an absent session.
    fails: bool,
    /// Calls that were made and are not done.
    in_flight: usize,
}

/// The calls across tenants, tricked.
#[derive(Debug)]
struct TrickedUpkeep {
    inner: Arc<dyn Upkeep>,
    trick: Trick,
}

impl Upkeep for TrickedUpkeep {
    fn ownerless<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        Box::pin(async move {
            let past = past.filter(|_| !self.trick.breaks(Clause::OwnerlessPaged));
            let mut rows = self.inner.ownerless(past, limit).await?;
            if self.trick.breaks(Clause::OwnerlessFound) && rows.len() > 1 {
                rows.pop();
            }
            Ok(rows)
        })
    }

    fn deadlines<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        Box::pin(async move {
            let until = until.filter(|_| !self.trick.breaks(Clause::DeadlinesUntil));
            let mut rows = self.inner.deadlines(until, limit).await?;
            if self.trick.breaks(Clause::DeadlinesOrdered) {
                rows.reverse();
            }
            Ok(rows)
        })
    }

    fn tenants<'a>(&'a self, past: Option<&'a TenantId>, limit: u64) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        Box::pin(async move {
            let past = past.filter(|_| !self.trick.breaks(Clause::TenantsListed));
            self.inner.tenants(past, limit).await
        })
    }
}
