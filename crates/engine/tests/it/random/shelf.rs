//! The stored records of one process, for another one to find.

use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId,
    MemoryStore, PausedRecord, PausedStatus, PausedStore, Result, TenantId,
};

use super::stores::{Stores, passes, passes_paused};

/// Changes a record between its save and its load.
pub(crate) type Tamper = fn(CheckpointRecord) -> CheckpointRecord;

/// The store of a process that finds another one's record: one graph goes on from many records, one after the other.
#[derive(Debug)]
pub(crate) struct Shelf {
    present: Mutex<Stores>,
    tamper: Option<Tamper>,
}

impl Shelf {
    pub(crate) fn new(tamper: Option<Tamper>) -> Arc<Self> {
        let stores = Stores::of(&Arc::new(MemoryStore::new()));
        Arc::new(Self { present: Mutex::new(stores), tamper })
    }

    fn present(&self) -> Stores {
        self.present.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets everything but this record.
    pub(crate) async fn leave(&self, record: &CheckpointRecord) {
        let stores = Stores::of(&Arc::new(MemoryStore::new()));
        stores.checkpoints.save(&TenantId::single(), record).await.unwrap();
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = stores;
    }
}

impl Checkpointer for Shelf {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.present().checkpoints.save(tenant, record).await })
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        Box::pin(async move {
            let loaded = self.present().checkpoints.load(tenant, invocation).await?;
            Ok(loaded.map(|it| self.tamper.map_or_else(|| it.clone(), |tamper| tamper(it.clone()))))
        })
    }

    passes!(present);
}

impl PausedStore for Shelf {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.present().paused.save(tenant, invocation, record).await })
    }

    passes_paused!(present);
}
