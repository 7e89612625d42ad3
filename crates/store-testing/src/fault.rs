//! A store that fails from the n-th write on.

mod documents;
mod fuse;
mod journal;
mod stores;

use std::sync::Arc;

use fuse::WriteCountdown;

/// Whether the first write that a [`FaultInjectingStore`] fails takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailedWriteEffect {
    /// It fails before anything is written.
    Before,
    /// It is written, and its result is lost.
    After,
}

/// Wraps a store so that its n-th write fails, and every write after it, as if the process died at that write.
///
/// Writes are [`Journal::apply`], `save` and `delete` of a [`SessionStore`], `save`, `claim`, `close` and `delete` of a
/// [`PausedStore`], and `change`, `expire` and `keep_blob` of [`DocumentStore`]. They count when they are called, from 1,
/// whatever their result; wrappers made with [`FaultInjectingStore::wrap_beside`] count together. Failed writes return
/// [`Error::Unavailable`]. Reads and leases pass.
///
/// [`Journal::apply`]: singletree_durable::Journal::apply
/// [`SessionStore`]: singletree_durable::SessionStore
/// [`PausedStore`]: singletree_durable::PausedStore
/// [`DocumentStore`]: singletree_durable::DocumentStore
/// [`Error::Unavailable`]: singletree_durable::Error::Unavailable
///
/// # Example
/// ```
/// # use std::sync::Arc;
/// # use singletree_durable::*;
/// # use singletree_store_testing::*;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let store = MemoryStore::new();
/// let key = SessionKey::new(TenantId::single(), SessionId::parse("s").unwrap());
/// let mut audit = Batch::new(key.clone(), store.acquire(&key).await.unwrap().fence);
/// audit.put(RowMutation::Audit(AuditRow { at: Timestamp::from_millis(0), action: "test".into(), key, by: None }));
///
/// let failing = FaultInjectingStore::new(Arc::new(store.clone()), 2, FailedWriteEffect::After);
/// assert!(failing.apply(audit.clone()).await.is_ok());
/// assert!(failing.apply(audit.clone()).await.is_err());
/// assert!(failing.apply(audit).await.is_err());
/// assert!(failing.fired());
/// assert_eq!(store.audit().len(), 2);
/// # });
/// ```
#[derive(Debug)]
pub struct FaultInjectingStore<S: ?Sized> {
    inner: Arc<S>,
    fuse: Arc<WriteCountdown>,
}

impl<S: ?Sized> FaultInjectingStore<S> {
    /// Wraps a store that fails at its n-th write; the first is 1.
    #[must_use]
    pub fn new(inner: Arc<S>, n: u64, land: FailedWriteEffect) -> Self {
        Self { inner, fuse: Arc::new(WriteCountdown::new(n, land)) }
    }

    /// Wraps another store of the same process: its writes count together with those of this one.
    #[must_use]
    pub fn wrap_beside<T: ?Sized>(&self, inner: Arc<T>) -> FaultInjectingStore<T> {
        FaultInjectingStore { inner, fuse: self.fuse.clone() }
    }

    /// Checks whether the n-th write was reached.
    #[must_use]
    pub fn fired(&self) -> bool {
        self.fuse.has_fired()
    }
}

impl<S: ?Sized> Clone for FaultInjectingStore<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), fuse: self.fuse.clone() }
    }
}
