//! A journal that fails from the n-th write on.

use singletree_durable::{
    Batch, BoxFuture, Journal, JournalLayer, JournalMaintenance, MaintenanceLayer, Result,
};

use super::FaultInjectingStore;

impl<S: Journal + ?Sized> JournalLayer for FaultInjectingStore<S> {
    type Journal = S;

    fn inner_journal(&self) -> &S {
        &self.inner
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.fuse.guard_write(|| self.inner.apply(batch))
    }
}

impl<S: Journal + JournalMaintenance + ?Sized> MaintenanceLayer for FaultInjectingStore<S> {
    type Maintenance = S;

    fn inner_maintenance(&self) -> &S {
        &self.inner
    }
}
