//! The memory store, ready for the suite.

use std::sync::{Arc, Mutex};

use singletree_durable::contract::{Bench, Stores};
use singletree_durable::{AuditRow, BoxFuture, MemoryStore, Result};

#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<MemoryStore>);

impl Memory {
    fn set(&self, store: MemoryStore) -> Stores {
        *self.0.lock().expect("no test panics here") = store.clone();
        Stores {
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

impl Bench for Memory {
    fn open(&self) -> BoxFuture<'_, Result<Stores>> {
        Box::pin(async { Ok(self.set(MemoryStore::new())) })
    }

    fn reopen(&self, old: Stores) -> BoxFuture<'_, Result<Stores>> {
        drop(old);
        Box::pin(async { Ok(self.set(self.store().reopen())) })
    }

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
        Box::pin(async { Ok(self.store().audit()) })
    }
}
