//! A journal that fails from the n-th write on.

use singletree_durable::{
    Batch, BoxFuture, Journal, JournalLayer, JournalMaintenance, MaintenanceLayer, Result,
};

use super::FaultInjectingStore;

impl<S: Journal + ?Sized> JournalLayer for FaultInjectingStore<S> {
    type Journal = S;

    fn journal(&self) -> &S {
        &self.inner
    }

    fn write(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.fuse.guard(|| self.inner.apply(batch))
    }
}

impl<S: Journal + JournalMaintenance + ?Sized> MaintenanceLayer for FaultInjectingStore<S> {
    type Maintenance = S;

    fn maintenance(&self) -> &S {
        &self.inner
    }
}
