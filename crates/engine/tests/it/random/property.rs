//! The property, over many graphs: the outcome of a run does not depend on where it was interrupted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

use super::everywhere::{self, Done, Spoiled};
use super::generate;
use super::plan::Plan;
use super::reduce::reduce;
use super::told::{Feature, Told};

/// How many graphs there are unless the environment says otherwise.
const GRAPHS: u64 = 1_000;

/// How many of a hundred graphs must have each of the required features.
const SHARE: f64 = 10.0;

/// One in so many is run until processes have died at every write of it,
const DYING: u64 = 50;

/// and one in so many over a file.
const FILED: u64 = 500;

/// The features that so many graphs must have, and their names.
const ASKED: [(Feature, &str); 7] = [
    (Feature::Cycle, "a cycle"),
    (Feature::SubgraphTwoDeep, "a subgraph two deep"),
    (Feature::NestedFanOut, "a nested fan-out"),
    (Feature::FanOutInBranch, "a fan-out in a branch"),
    (Feature::Retry, "a retry"),
    (Feature::Isolation, "an isolation"),
    (Feature::SuspensionThatRunsAgain, "a suspension that runs its node again"),
];

/// Further features that are counted.
const BESIDE: [(Feature, &str); 3] = [
    (Feature::Suspension, "any suspension"),
    (Feature::Failure, "a failure at the end"),
    (Feature::Collected, "collected failures"),
];

fn asked(name: &str) -> Option<u64> {
    std::env::var_os(name).map(|it| it.to_str().unwrap().parse().unwrap())
}

/// The seeds: `SINGLETREE_SEED` is the first one, and the only one unless `SINGLETREE_GRAPHS` says how many.
fn seeds() -> std::ops::Range<u64> {
    let (first, count) = (asked("SINGLETREE_SEED"), asked("SINGLETREE_GRAPHS"));
    let count = count.unwrap_or(if first.is_some() { 1 } else { GRAPHS });
    let first = first.unwrap_or(0);
    first..first + count
}

/// A runtime whose clock is set forward whenever nothing else happens.
pub(crate) fn paused() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// The counts over all graphs.
#[derive(Default)]
struct Tally {
    features: BTreeMap<Feature, u64>,
    done: Done,
    /// Deaths in graphs whose processes died everywhere.
    everywhere: u64,
    /// The first failure of each thread.
    failures: Vec<(u64, String)>,
}

impl Tally {
    fn take(&mut self, other: &Self) {
        for (feature, count) in &other.features {
            *self.features.entry(*feature).or_default() += count;
        }
        self.done.records += other.done.records;
        self.done.answers += other.done.answers;
        self.done.deaths += other.done.deaths;
        self.everywhere += other.everywhere;
        self.failures.extend(other.failures.iter().cloned());
    }

    fn share(&self, feature: Feature, graphs: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "the counts are small")]
        let share = |count: u64| count as f64 * 100.0 / graphs as f64;
        share(self.features.get(&feature).copied().unwrap_or_default())
    }
}

/// Takes seed after seed until there is none left, or one has failed.
fn work(next: &AtomicU64, seeds: &std::ops::Range<u64>) -> Tally {
    let (runtime, mut tally) = (paused(), Tally::default());
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if !seeds.contains(&seed) {
            return tally;
        }
        let (plan, told) = generate::graph(seed);
        for feature in &told.features {
            *tally.features.entry(*feature).or_default() += 1;
        }
        let done = runtime.block_on(everywhere::check(&plan, &told, (seed, Spoiled::default())));
        let done = done.and_then(|done| {
            let everywhere = dying(&plan, &told, (seed, &runtime))?;
            Ok((done, everywhere))
        });
        match done {
            Ok((done, everywhere)) => tally.take(&Tally { done, everywhere, ..Tally::default() }),
            Err(what) => {
                next.store(seeds.end, Ordering::Relaxed);
                tally.failures.push((seed, what));
                return tally;
            }
        }
    }
}

/// Lets the processes of a graph die at every write, for the graphs selected by `DYING` and `FILED`: over a file,
/// unless the outcome depends on the order of its members, which threads of a store would change.
fn dying(plan: &Plan, told: &Told, (seed, runtime): (u64, &Runtime)) -> Result<u64, String> {
    if seed % DYING > 0 {
        return Ok(0);
    }
    if seed % FILED > 0 || told.in_order {
        return runtime.block_on(everywhere::die_everywhere(plan, told, None));
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let died = runtime.block_on(everywhere::die_everywhere(plan, told, Some(folder.path())));
    died.map_err(|it| format!("over a file: {it}"))
}

/// Describes a failure: with the smallest graph that was found to fail, too, and how to see it again.
fn described(seed: u64, what: String) -> String {
    let (plan, _) = generate::graph(seed);
    let runtime = paused();
    let mut text = format!("seed {seed}: {what}\n");
    let fails = |plan: &Plan, told: &Told| {
        let checked = runtime.block_on(everywhere::check(plan, told, (seed, Spoiled::default())));
        let died = || dying(plan, told, (seed, &runtime)).map(drop);
        checked.map(drop).and_then(|()| died()).err()
    };
    let (smallest, why) = reduce(plan.clone(), what, fails);
    let _ = write!(text, "the graph:\n{plan}\nthe smallest that fails, too, where {why}:\n{smallest}\n");
    let test = "random::property::a_run_comes_to_the_same_wherever_it_is_gone_on_with";
    let _ = writeln!(
        text,
        "again: SINGLETREE_SEED={seed} cargo test -p singletree-engine --test it -- --exact {test}"
    );
    text
}

// spec: pipeline-utilities §§10.3–10.7, 10.11, 11.9; suspension §§3, 7, 8; graph-engine §6. INV-2, INV-8, INV-13.
#[test]
fn a_run_comes_to_the_same_wherever_it_is_gone_on_with() {
    let seeds = seeds();
    let graphs = seeds.end - seeds.start;
    let (next, all) = (AtomicU64::new(seeds.start), Mutex::new(Tally::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let tally = work(&next, &seeds);
                all.lock().unwrap_or_else(PoisonError::into_inner).take(&tally);
            });
        }
    });
    let tally = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((seed, what)) = tally.failures.iter().min_by_key(|(seed, _)| *seed) {
        panic!("{}", described(*seed, what.clone()));
    }
    let shares = ASKED.iter().chain(&BESIDE);
    let shares = shares.map(|(feature, name)| format!("{name} {:.1} %", tally.share(*feature, graphs)));
    let shares = shares.collect::<Vec<_>>().join(", ");
    let Done { records, answers, deaths } = tally.done;
    let said = writeln!(
        std::io::stderr(),
        "random graphs: {graphs} from seed {}, gone on with from {records} records, {answers} suspensions answered, \
         {deaths} processes died anywhere and {} everywhere; {shares}",
        seeds.start,
        tally.everywhere,
    );
    drop(said);
    // A few graphs say nothing about shares.
    for (feature, name) in ASKED.iter().filter(|_| graphs >= GRAPHS) {
        let share = tally.share(*feature, graphs);
        assert!(share >= SHARE, "{name}: {share:.1} %");
    }
}
