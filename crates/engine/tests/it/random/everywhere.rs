//! One graph, run whole and gone on with from everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use singletree_durable::{CheckpointRecord, MemoryStore};
use singletree_engine::GraphCursor;

use super::build::Workshop;
use super::death::{Doomed, Ground};
use super::dice::Dice;
use super::keeper::{Keeper, Saved};
use super::ledger::Ledger;
use super::plan::Plan;
use super::run::{Begin, Damage, End, Run, Runner};
use super::shelf::{Shelf, Tamper};
use super::stores::Stores;
use super::stream::{self, Expected};
use super::told::{Failure, Told};
use super::world::{Ended, Key};

/// Faults between the engine and the test, to see that the test notices them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spoiled {
    pub(crate) drops: bool,
    pub(crate) tamper: Option<Tamper>,
    pub(crate) damage: Option<Damage>,
}

/// How much was done with a graph.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Done {
    /// Records from which a run went on.
    pub(crate) records: u64,
    /// Suspensions that were answered.
    pub(crate) answers: u64,
    /// Processes that died for good.
    pub(crate) deaths: u64,
}

/// Checks one graph; the seed decides whether and where processes die for good.
///
/// # Errors
/// The first thing that is wrong, in words.
pub(crate) async fn check(plan: &Plan, told: &Told, (seed, spoiled): (u64, Spoiled)) -> Result<Done, String> {
    let workshop = Workshop { drops: spoiled.drops, ..Workshop::new() };
    let runner = Runner { plan, workshop: &workshop, damage: spoiled.damage };
    let cuts = told.executions.iter().filter(|it| it.cut).map(|it| it.path.clone()).collect();
    let subject = Subject { told, runner, cuts };
    let (whole, saved) = subject.whole().await.map_err(|it| format!("the whole run: {it}"))?;
    let records = saved.len() as u64;
    let again = subject.go_on_from_each(&whole, &saved, spoiled.tamper).await?;
    let answers = whole.stretches.len() as u64 - 1;
    let mut done = Done { records, answers: answers + again, deaths: 0 };
    let mut dice = Dice::new(!seed);
    if dice.percent(50) {
        let doomed = Doomed { told, runner: &subject.runner, whole: &whole, writes: records + answers };
        let store = Arc::new(MemoryStore::new());
        let ground = match NonZeroU64::new(dice.below(5)) {
            None | Some(NonZeroU64::MIN) => Ground::Memory(store),
            Some(flush_every) => Ground::Batched(store, flush_every),
        };
        let deaths = doomed.draw(&mut dice);
        done.deaths = doomed.check(&ground, deaths).await?;
    }
    Ok(done)
}

/// Lets a process die at every write of a graph, before it lands and after. In a folder that is still empty they use a
/// file, each run its own: by the clock of the machine, since the store has threads.
///
/// # Errors
/// The first thing that is wrong, in words.
pub(crate) async fn die_everywhere(plan: &Plan, told: &Told, folder: Option<&Path>) -> Result<u64, String> {
    let workshop = Workshop::new();
    let runner = Runner { plan, workshop: &workshop, damage: None };
    let (keeper, stores) = Keeper::new(&workshop.world);
    let whole = runner.run(|| runner.graph(&stores), Begin::Anew).await?;
    let writes = (keeper.saved().len() + whole.stretches.len() - 1) as u64;
    let doomed = Doomed { told, runner: &runner, whole: &whole, writes };
    // Where members are cut off there may be fewer writes another time.
    let cut = told.executions.iter().any(|it| it.cut);
    for write in 1..=writes {
        for lands in [false, true] {
            let file = folder.map(|it| it.join(format!("{write} {lands}.db")));
            let ground = match &file {
                Some(file) => Ground::File(file),
                None => Ground::Memory(Arc::new(MemoryStore::new())),
            };
            let died = doomed.check(&ground, vec![(write, lands)]).await?;
            if died != 1 && !cut {
                return Err(format!("{died} processes died at write {write} of {writes}"));
            }
        }
    }
    Ok(2 * writes)
}

/// A graph with the model's description of it.
struct Subject<'a> {
    told: &'a Told,
    runner: Runner<'a>,
    /// The places of containers whose members may be cut off.
    cuts: BTreeSet<String>,
}

impl Subject<'_> {
    /// Checks the events of a run whose first step has this number.
    fn streams(&self, run: &Run, first: u64) -> Result<(), String> {
        let check = |step, it| stream::check(it, Expected { step, cuts: &self.cuts });
        run.stretches.iter().try_fold(first, check).map(drop)
    }

    /// Runs it whole; returns the run and its saved records.
    async fn whole(&self) -> Result<(Run, Vec<Saved>), String> {
        let (keeper, stores) = Keeper::new(&self.runner.workshop.world);
        let whole = self.runner.run(|| self.runner.graph(&stores), Begin::Anew).await?;
        ends_as_told(&whole.end, self.told)?;
        acts_as_told(&whole, self.told)?;
        self.streams(&whole, 0)?;
        let saved = keeper.saved();
        if saved.is_empty() && matches!(whole.end, End::Failed { .. }) {
            return Err("it failed, and left nothing to go on from".into());
        }
        Ok((whole, saved))
    }

    /// Goes on from each record by itself, as another process would that has nothing but this record. Returns how many
    /// suspensions were answered.
    async fn go_on_from_each(
        &self,
        whole: &Run,
        saved: &[Saved],
        tamper: Option<Tamper>,
    ) -> Result<u64, String> {
        let ledger = Ledger::new(self.told, whole);
        let shelf = Shelf::new(tamper);
        let graph = self.runner.graph(&Stores::of(&shelf));
        let mut answers = 0;
        for (number, one) in saved.iter().enumerate() {
            let at = |what: String| {
                let cursor = one.record.cursor.as_ref().map_or("", |it| it.as_str());
                format!("gone on with after save {} of {}, at {cursor}: {what}", number + 1, saved.len())
            };
            let past = whole.notes().filter(|it| it.at > 0 && it.at < one.at).map(|it| it.step).max();
            if past.is_some_and(|it| it >= next_step(&one.record)) {
                return Err(at(format!("step {past:?} is past already")));
            }
            shelf.leave(&one.record).await;
            let begin = Begin::Recover(one.record.invocation_id.clone());
            let resumed = self.runner.run(|| graph.clone(), begin).await.map_err(at)?;
            if resumed.end != whole.end {
                return Err(at(format!("it ended as {:?}, not {:?}", resumed.end, whole.end)));
            }
            ledger.check(one, &resumed).map_err(at)?;
            // Attempts begin anew (pipeline-utilities §10.6).
            if let Some(event) = resumed.stretches[0].events.first().filter(|it| it.attempt_index > 0) {
                return Err(at(format!("it begins with attempt {}", event.attempt_index)));
            }
            self.streams(&resumed, next_step(&one.record)).map_err(at)?;
            answers += resumed.stretches.len() as u64 - 1;
        }
        Ok(answers)
    }
}

fn next_step(record: &CheckpointRecord) -> u64 {
    record.cursor.as_ref().map_or(0, |it| it.decode::<GraphCursor>().unwrap().next_step)
}

fn ends_as_told(end: &End, told: &Told) -> Result<(), String> {
    let fits = match (end, &told.end) {
        (End::Completed(state), Ok(expected)) => state == expected,
        (End::Failed { category, node, .. }, Err(expected)) => {
            let Failure { category: its, node: at } = expected;
            category == its && node.as_ref() == Some(at)
        }
        (End::Completed(_) | End::Failed { .. }, _) => false,
    };
    if fits { Ok(()) } else { Err(format!("it ended as {end:?}, not {:?}", told.end)) }
}

/// Checks that functions ran as often and with the attempts that the model tells.
fn acts_as_told(run: &Run, told: &Told) -> Result<(), String> {
    // How many there must be, may be, and are.
    let mut counts: BTreeMap<(&Key, u32, Option<Ended>), [usize; 3]> = BTreeMap::new();
    for act in &told.acts {
        let count = counts.entry((&act.key, act.attempt, Some(act.ended))).or_default();
        count[0] += usize::from(act.certain);
        count[1] += 1;
    }
    for note in run.notes().filter(|it| it.ended.is_some()) {
        counts.entry((&note.key, note.attempt, note.ended)).or_default()[2] += 1;
    }
    match counts.iter().find(|(_, [least, most, found])| !(*least..=*most).contains(found)) {
        Some((act, [least, most, found])) => {
            Err(format!("{act:?} happened {found} times, not {least} to {most}"))
        }
        None => Ok(()),
    }
}
