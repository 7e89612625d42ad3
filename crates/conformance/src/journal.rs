//! The journal of a chat case: counted, and failing as the fixture says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use singletree::durable::{
    Batch, BoxFuture, Error, Journal, JournalLayer, JournalRead, MaintenanceLayer, Result,
};
use singletree_test_store::TestStore;

use crate::adapt::SessionStoreSpec;

/// A journal that counts the calls for a session.
#[derive(Debug, Clone)]
pub(crate) struct CountingJournal {
    inner: TestStore,
    spec: SessionStoreSpec,
    calls: Arc<AtomicUsize>,
}

impl CountingJournal {
    /// Makes an empty journal.
    #[must_use]
    pub(crate) fn new(spec: SessionStoreSpec) -> Self {
        Self { inner: TestStore::new(), spec, calls: Arc::default() }
    }

    /// Returns how often it was called for a session.
    #[must_use]
    pub(crate) fn session_call_count(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the inner store, which neither counts nor fails.
    #[must_use]
    pub(crate) fn inner_store(&self) -> &TestStore {
        &self.inner
    }

    fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    fn simulate_outage<'a, T: Send + 'a>(doing: &'static str) -> BoxFuture<'a, Result<T>> {
        let error = Error::Unavailable { doing, source: "the fixture lets this store fail".into() };
        Box::pin(std::future::ready(Err(error)))
    }
}

impl JournalLayer for CountingJournal {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.inner
    }

    /// A case has its store alone: no other process brings it back.
    fn is_shared(&self) -> bool {
        false
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.count_call();
        if self.spec.save_raises.is_some() {
            Self::simulate_outage("write a batch")
        } else {
            self.inner.apply(batch)
        }
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        // Each new kind of read must be classified here: an unclassified load would pass where the fixture makes
        // loads fail.
        let (counts, loads) = match read {
            JournalRead::Acquire | JournalRead::Session | JournalRead::Dossier | JournalRead::Items => {
                (true, true)
            }
            JournalRead::Turns => (true, false),
            JournalRead::Fence
            | JournalRead::Numbers
            | JournalRead::Sessions
            | JournalRead::SessionOf
            | JournalRead::Waits
            | JournalRead::Mail
            | JournalRead::Position
            | JournalRead::Positions
            | JournalRead::Records
            | JournalRead::Events
            | JournalRead::LoggedTurns
            | JournalRead::Recent
            | JournalRead::Usage
            | JournalRead::Tenants
            | JournalRead::Ownerless
            | JournalRead::Deadlines => (false, false),
        };
        if counts {
            self.count_call();
        }
        if loads && self.spec.load_raises { Self::simulate_outage("read a session") } else { answer }
    }
}

impl MaintenanceLayer for CountingJournal {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.inner
    }
}
