//! The factory of the memory store.

use std::sync::{Arc, Mutex};

use singletree_durable::{AuditRow, BoxFuture, MemoryStore, Result};
use singletree_store_testing::{ContractStores, StoreFactory};

#[derive(Debug, Default)]
pub(crate) struct MemoryStores(Mutex<MemoryStore>);

impl MemoryStores {
    fn set(&self, store: MemoryStore) -> ContractStores {
        *self.0.lock().expect("no test panics here") = store.clone();
        ContractStores {
            sessions: Arc::new(store.session_store()),
            journal: Arc::new(store.clone()),
            upkeep: Arc::new(store.clone()),
            paused: Arc::new(store.clone()),
            checkpoints: Arc::new(store.clone()),
            documents: Arc::new(store),
        }
    }

    fn store(&self) -> MemoryStore {
        self.0.lock().expect("no test panics here").clone()
    }
}

impl StoreFactory for MemoryStores {
    fn open(&self) -> BoxFuture<'_, Result<ContractStores>> {
        Box::pin(async { Ok(self.set(MemoryStore::new())) })
    }

    fn reopen(&self, old: ContractStores) -> BoxFuture<'_, Result<ContractStores>> {
        drop(old);
        Box::pin(async { Ok(self.set(self.store().reopen())) })
    }

    fn open_beside(&self) -> BoxFuture<'_, Result<ContractStores>> {
        Box::pin(async { Ok(self.set(self.store().open_beside())) })
    }

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
        Box::pin(async { Ok(self.store().audit()) })
    }
}
