//! The journal of a chat case: in memory, counted, and failing as the fixture says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use singletree::MemoryStore;
use singletree::durable::{Batch, BoxFuture, Error, Journal, Layer, Read, Result, Upkeep};

use crate::adapt::StoreSpec;

/// A journal in memory that counts the calls for a session.
#[derive(Debug, Clone)]
pub(crate) struct WatchedJournal {
    inner: MemoryStore,
    spec: StoreSpec,
    calls: Arc<AtomicUsize>,
}

impl WatchedJournal {
    /// Makes an empty journal.
    #[must_use]
    pub(crate) fn new(spec: StoreSpec) -> Self {
        Self { inner: MemoryStore::new(), spec, calls: Arc::default() }
    }

    /// Returns how often it was called for a session.
    #[must_use]
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the inner store, which neither counts nor fails.
    #[must_use]
    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn broken<'a, T: Send + 'a>(doing: &'static str) -> BoxFuture<'a, Result<T>> {
        let error = Error::Unavailable { doing, source: "the fixture lets this store fail".into() };
        Box::pin(std::future::ready(Err(error)))
    }
}

impl Layer for WatchedJournal {
    fn journal(&self) -> &dyn Journal {
        &self.inner
    }

    fn upkeep(&self) -> &dyn Upkeep {
        &self.inner
    }

    fn write(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.count();
        if self.spec.save_raises.is_some() { Self::broken("write a batch") } else { self.inner.apply(batch) }
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        read: Read,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        // Each new kind of read must be classified here: an unclassified load would pass where the fixture makes
        // loads fail.
        let (counts, loads) = match read {
            Read::Session | Read::Dossier | Read::Items => (true, true),
            Read::Turns => (true, false),
            Read::Numbers
            | Read::Sessions
            | Read::SessionOf
            | Read::Waits
            | Read::Mail
            | Read::Position
            | Read::Positions
            | Read::Records
            | Read::Events
            | Read::Recent
            | Read::Usage
            | Read::Tenants
            | Read::Ownerless
            | Read::Deadlines => (false, false),
        };
        if counts {
            self.count();
        }
        if loads && self.spec.load_raises { Self::broken("read a session") } else { answer }
    }
}
