//! The simulated store keeps the contract of a store in good weather.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use singletree_durable::{AuditRow, BoxFuture, JournalSessions, MemoryStore, Result};
use singletree_store_testing::{ContractClause, ContractStores, StoreFactory, check};

use super::{NodeSettings, SimulatedJournal, SimulatedStore};
use crate::coverage::CoverageCounts;
use crate::executor::{SimulationExecutor, TaskOrder};
use crate::fault::{FaultSwarm, RunRestriction};

/// Opens simulated stores without faults.
#[derive(Debug)]
struct SimulatedStoreFactory {
    executor: SimulationExecutor,
    seed: u64,
    opened: Mutex<SimulatedStore>,
}

fn make_store(seed: u64, executor: &SimulationExecutor) -> SimulatedStore {
    let coverage = CoverageCounts::default();
    let swarm = Arc::new(FaultSwarm::draw(seed, executor, &coverage, &RunRestriction::default(), 1));
    swarm.stop_faults();
    SimulatedStore::new(seed, executor, &swarm, &coverage, (Default::default(), &NodeSettings::default()))
}

impl SimulatedStoreFactory {
    fn new(seed: u64, executor: &SimulationExecutor) -> Self {
        let opened = Mutex::new(make_store(seed, executor));
        Self { executor: executor.clone(), seed, opened }
    }

    fn open_handle(&self) -> ContractStores {
        let opened = self.opened.lock().unwrap();
        make_contract_stores(opened.open(0), opened.data())
    }
}

fn make_contract_stores(handle: SimulatedJournal, data: MemoryStore) -> ContractStores {
    let journal = Arc::new(handle);
    ContractStores {
        sessions: Arc::new(JournalSessions::new(journal.clone())),
        journal: journal.clone(),
        upkeep: journal.clone(),
        paused: Arc::new(data.clone()),
        checkpoints: Arc::new(data),
        documents: journal,
    }
}

impl StoreFactory for SimulatedStoreFactory {
    fn open(&self) -> BoxFuture<'_, Result<ContractStores>> {
        *self.opened.lock().unwrap() = make_store(self.seed, &self.executor);
        Box::pin(async { Ok(self.open_handle()) })
    }

    fn reopen(&self, old: ContractStores) -> BoxFuture<'_, Result<ContractStores>> {
        drop(old);
        Box::pin(async { Ok(self.open_handle()) })
    }

    fn open_beside(&self) -> BoxFuture<'_, Result<ContractStores>> {
        let opened = self.opened.lock().unwrap();
        let (handle, data) = opened.open_beside();
        Box::pin(async { Ok(make_contract_stores(handle, data)) })
    }

    fn audit(&self) -> BoxFuture<'_, Result<Vec<AuditRow>>> {
        Box::pin(async { Ok(self.opened.lock().unwrap().data().audit()) })
    }
}

#[test]
fn the_simulated_store_keeps_every_clause_of_the_contract() {
    for clause in ContractClause::all() {
        for seed in 0..5 {
            let executor = SimulationExecutor::new(seed, TaskOrder::Random, false);
            let factory = SimulatedStoreFactory::new(seed, &executor);
            let checked =
                async move { check(*clause, &factory).await.map_err(|violation| violation.to_string()) };
            let kept = executor.run_to_end(Duration::from_secs(3_600), checked).unwrap();
            assert_eq!(kept, Ok(()), "{clause:?} under seed {seed}");
            executor.kill_all();
        }
    }
}
