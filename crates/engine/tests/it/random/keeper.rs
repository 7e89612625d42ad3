//! Every record that a run saves, kept for those that go on from it.

use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::{
    BoxFuture, CheckpointFilter, CheckpointRecord, CheckpointSummary, Checkpointer, InvocationId,
    MemoryStore, Result, TenantId,
};

use super::stores::{Stores, passes};
use super::world::World;

/// A record that was saved, and when that was in the world.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    pub(crate) record: CheckpointRecord,
    pub(crate) at: u64,
}

/// Remembers every save beside storing it.
#[derive(Debug)]
pub(crate) struct Keeper {
    stores: Stores,
    world: Arc<World>,
    saved: Mutex<Vec<Saved>>,
}

impl Keeper {
    /// A keeper over a store in memory, and the stores of a process that uses both.
    pub(crate) fn new(world: &Arc<World>) -> (Arc<Self>, Stores) {
        let stores = Stores::of(&Arc::new(MemoryStore::new()));
        let paused = stores.paused.clone();
        let keeper = Arc::new(Self { stores, world: world.clone(), saved: Mutex::default() });
        (keeper.clone(), Stores { checkpoints: keeper, paused })
    }

    fn own(&self) -> &Stores {
        &self.stores
    }

    pub(crate) fn saved(&self) -> Vec<Saved> {
        std::mem::take(&mut self.saved.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Checkpointer for Keeper {
    fn save<'a>(&'a self, tenant: &'a TenantId, record: &'a CheckpointRecord) -> BoxFuture<'a, Result<()>> {
        let saved = Saved { record: record.clone(), at: self.world.tick() };
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).push(saved);
        self.stores.checkpoints.save(tenant, record)
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
