//! A store whose n-th write fails, and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{
    Batch, BoxFuture, Error, Journal, JournalLayer, JournalMaintenance, JournalRead, MaintenanceLayer, Result,
};
use singletree_store_testing::FailedWriteEffect;

/// A store whose n-th write fails: before it lands, or with its answer lost.
#[derive(Debug, Clone)]
pub(crate) struct FailsOnce {
    journal: Arc<dyn Journal>,
    upkeep: Arc<dyn JournalMaintenance>,
    at: u64,
    land: FailedWriteEffect,
    writes: Arc<AtomicU64>,
    /// How many reads of a session's snapshot fail after the write.
    snapshots: Arc<AtomicU64>,
}

impl FailsOnce {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        upkeep: Arc<dyn JournalMaintenance>,
        at: u64,
        land: FailedWriteEffect,
    ) -> Self {
        Self { journal, upkeep, at, land, writes: Arc::default(), snapshots: Arc::default() }
    }

    /// Makes the first read of a session's snapshot after the failed write fail, too.
    pub(crate) fn with_next_snapshot(self) -> Self {
        self.snapshots.store(1, Ordering::SeqCst);
        self
    }

    /// Tells whether everything has failed that was to fail.
    pub(crate) fn failed_all(&self) -> bool {
        self.fired() && self.snapshots.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn fired(&self) -> bool {
        self.writes.load(Ordering::SeqCst) >= self.at
    }
}

impl JournalLayer for FailsOnce {
    type Journal = dyn Journal;

    fn inner_journal(&self) -> &Self::Journal {
        self.journal.as_ref()
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        let fails = read == JournalRead::Dossier
            && self.fired()
            && self
                .snapshots
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok();
        match fails {
            true => Box::pin(async { Err(Error::Unavailable { doing: "read", source: "planted".into() }) }),
            false => answer,
        }
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        let fails = self.writes.fetch_add(1, Ordering::SeqCst) + 1 == self.at;
        let landing = (!fails || self.land == FailedWriteEffect::After).then(|| self.journal.apply(batch));
        Box::pin(async move {
            let landed = match landing {
                Some(landing) => landing.await,
                None => Ok(()),
            };
            match fails {
                true => Err(Error::Unavailable { doing: "commit", source: "planted".into() }),
                false => landed,
            }
        })
    }
}

impl MaintenanceLayer for FailsOnce {
    type Maintenance = dyn JournalMaintenance;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        self.upkeep.as_ref()
    }
}
