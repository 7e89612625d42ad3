//! Runs whose processes die for good, and the outcomes of the processes that follow.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::{BatchedCheckpointer, InvocationId, MemoryStore, PausedStatus, TenantId};
use singletree_engine::{InvokeOptions, RunOutcome};
use singletree_store_sqlite::{CommitDurability, SqliteStore};

use super::dice::Dice;
use super::mortal::Mortal;
use super::run::{Begin, End, Run, Runner, first};
use super::stores::Stores;
use super::told::{Act, Told};
use super::world::{Ended, Key, Note};
use crate::rig::{invocation, state};

/// More processes than any run here needs.
const MOST: usize = 100;

/// Where the processes of a run keep it.
#[derive(Debug)]
pub(crate) enum Ground<'a> {
    Memory(Arc<MemoryStore>),
    /// The same, but saves from inside of fan-outs are kept back until there are so many, and die with the process
    /// (pipeline-utilities §10.11.4).
    Batched(Arc<MemoryStore>, NonZeroU64),
    /// A file that each process opens anew.
    File(&'a Path),
}

impl Ground<'_> {
    async fn open(&self) -> (Stores, Option<SqliteStore>) {
        match self {
            Self::Memory(store) => (Stores::of(store), None),
            Self::Batched(store, flush_every) => {
                let Stores { checkpoints, paused } = Stores::of(store);
                let checkpoints = Arc::new(BatchedCheckpointer::new(checkpoints, *flush_every));
                (Stores { checkpoints, paused }, None)
            }
            Self::File(path) => {
                let open = SqliteStore::options(*path).durability(CommitDurability::Normal).open();
                let store = open.await.unwrap();
                (Stores::of(&Arc::new(store.clone())), Some(store))
            }
        }
    }
}

/// A run that is to die.
pub(crate) struct Doomed<'a> {
    pub(crate) told: &'a Told,
    pub(crate) runner: &'a Runner<'a>,
    /// The run that was not interrupted, and how many records it wrote.
    pub(crate) whole: &'a Run,
    pub(crate) writes: u64,
}

/// At which write a process dies, and whether that lands.
pub(crate) type Death = (u64, bool);

impl Doomed<'_> {
    /// Draws the deaths of one process or two.
    pub(crate) fn draw(&self, dice: &mut Dice) -> Vec<Death> {
        let writes = self.writes.max(1);
        let count = 1 + u64::from(dice.percent(30));
        (0..count).map(|_| (1 + dice.below(writes), dice.percent(50))).collect()
    }

    /// Lets processes die, the last death first; returns how many died. The outcome of the run is the same.
    ///
    /// # Errors
    /// A description of the difference.
    pub(crate) async fn check(&self, ground: &Ground<'_>, deaths: Vec<Death>) -> Result<u64, String> {
        let planned = format!("processes die at {deaths:?}");
        let at = |what: String| format!("{planned} (write, lands): {what}");
        let (end, notes, died) = self.live(ground, deaths).await.map_err(at)?;
        if end != self.whole.end {
            return Err(at(format!("it ended as {end:?}, not {:?}", self.whole.end)));
        }
        let known: BTreeSet<&Key> = self.told.acts.iter().map(|it| &it.key).collect();
        if let Some(note) = notes.iter().find(|it| !known.contains(&it.key)) {
            return Err(at(format!("{:?} never happens in the whole run", note.key)));
        }
        let done: BTreeSet<&Key> =
            notes.iter().filter(|it| it.ended == Some(Ended::Done)).map(|it| &it.key).collect();
        let due = |it: &&Act| it.certain && it.ended == Ended::Done;
        match self.told.acts.iter().filter(due).find(|it| !done.contains(&it.key)) {
            Some(act) => Err(at(format!("{:?} never ran", act.key))),
            None => Ok(died),
        }
    }

    /// Runs process after process, the last ones without dying. Returns the end, all notes, and how many died.
    async fn live(
        &self,
        ground: &Ground<'_>,
        mut deaths: Vec<Death>,
    ) -> Result<(End, Vec<Note>, u64), String> {
        let mut ids = vec![first()];
        let (mut notes, mut died) = (Vec::new(), 0);
        let mut death = deaths.pop();
        for _ in 0..MOST {
            let (stores, file) = ground.open().await;
            let begin = begin(&stores, &ids).await;
            if matches!(begin, Begin::Recover(_)) {
                ids.push(invocation(&self.runner.workshop.ids.next()));
            }
            let (write, lands) = death.unwrap_or((0, false));
            let mortal = Mortal::new(stores, write, lands);
            let graph = self.runner.graph(&Stores::of(&mortal));
            let outcome = tokio::select! {
                biased;
                outcome = begin.run(&graph, InvokeOptions::new()) => Some(outcome),
                () = mortal.died() => None,
            };
            notes.extend(self.runner.workshop.world.take());
            let left = mortal.left();
            drop((graph, mortal));
            if let Some(file) = file {
                file.close().await;
            }
            match outcome {
                None => {
                    died += 1;
                    death = deaths.pop();
                }
                Some(Ok(RunOutcome::Completed(done))) => {
                    return Ok((End::Completed(state(&done.state)), notes, died));
                }
                Some(Err(error)) => return Ok((End::failed(&error), notes, died)),
                // The next process lives as long as this one would have lived.
                Some(Ok(RunOutcome::Suspended(_))) => death = death.map(|_| (left, lands)),
            }
        }
        Err("no process comes to an end".into())
    }
}

/// Decides how a process goes on: from the stored records of the newest invocation that has any.
async fn begin(stores: &Stores, ids: &[InvocationId]) -> Begin {
    let tenant = TenantId::single();
    for id in ids.iter().rev() {
        let paused = stores.paused.load(&tenant, id).await.unwrap();
        if let Some(paused) = paused.filter(|it| it.status == PausedStatus::Suspended) {
            let body: Value = paused.body.decode().unwrap();
            let answers = body["frames"][0]["answer"].as_i64().unwrap();
            return Begin::Resume(id.clone(), answers + 1);
        }
        if stores.checkpoints.load(&tenant, id).await.unwrap().is_some() {
            return Begin::Recover(id.clone());
        }
    }
    Begin::Anew
}
