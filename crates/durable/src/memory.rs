//! The store that forgets everything when its last handle goes.

mod apply;
mod check;
mod checkpoint;
mod forget;
mod fork;
mod index;
mod numbered;
mod paused;
mod read;
mod shelf;
mod state;

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use state::MemoryTables;

use crate::{
    AuditRow, Batch, BoxFuture, Counters, EarlySignalRow, Error, EventRow, FencingToken, InvocationId,
    ItemRange, Journal, JournalMaintenance, JournalSessions, ListItemRow, PositionRow, RecordRow, Result,
    SessionId, SessionKey, SessionPage, SessionRow, TenantId, Timestamp, TurnRow, TurnRowQuery, UsageRow,
    UsageRowQuery, WaitRow, WaitRowQuery,
};

/// Keeps everything in memory: for tests, examples and sessions that need not outlive the process.
///
/// A clone is another handle to the same data. [`MemoryStore::reopen`] models a restart of the process. Every call does
/// its work before it returns, so that its future is ready at once. The cost of a batch does not depend on how much is
/// stored (INV-5).
///
/// Beyond the contract it refuses batches that no writer can mean: rows of a session that does not exist when the batch
/// ends, a second turn with the same idempotency key, and a second item in the same place of a list.
///
/// # Example
/// ```
/// use singletree_durable::{Journal, MemoryStore};
///
/// let store = MemoryStore::new();
/// let later = store.reopen();
/// assert!(later.fence() > store.fence());
/// assert_eq!(later.log_epoch(), store.log_epoch());
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    /// Guards all data; held for one call, never across an await.
    state: Arc<Mutex<MemoryTables>>,
    fence: FencingToken,
    epoch: Arc<str>,
}

impl MemoryStore {
    /// Makes an empty store, whose epoch is `m0`.
    #[must_use]
    pub fn new() -> Self {
        Self::with_epoch("m0")
    }

    /// Makes an empty store with an epoch of one's own.
    #[must_use]
    pub fn with_epoch(epoch: impl Into<Arc<str>>) -> Self {
        let state = MemoryTables::default();
        let fence = state.fence;
        Self { state: Arc::new(Mutex::new(state)), fence, epoch: epoch.into() }
    }

    /// Opens the same data again, as the next process would: with a higher fence. From now on, nothing that is written
    /// through older handles is taken.
    #[must_use]
    pub fn reopen(&self) -> Self {
        let mut state = self.state();
        state.fence = FencingToken(state.fence.0 + 1);
        Self { state: self.state.clone(), fence: state.fence, epoch: self.epoch.clone() }
    }

    /// Returns the store of whole session records over the same data.
    #[must_use]
    pub fn session_store(&self) -> JournalSessions {
        JournalSessions::new(Arc::new(self.clone()))
    }

    /// Returns the audit rows, in the order in which they were written.
    #[must_use]
    pub fn audit(&self) -> Vec<AuditRow> {
        self.state().audit.clone()
    }

    fn state(&self) -> MutexGuard<'_, MemoryTables> {
        // Nothing that runs under the lock panics half way through a write, so poison tells of no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the data for writing, unless a newer handle was opened.
    fn writable(&self) -> Result<MutexGuard<'_, MemoryTables>> {
        let state = self.state();
        if state.fence == self.fence {
            return Ok(state);
        }
        Err(refused(format!("fence {} is the newest (found {})", self.fence.0, state.fence.0)))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("fence", &self.fence)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

fn refused(requirement: String) -> Error {
    Error::Refused { requirement }
}

/// Returns a future that has its answer.
fn now<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, T> {
    Box::pin(ready(answer))
}

impl Journal for MemoryStore {
    fn fence(&self) -> FencingToken {
        self.fence
    }

    fn log_epoch(&self) -> &str {
        &self.epoch
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        now(self.writable().and_then(|mut state| {
            check::check(&state, &batch)?;
            state.write(batch);
            Ok(())
        }))
    }

    fn session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        now(Ok(read::session(&self.state(), key)))
    }

    fn numbers<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        now(Ok(self.state().numbers(key)))
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        now(Ok(read::sessions(&self.state(), tenant, from, limit)))
    }

    fn recent<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        now(Ok(read::recent(&self.state(), tenant, past, limit)))
    }

    fn items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        now(Ok(read::items(&self.state(), key, range)))
    }

    fn turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        now(Ok(read::turns(&self.state(), key, query)))
    }

    fn session_of<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        now(Ok(read::session_of(&self.state(), tenant, invocation)))
    }

    fn waits<'a>(&'a self, query: &'a WaitRowQuery) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        now(Ok(read::waits(&self.state(), query)))
    }

    fn mail<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        now(Ok(read::mail(&self.state(), key)))
    }

    fn position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        now(Ok(read::position(&self.state(), key, invocation)))
    }

    fn positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        now(Ok(read::positions(&self.state(), key)))
    }

    fn records<'a>(&'a self, key: &'a SessionKey, turn: u64) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        now(Ok(read::records(&self.state(), key, turn)))
    }

    fn events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        now(Ok(read::events(&self.state(), key, from, limit)))
    }

    fn usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        now(Ok(read::usage(&self.state(), of)))
    }
}

impl JournalMaintenance for MemoryStore {
    fn ownerless<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        now(Ok(read::ownerless(&self.state(), self.fence, past, limit)))
    }

    fn deadlines<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        now(Ok(read::deadlines(&self.state(), until, limit)))
    }

    fn tenants<'a>(&'a self, past: Option<&'a TenantId>, limit: u64) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        now(Ok(read::tenants(&self.state(), past, limit)))
    }
}
