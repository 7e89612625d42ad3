//! A process that dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId,
    PausedRecord, PausedStatus, PausedStore, Result, TenantId,
};
use tokio::sync::Notify;

use super::stores::{Stores, passes, passes_paused};

/// Lets the process die at a write, before it lands or after.
#[derive(Debug)]
pub(crate) struct Mortal {
    stores: Stores,
    /// How many writes are left.
    left: AtomicU64,
    lands: bool,
    dead: AtomicBool,
    died: Notify,
}

impl Mortal {
    /// The process dies at its so-manieth write, counted from 1; at 0 it lives.
    pub(crate) fn new(stores: Stores, write: u64, lands: bool) -> Arc<Self> {
        let (left, dead) = (AtomicU64::new(write), AtomicBool::new(false));
        Arc::new(Self { stores, left, lands, dead, died: Notify::new() })
    }

    fn own(&self) -> &Stores {
        &self.stores
    }

    /// Returns how many writes are left until it dies.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Returns when the process has died.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    /// Does a write, unless the process dies at it.
    async fn write<T>(&self, write: BoxFuture<'_, T>) -> T {
        if self.dead.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let last =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)) == Ok(1);
        if !last {
            return write.await;
        }
        self.dead.store(true, Ordering::Relaxed);
        if self.lands {
            drop(write.await);
        }
        self.died.notify_one();
        std::future::pending().await
    }
}

impl Checkpointer for Mortal {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.write(self.stores.checkpoints.save(tenant, record)))
    }

    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<CheckpointRecord>>> {
        self.stores.checkpoints.load(tenant, invocation)
    }

    passes!(own);
}

impl PausedStore for Mortal {
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.write(self.stores.paused.save(tenant, invocation, record)))
    }

    passes_paused!(own);
}
