//! Test tools for authors of stores: the contract suite and a fault injector. Stores use it as a dev-dependency.
//!
//! # The contract suite
//! The documentation of the traits in `singletree-durable` is the contract of a store. Each promise in it is a
//! [`ContractClause`] with a name and a text. A store author writes a [`StoreFactory`], which opens a new store, opens it
//! again as the next process would, opens another handle that owns sessions of its own, and, for each of [`ContractClause::all`], one test that calls [`check`]. A
//! [`ContractViolation`] names the broken clause and the observed behavior. Checks need no async runtime except the
//! one that the store needs, and they never sleep.
//!
//! [`FaultyStoreFactory`] breaks one clause of a correct store. The tests of the suite itself use it for each clause.
//!
//! # Faults
//! A [`FaultInjectingStore`] lets a store fail from its n-th write on, before or after that write took effect, as if the
//! process died there. Applications use it to test that they recover at every write.
//!
//! # Example
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use singletree_durable::{AuditRow, BoxFuture, MemoryStore, Result};
//! use singletree_store_testing::{ContractClause, ContractStores, StoreFactory, check};
//!
//! #[derive(Debug, Default)]
//! struct Memory(Mutex<MemoryStore>);
//!
//! impl Memory {
//!     fn set(&self, store: MemoryStore) -> ContractStores {
//!         *self.0.lock().unwrap() = store.clone();
//!         ContractStores {
//!             sessions: Arc::new(store.session_store()),
//!             journal: Arc::new(store.clone()),
//!             upkeep: Arc::new(store.clone()),
//!             paused: Arc::new(store.clone()),
//!             checkpoints: Arc::new(store.clone()),
//!             documents: Arc::new(store),
//!         }
//!     }
//! }
//!
//! impl StoreFactory for Memory {
//!     fn open(&self) -> BoxFuture<'_, Result<ContractStores>> {
//!         Box::pin(async { Ok(self.set(MemoryStore::new())) })
//!     }
//!     fn reopen(&self, old: ContractStores) -> BoxFuture<'_, Result<ContractStores>> {
//!         drop(old);
//!         let store = self.0.lock().unwrap().reopen();
//!         Box::pin(async { Ok(self.set(store)) })
//!     }
//!     fn open_beside(&self) -> BoxFuture<'_, Result<ContractStores>> {
//!         let store = self.0.lock().unwrap().open_beside();
//!         Box::pin(async { Ok(self.set(store)) })
//!     }
//!     fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
//!         Box::pin(async { Ok(self.0.lock().unwrap().audit()) })
//!     }
//! }
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(async {
//! check(ContractClause::Ordered, &Memory::default()).await.unwrap();
//! # });
//! ```

mod blocking;
mod contract;
mod fault;

pub use blocking::acquire_blocking;
pub use contract::{
    ContractClause, ContractStores, ContractViolation, FaultyStoreFactory, StoreFactory, check,
};
pub use fault::{FailedWriteEffect, FaultInjectingStore};
