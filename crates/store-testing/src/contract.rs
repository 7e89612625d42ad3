//! The contract suite: one check for each promise of the store traits.

mod bench;
mod blobs;
mod checkpoints;
mod clause;
mod documents;
mod dossier;
mod forks;
mod leases;
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
