//! A store whose n-th write fails, and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{
    Batch, BoxFuture, Error, Journal, JournalLayer, JournalMaintenance, MaintenanceLayer, Result,
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
}

impl FailsOnce {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        upkeep: Arc<dyn JournalMaintenance>,
        at: u64,
        land: FailedWriteEffect,
    ) -> Self {
        Self { journal, upkeep, at, land, writes: Arc::default() }
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
