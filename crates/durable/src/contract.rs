//! The public suite: every promise of the store traits, by name.
//!
//! A store author writes a [`StoreFactory`] and, for each of [`ContractClause::all`], one test that calls [`check`]. That the suite
//! can tell a broken store from a sound one is proven with the [`FaultyStoreFactory`], which breaks one clause of a sound store.
//!
//! # Example
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use singletree_durable::contract::{StoreFactory, ContractClause, ContractStores, check};
//! use singletree_durable::{AuditRow, BoxFuture, MemoryStore, Result};
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

mod bench;
mod blobs;
mod checkpoints;
mod clause;
mod documents;
mod dossier;
mod forks;
mod numbers;
mod pages;
mod paused;
mod promises;
mod reads;
mod requires;
mod retain;
mod rows;
mod saboteur;
mod saves;
mod sessions;
mod upkeep;
mod usage;
mod waits;
mod writes;

pub use bench::{ContractStores, ContractViolation, StoreFactory};
pub use clause::{ContractClause, check};
pub use saboteur::FaultyStoreFactory;
