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
    AcquiredSession, AuditRow, Batch, BoxFuture, Counters, EarlySignalRow, Error, EventRow, FencingToken,
    InvocationId, ItemRange, Journal, JournalMaintenance, JournalSessions, LeaseTable, ListItemRow,
    PositionRow, RecordRow, Result, SessionId, SessionKey, SessionPage, SessionRow, TenantId, Timestamp,
    TurnRow, TurnRowQuery, UsageRow, UsageRowQuery, WaitRow, WaitRowQuery,
};

/// Keeps everything in memory: for tests, examples and sessions that need not outlive the process.
///
/// A clone is the same handle: it holds the same sessions. [`MemoryStore::reopen`] models a restart of the process,
/// [`MemoryStore::open_beside`] another owner of sessions. Every call but `acquire` does its work before it returns, and
/// every future is ready at once. The cost of a batch does not depend on how much is stored (INV-5).
///
/// Beyond the contract it refuses batches that no writer can mean: rows of a session that does not exist when the batch
/// ends, a second turn with the same idempotency key, and a second item in the same place of a list.
///
/// # Example
/// ```
/// use singletree_durable::{Journal, MemoryStore, Result, SessionId, SessionKey, TenantId};
///
/// # async fn example() -> Result<()> {
/// let key = SessionKey::new(TenantId::single(), SessionId::parse("s").expect("an identifier"));
/// let store = MemoryStore::new();
/// let before = store.acquire(&key).await?.fence;
/// let later = store.reopen();
/// assert!(later.acquire(&key).await?.fence > before);
/// assert_eq!(later.log_epoch(), store.log_epoch());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    /// Guards all data; held for one call, never across an await.
    state: Arc<Mutex<MemoryTables>>,
    /// The number of this handle.
    owner: FencingToken,
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
        let owner = state.leases.first_fence();
        Self { state: Arc::new(Mutex::new(state)), owner, epoch: epoch.into() }
    }

    /// Opens the same data again, as the next process would: its fences are higher than all before. From now on, nothing
    /// that is written through older handles is taken.
    #[must_use]
    pub fn reopen(&self) -> Self {
        let mut state = self.lock_tables();
        let owner = FencingToken(state.leases.newest_fence().0 + 1);
        state.leases = LeaseTable::new(owner);
        Self { state: self.state.clone(), owner, epoch: self.epoch.clone() }
    }

    /// Opens the same data for another owner beside this one. A session belongs to the owner that acquired it last.
    #[must_use]
    pub fn open_beside(&self) -> Self {
        let owner = self.lock_tables().draw_number();
        Self { state: self.state.clone(), owner, epoch: self.epoch.clone() }
    }

    /// Returns a store of its own with the same rows and leases: what is written to one of them is not in the other. Its
    /// cost grows with all that is stored. For tests that try out what a batch would do.
    #[must_use]
    pub fn copy_data(&self) -> Self {
        let state = self.lock_tables().clone();
        Self { state: Arc::new(Mutex::new(state)), owner: self.owner, epoch: self.epoch.clone() }
    }

    /// Checks whether another store has the same rows, whoever holds its sessions. Its cost grows with all that is stored.
    #[must_use]
    pub fn has_same_data(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.state, &other.state) {
            return true;
        }
        // Copied before the other lock is taken, so that two callers never wait for each other.
        let mut own = self.lock_tables().clone();
        let other = other.lock_tables();
        own.leases = other.leases.clone();
        own == *other
    }

    /// Returns the store of whole session records over the same data.
    #[must_use]
    pub fn session_store(&self) -> JournalSessions {
        JournalSessions::new(Arc::new(self.clone()))
    }

    /// Returns the audit rows, in the order in which they were written.
    #[must_use]
    pub fn audit(&self) -> Vec<AuditRow> {
        self.lock_tables().audit.clone()
    }

    fn lock_tables(&self) -> MutexGuard<'_, MemoryTables> {
        // Nothing that runs under the lock panics half way through a write, so poison tells of no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the data for writing, unless the store was opened again.
    fn lock_for_writing(&self) -> Result<MutexGuard<'_, MemoryTables>> {
        let state = self.lock_tables();
        if self.owner >= state.leases.first_fence() {
            return Ok(state);
        }
        Err(Error::Fenced { held: self.owner, found: state.leases.newest_fence() })
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
            .field("owner", &self.owner)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

fn refusal_error(requirement: String) -> Error {
    Error::Refused { requirement }
}

/// Returns a future that has its answer.
fn ready_future<'a, T: Send + 'a>(answer: T) -> BoxFuture<'a, T> {
    Box::pin(ready(answer))
}

impl Journal for MemoryStore {
    fn acquire<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        Box::pin(async move {
            let fence = self.lock_for_writing()?.take_lease(self.owner, key);
            Ok(AcquiredSession { fence, snapshot: self.read_session_snapshot(key).await? })
        })
    }

    fn release(&self, keys: Vec<SessionKey>) -> BoxFuture<'static, Result<()>> {
        let mut state = self.lock_tables();
        keys.iter().for_each(|key| state.leases.release_lease(self.owner, key));
        ready_future(Ok(()))
    }

    fn check_lease<'a>(&'a self, key: &'a SessionKey, fence: FencingToken) -> BoxFuture<'a, Result<()>> {
        ready_future(match self.lock_tables().leases.is_held_under(key, fence) {
            true => Ok(()),
            false => Err(Error::LeaseLost { key: key.clone(), fence }),
        })
    }

    fn read_newest_fence(&self) -> BoxFuture<'_, Result<FencingToken>> {
        ready_future(Ok(self.lock_tables().leases.newest_fence()))
    }

    fn log_epoch(&self) -> &str {
        &self.epoch
    }

    fn apply(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        ready_future(self.lock_for_writing().and_then(|mut state| {
            check::check_batch(&state, &batch)?;
            state.write_batch(batch);
            Ok(())
        }))
    }

    fn read_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<SessionRow>>> {
        ready_future(Ok(read::read_session(&self.lock_tables(), key)))
    }

    fn read_counters<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Counters>> {
        ready_future(Ok(self.lock_tables().find_counters(key)))
    }

    fn read_session_page<'a>(
        &'a self,
        tenant: &'a TenantId,
        from: Option<&'a SessionId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<SessionPage>> {
        ready_future(Ok(read::read_session_page(&self.lock_tables(), tenant, from, limit)))
    }

    fn read_recent_sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        past: Option<&'a (Timestamp, SessionId)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SessionRow>>> {
        ready_future(Ok(read::read_recent_sessions(&self.lock_tables(), tenant, past, limit)))
    }

    fn read_items<'a>(
        &'a self,
        key: &'a SessionKey,
        range: &'a ItemRange,
    ) -> BoxFuture<'a, Result<Vec<ListItemRow>>> {
        ready_future(Ok(read::read_items(&self.lock_tables(), key, range)))
    }

    fn read_turns<'a>(
        &'a self,
        key: &'a SessionKey,
        query: &'a TurnRowQuery,
    ) -> BoxFuture<'a, Result<Vec<TurnRow>>> {
        ready_future(Ok(read::read_turns(&self.lock_tables(), key, query)))
    }

    fn find_session_of_invocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<SessionKey>>> {
        ready_future(Ok(read::find_session_of_invocation(&self.lock_tables(), tenant, invocation)))
    }

    fn read_waits<'a>(
        &'a self,
        query: &'a WaitRowQuery,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        ready_future(Ok(read::read_waits(&self.lock_tables(), query)))
    }

    fn read_early_signals<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<EarlySignalRow>>> {
        ready_future(Ok(read::read_early_signals(&self.lock_tables(), key)))
    }

    fn read_position<'a>(
        &'a self,
        key: &'a SessionKey,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PositionRow>>> {
        ready_future(Ok(read::read_position(&self.lock_tables(), key, invocation)))
    }

    fn read_positions<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Vec<PositionRow>>> {
        ready_future(Ok(read::read_positions(&self.lock_tables(), key)))
    }

    fn read_turn_records<'a>(
        &'a self,
        key: &'a SessionKey,
        turn: u64,
    ) -> BoxFuture<'a, Result<Vec<RecordRow>>> {
        ready_future(Ok(read::read_turn_records(&self.lock_tables(), key, turn)))
    }

    fn read_events<'a>(
        &'a self,
        key: &'a SessionKey,
        from: u64,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<EventRow>>> {
        ready_future(Ok(read::read_events(&self.lock_tables(), key, from, limit)))
    }

    fn read_model_usage<'a>(&'a self, of: &'a UsageRowQuery) -> BoxFuture<'a, Result<Vec<UsageRow>>> {
        ready_future(Ok(read::read_model_usage(&self.lock_tables(), of)))
    }
}

impl JournalMaintenance for MemoryStore {
    fn read_ownerless_turns<'a>(
        &'a self,
        past: Option<&'a (SessionKey, u64)>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, TurnRow)>>> {
        let state = self.lock_tables();
        let turns = read::read_ownerless_turns(&state, state.leases.first_fence(), past, limit);
        ready_future(Ok(turns))
    }

    fn read_waits_by_deadline<'a>(
        &'a self,
        until: Option<Timestamp>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<(SessionKey, WaitRow)>>> {
        ready_future(Ok(read::read_waits_by_deadline(&self.lock_tables(), until, limit)))
    }

    fn read_tenants<'a>(
        &'a self,
        past: Option<&'a TenantId>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<TenantId>>> {
        ready_future(Ok(read::read_tenants(&self.lock_tables(), past, limit)))
    }
}
