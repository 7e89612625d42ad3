//! A store that breaks one promise.

mod batches;
mod checkpoints;
mod documents;
mod journal;
mod leases;
mod paused;
mod sessions;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_durable::{
    AuditRow, Batch, BoxFuture, Counters, DocumentChange, DocumentKey, DocumentPrecondition, Error,
    FencingToken, InvocationId, JournalMaintenance, JsonDocument, ParentSession, PositionRow, RecordVersion,
    Result, RowMutation, SessionId, SessionKey, SessionRecord, StoredBlob, TenantId, Timestamp, TurnRow,
    WaitRow,
};

use super::{ContractClause, ContractStores, StoreFactory};

/// Wraps the stores of a correct factory so that they break exactly one clause, and no other.
///
/// It proves that the suite can fail: for each clause, `check` of that clause fails on a factory that breaks it, and
/// every other check passes. It is only useful for tests of the suite itself.
#[derive(Debug)]
pub struct FaultyStoreFactory {
    bench: Arc<dyn StoreFactory>,
    broken: Option<ContractClause>,
    /// The history of calls that the wrapped stores share. The lock is held briefly, never across an await.
    memo: Arc<Mutex<StoreCallHistory>>,
}

impl FaultyStoreFactory {
    /// Makes a factory whose stores break this clause; with `None`, they break nothing.
    #[must_use]
    pub fn new(bench: Arc<dyn StoreFactory>, broken: Option<ContractClause>) -> Self {
        Self { bench, broken, memo: Arc::default() }
    }

    fn wrap_stores(&self, stores: ContractStores, is_reopened: bool) -> ContractStores {
        let trick = ClauseFault { broken: self.broken, memo: self.memo.clone() };
        ContractStores {
            upkeep: Arc::new(FaultyMaintenance { inner: stores.upkeep, trick: trick.clone() }),
            sessions: Arc::new(sessions::FaultySessionStore {
                inner: stores.sessions,
                journal: stores.journal.clone(),
                trick: trick.clone(),
            }),
            checkpoints: Arc::new(checkpoints::FaultyCheckpointer {
                inner: stores.checkpoints,
                trick: trick.clone(),
            }),
            paused: Arc::new(paused::FaultyPausedStore { inner: stores.paused, trick: trick.clone() }),
            documents: Arc::new(documents::FaultyDocumentStore {
                inner: stores.documents,
                trick: trick.clone(),
            }),
            journal: Arc::new(journal::FaultyJournal::new(stores.journal, trick, is_reopened)),
        }
    }

    async fn reopen_stores(&self, old: ContractStores) -> Result<ContractStores> {
        let stores = self.bench.reopen(old).await?;
        let made = std::mem::take(&mut lock_unpoisoned(&self.memo).made);
        if self.broken == Some(ContractClause::Durable) {
            for key in made {
                let fence = stores.journal.acquire(&key).await?.fence;
                let mut loss = Batch::new(key, fence);
                loss.put(RowMutation::Delete);
                stores.journal.apply(loss).await?;
            }
        }
        if self.broken == Some(ContractClause::DocumentsDurable) {
            let documents = std::mem::take(&mut lock_unpoisoned(&self.memo).documents).into_keys();
            let lose = |key| DocumentChange::Remove { key, expect: DocumentPrecondition::Any };
            stores.documents.change_documents(documents.map(lose).collect()).await?;
        }
        lock_unpoisoned(&self.memo).is_reopened = true;
        Ok(self.wrap_stores(stores, true))
    }
}

impl StoreFactory for FaultyStoreFactory {
    fn open(&self) -> BoxFuture<'_, Result<ContractStores>> {
        *lock_unpoisoned(&self.memo) = StoreCallHistory::default();
        Box::pin(async { Ok(self.wrap_stores(self.bench.open().await?, false)) })
    }

    fn reopen(&self, old: ContractStores) -> BoxFuture<'_, Result<ContractStores>> {
        Box::pin(self.reopen_stores(old))
    }

    fn open_beside(&self) -> BoxFuture<'_, Result<ContractStores>> {
        Box::pin(async { Ok(self.wrap_stores(self.bench.open_beside().await?, false)) })
    }

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
        self.bench.audit()
    }
}

fn lock_unpoisoned<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an error that no correct store returns.
fn sabotage_error() -> Error {
    Error::Unavailable { doing: "work while it is sabotaged", source: "sabotage".into() }
}

/// The broken clause and the history of calls needed to break it.
#[derive(Debug, Clone)]
struct ClauseFault {
    broken: Option<ContractClause>,
    memo: Arc<Mutex<StoreCallHistory>>,
}

impl ClauseFault {
    /// Counts a call as in flight until the returned guard is dropped.
    fn begin_call(&self) -> PendingStoreCall {
        self.lock_history().in_flight += 1;
        PendingStoreCall { trick: self.clone(), is_done: false }
    }

    fn breaks_clause(&self, clause: ContractClause) -> bool {
        self.broken == Some(clause)
    }

    fn lock_history(&self) -> MutexGuard<'_, StoreCallHistory> {
        lock_unpoisoned(&self.memo)
    }
}

/// A call in flight.
#[derive(Debug)]
struct PendingStoreCall {
    trick: ClauseFault,
    is_done: bool,
}

impl PendingStoreCall {
    fn is_alone(&self) -> bool {
        self.trick.lock_history().in_flight == 1
    }
}

impl Drop for PendingStoreCall {
    fn drop(&mut self) {
        let mut memo = self.trick.lock_history();
        memo.in_flight -= 1;
        memo.is_torn |= !self.is_done;
    }
}

/// The history of calls to the wrapped stores since they were opened.
#[derive(Debug, Default)]
struct StoreCallHistory {
    is_reopened: bool,
    /// The sessions that have a head.
    made: BTreeSet<SessionKey>,
    deleted: BTreeSet<SessionKey>,
    /// The earlier puts of each kind, for the faults that merge a put with the stored row instead of replacing it.
    turns: BTreeMap<(SessionKey, u64), TurnRow>,
    waits: BTreeMap<(SessionKey, u64), WaitRow>,
    fields: BTreeSet<(SessionKey, String)>,
    mail: BTreeSet<(SessionKey, String)>,
    records: BTreeSet<(SessionKey, u64, String)>,
    used: BTreeSet<(SessionKey, String)>,
    position_turns: BTreeMap<(SessionKey, String), u64>,
    parents: BTreeMap<SessionKey, Option<ParentSession>>,
    /// The last counters that were put since the session was created.
    counters: BTreeMap<SessionKey, Counters>,
    placed: BTreeSet<(SessionKey, u64)>,
    sided: BTreeSet<(SessionKey, u64)>,
    with_events: BTreeSet<SessionKey>,
    heirs: BTreeSet<SessionKey>,
    /// The position rows of the last read.
    positions: BTreeMap<(SessionKey, String), Option<PositionRow>>,
    /// The last record that was saved as a whole.
    saved: BTreeMap<SessionKey, (SessionRecord, RecordVersion)>,
    state: BTreeMap<SessionKey, BTreeMap<String, JsonDocument>>,
    paused: BTreeSet<(TenantId, InvocationId)>,
    checkpoints: BTreeSet<(TenantId, InvocationId)>,
    /// The session and the expiry of each written document.
    documents: BTreeMap<DocumentKey, (Option<SessionId>, Option<Timestamp>)>,
    /// The documents whose last change removed them.
    removed: BTreeSet<DocumentKey>,
    /// The blobs that were kept, in order.
    blobs: Vec<(SessionKey, StoredBlob)>,
    /// Whether a call was dropped before it completed.
    is_torn: bool,
    /// Whether the last batch deletes an absent session.
    fails: bool,
    /// The number of calls in flight.
    in_flight: usize,
    /// The fences that were given out for each session, in order.
    fences: BTreeMap<SessionKey, Vec<FencingToken>>,
    /// Batches that wait for their future or for an acquisition, with the numbers of their calls.
    waiting: BTreeMap<u64, Batch>,
    /// The answers to such batches that were not fetched.
    landed: BTreeMap<u64, Result<()>>,
    /// The number of such calls so far.
    late_calls: u64,
}

/// The calls across tenants, with the fault.
#[derive(Debug)]
struct FaultyMaintenance {
    inner: Arc<dyn JournalMaintenance>,
    trick: ClauseFault,
}

impl JournalMaintenance for FaultyMaintenance {
    fn read_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        Box::pin(async move {
            let past = past.filter(|_| !self.trick.breaks_clause(ContractClause::OwnerlessPaged));
            let mut rows = self.inner.read_ownerless_turns(past, limit).await?;
            if self.trick.breaks_clause(ContractClause::OwnerlessFound) && rows.len() > 1 {
                rows.pop();
            }
            Ok(rows)
        })
    }

    fn read_waits_by_deadline<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        Box::pin(async move {
            let until = until.filter(|_| !self.trick.breaks_clause(ContractClause::DeadlinesUntil));
            let mut rows = self.inner.read_waits_by_deadline(until, limit).await?;
            if self.trick.breaks_clause(ContractClause::DeadlinesOrdered) {
                rows.reverse();
            }
            Ok(rows)
        })
    }

    fn read_tenants<'a>(
        &'a self,
        past: Option<&'a TenantId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        Box::pin(async move {
            let past = past.filter(|_| !self.trick.breaks_clause(ContractClause::TenantsListed));
            self.inner.read_tenants(past, limit).await
        })
    }
}
