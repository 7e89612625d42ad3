//! What the simulated store answered, the memory store and a file answer, too: every batch that arrived at the data, with
//! what was lost and what came late, in the same order and with the same openings; and then all rows are the same.

use std::collections::{BTreeMap, BTreeSet};

use singletree_durable::{
    Batch, Error, FencingToken, ItemRange, Journal, MemoryStore, Result, SessionKey, TurnRowQuery,
    UsageRowQuery, WaitRowQuery,
};
use singletree_simulation::{LandedWrite, RunPlan, run_seed};
use singletree_store_sqlite::{CommitDurability, SqliteStore};

const ALL: u64 = u64::MAX >> 1;

/// A store that the next process can open.
enum Replayed {
    Memory(MemoryStore),
    File(tempfile::TempDir, SqliteStore),
}

impl Replayed {
    async fn open_file(folder: tempfile::TempDir) -> Self {
        let options = SqliteStore::options(folder.path().join("replayed.db"));
        let store = options.durability(CommitDurability::Normal).open().await.unwrap();
        Self::File(folder, store)
    }

    async fn reopen(self) -> Self {
        match self {
            Self::Memory(store) => Self::Memory(store.reopen()),
            Self::File(folder, store) => {
                store.close().await;
                Self::open_file(folder).await
            }
        }
    }

    fn journal(&self) -> &dyn Journal {
        match self {
            Self::Memory(store) => store,
            Self::File(_, store) => store,
        }
    }
}

/// Plays the log; returns the store, after a comparison of each answer.
async fn replay(mut store: Replayed, log: &[LandedWrite]) -> Replayed {
    // The sessions that the present opening holds.
    let mut fences: BTreeMap<&SessionKey, FencingToken> = BTreeMap::new();
    for (at, write) in log.iter().enumerate() {
        let (batch, answer) = match write {
            LandedWrite::Opened => {
                store = store.reopen().await;
                fences.clear();
                continue;
            }
            LandedWrite::Batch(batch, answer) => (batch, answer),
        };
        // A statement of a dead process comes under a fence of before; the next process may hold the session already.
        let is_late = matches!(*answer, Some("store_fenced" | "store_lease_lost"));
        let fence = match fences.get(&batch.key) {
            _ if is_late => FencingToken(0),
            Some(fence) => *fence,
            None => store.journal().acquire(&batch.key).await.unwrap().fence,
        };
        if !is_late {
            fences.insert(&batch.key, fence);
        }
        let told = store.journal().apply(Batch { fence, ..batch.clone() }).await;
        let category = told.as_ref().err().map(Error::category);
        let expected = if is_late { Some("store_lease_lost") } else { *answer };
        assert_eq!(category, expected, "write {at}: {batch:?}: {told:?}");
    }
    store
}

/// Reads everything of a session. Fences are those of the store that a batch was written for.
pub(crate) async fn read_rows(journal: &dyn Journal, key: &SessionKey) -> Result<String> {
    let session = journal.read_session(key).await?;
    let counters = journal.read_counters(key).await?;
    let turns = journal.read_turns(key, &TurnRowQuery::From { no: 0, limit: ALL }).await?;
    let items = journal.read_items(key, &ItemRange::Numbers { from: 0, to: ALL }).await?;
    let events = journal.read_events(key, 0, ALL).await?;
    let waits = journal.read_waits(&WaitRowQuery::Pending(key.clone())).await?;
    let positions = journal.read_positions(key).await?;
    let mail = journal.read_early_signals(key).await?;
    let usage = journal.read_model_usage(&UsageRowQuery::Session(key.clone())).await?;
    let mut records = Vec::new();
    for turn in &turns {
        records.extend(journal.read_turn_records(key, turn.no).await?);
    }
    Ok(format!(
        "{session:#?}{counters:#?}{turns:#?}{items:#?}{events:#?}{waits:#?}{positions:#?}{mail:#?}{usage:#?}{records:#?}"
    ))
}

#[test]
fn the_memory_store_and_a_file_answer_as_the_simulated_store_did() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut refused = 0;
    for seed in 0..30 {
        let log = run_seed(&RunPlan { seed, keeps_landings: true, ..RunPlan::default() }).landings;
        refused += log.iter().filter(|write| matches!(write, LandedWrite::Batch(_, Some(_)))).count();
        let keys: BTreeSet<SessionKey> = log
            .iter()
            .filter_map(|write| match write {
                LandedWrite::Batch(batch, _) => Some(batch.key.clone()),
                LandedWrite::Opened => None,
            })
            .collect();
        runtime.block_on(async {
            let memory = replay(Replayed::Memory(MemoryStore::new()), &log).await;
            let file = Replayed::open_file(tempfile::tempdir().unwrap()).await;
            let file = replay(file, &log).await;
            for key in &keys {
                let one = read_rows(memory.journal(), key).await.unwrap();
                let other = read_rows(file.journal(), key).await.unwrap();
                assert_eq!(one, other, "seed {seed}, {key:?}");
            }
            if let Replayed::File(folder, store) = file {
                store.close().await;
                drop(folder);
            }
        });
    }
    assert!(refused > 0, "no batch was refused");
}
