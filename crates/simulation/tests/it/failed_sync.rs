//! Failures at the same points in three stores: the writes of a simulated process go to a file whose n-th sync fails, and
//! to the memory store, for which those writes fail that the file said had failed. Every other answer is the same in both
//! and in the simulated store as long as nothing has failed, and so are the rows that the next process finds (D38).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use futures_util::future::join_all;
use singletree_durable::{Batch, Error, FencingToken, Journal, MemoryStore, SessionKey};
use singletree_simulation::{FaultKind, LandedWrite, RunPlan, RunRestriction, run_seed};
use singletree_store_sqlite::SqliteStore;

use crate::differential::read_rows;

/// Name the file and the seed to the child.
const FILE: &str = "SIMULATION_CHILD_FILE";
const SEED: &str = "SIMULATION_CHILD_SEED";

/// How many batches of a seed are written.
const BATCHES: usize = 60;

/// How many of them are written at once.
const TOGETHER: usize = 4;

/// The answer to a batch whose commit failed: it was not written.
const FAILED: &str = "store_unavailable";

/// The answer to a batch of which it is not known whether the next process finds it.
const UNKNOWN: &str = "store_commit_unknown";

/// Returns batches of one process of a seed, with the answers of the simulated store, in groups that are written at once:
/// sessions differ within a group.
fn groups_of_seed(seed: u64) -> Vec<Vec<(Batch, Option<&'static str>)>> {
    let deaths = [FaultKind::ProcessKilled, FaultKind::ProcessStopped, FaultKind::PowerCut];
    let restriction = RunRestriction { without: BTreeSet::from(deaths), ..RunRestriction::default() };
    let plan = RunPlan { seed, restriction, keeps_landings: true, ..RunPlan::default() };
    let mut groups: Vec<Vec<(Batch, Option<&'static str>)>> = Vec::new();
    let landings = run_seed(&plan).landings.into_iter();
    let batches = landings.filter_map(|write| match write {
        LandedWrite::Batch(batch, answer) => Some((batch, answer)),
        LandedWrite::Opened => None,
    });
    for (batch, answer) in batches.take(BATCHES) {
        let fits = |group: &Vec<(Batch, _)>| {
            let depends = |other: &Batch| other.key == batch.key || reads_session(&batch, &other.key);
            group.len() < TOGETHER && !group.iter().any(|(other, _)| depends(other))
        };
        match groups.last_mut().filter(|group| fits(group)) {
            Some(group) => group.push((batch, answer)),
            None => groups.push(vec![(batch, answer)]),
        }
    }
    groups
}

/// Runs the seed in a thread without a runtime, whose budgets would interrupt the tasks of the simulation.
fn run_apart(seed: u64) -> Vec<Vec<(Batch, Option<&'static str>)>> {
    std::thread::spawn(move || groups_of_seed(seed)).join().unwrap()
}

/// Tells whether a batch inherits from a session.
fn reads_session(batch: &Batch, key: &SessionKey) -> bool {
    let is_source = |require: &singletree_durable::BatchPrecondition| matches!(require, singletree_durable::BatchPrecondition::Source { session, .. } if *session == key.session);
    batch.requires.iter().any(is_source)
}

/// The fences under which a store's sessions are held.
#[derive(Default)]
struct HeldFences(BTreeMap<SessionKey, FencingToken>);

impl HeldFences {
    /// Puts the fence of this store into a batch; none when the session cannot be acquired.
    async fn fence_batch(&mut self, journal: &dyn Journal, batch: &Batch) -> Option<Batch> {
        if !self.0.contains_key(&batch.key) {
            self.0.insert(batch.key.clone(), journal.acquire(&batch.key).await.ok()?.fence);
        }
        Some(Batch { fence: *self.0.get(&batch.key)?, ..batch.clone() })
    }
}

fn category_of(answer: &Result<(), Error>) -> &'static str {
    answer.as_ref().err().map_or("written", Error::category)
}

/// Not a test by itself: the process whose disk fails.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the parent names the file and the seed")]
async fn what_the_child_with_a_broken_disk_does() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    let groups = run_apart(seed);
    let Ok(store) = SqliteStore::open(path).await else { return };
    let mut fences = HeldFences::default();
    // From here on a reader has the file open, so that no end of a writer's connection removes the log.
    drop(store.read_session(&groups[0][0].0.key).await);
    let mut out = String::new();
    for group in groups {
        let mut batches = Vec::new();
        for (batch, _) in &group {
            batches.push(fences.fence_batch(&store, batch).await.unwrap());
        }
        let answers = join_all(batches.into_iter().map(|batch| store.apply(batch))).await;
        out.extend(answers.iter().map(|answer| format!("answer {}\n", category_of(answer))));
    }
    // Straight to the pipe: the test harness captures the output of `print!`.
    let mut pipe = std::io::stdout();
    writeln!(pipe, "\n{out}dies").unwrap();
    pipe.flush().unwrap();
    // Nothing is closed, and nothing is folded in.
    std::process::abort();
}

/// Runs the child so that such calls of sync fail, and returns its answers; none when the file could not be opened.
fn answers_with_failed_syncs(path: &Path, seed: u64, when: &str) -> Option<Vec<String>> {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
    command.args(["-e", &format!("inject=fsync,fdatasync:error=EIO:when={when}")]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "failed_sync::what_the_child_with_a_broken_disk_does", "--nocapture"]);
    command.env(FILE, path).env(SEED, seed.to_string());
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let answers = said.lines().filter_map(|line| line.strip_prefix("answer ").map(str::to_owned));
    said.contains("dies").then(|| answers.collect())
}

fn can_trace() -> bool {
    let works = Command::new("strace").args(["-o", "/dev/null", "true"]).stderr(Stdio::null()).status();
    let works = works.is_ok_and(|status| status.success());
    if !works {
        // Bypasses the test harness, which captures the output of passing tests.
        let mut stderr = std::io::stderr();
        writeln!(stderr, "not run: failed_sync: there is no strace that works").unwrap();
    }
    works
}

/// What became of the batches of a seed on a file with a broken disk.
#[derive(Debug, Default)]
struct ComparedFailures {
    failed: usize,
    unknown: usize,
}

/// Gives the batches to the memory store, with the failures of the file, and compares all answers and rows.
async fn compare_with_memory(path: &Path, seed: u64, answers: &[String]) -> ComparedFailures {
    let batches: Vec<_> = run_apart(seed).concat();
    assert_eq!(answers.len(), batches.len(), "seed {seed}");
    let (memory, mut fences) = (MemoryStore::new(), HeldFences::default());
    let (mut compared, mut unknown) = (ComparedFailures::default(), Vec::new());
    for (at, ((batch, simulated), answer)) in batches.iter().zip(answers).enumerate() {
        let batch = fences.fence_batch(&memory, batch).await.unwrap();
        match answer.as_str() {
            FAILED => compared.failed += 1,
            UNKNOWN => unknown.push(batch),
            answer => {
                let told = memory.apply(batch).await;
                assert_eq!(category_of(&told), answer, "seed {seed}, batch {at}");
                let has_failed = compared.failed > 0 || !unknown.is_empty();
                assert!(has_failed || simulated.unwrap_or("written") == answer, "seed {seed}, batch {at}");
            }
        }
    }
    compared.unknown = unknown.len();
    let file = SqliteStore::open(path).await.unwrap();
    assert_eq!(file.find_damage().await.unwrap(), [], "seed {seed}");
    let keys: BTreeSet<&SessionKey> = batches.iter().map(|(batch, _)| &batch.key).collect();
    let refused = read_all_rows(&memory, &keys).await;
    let found = read_all_rows(&file, &keys).await;
    file.close().await;
    if found != refused {
        for batch in unknown {
            drop(memory.apply(batch).await);
        }
        assert_eq!(found, read_all_rows(&memory, &keys).await, "seed {seed}: {answers:?}");
    }
    compared
}

async fn read_all_rows(journal: &dyn Journal, keys: &BTreeSet<&SessionKey>) -> Vec<String> {
    let mut rows = Vec::new();
    for key in keys {
        rows.push(read_rows(journal, key).await.unwrap());
    }
    rows
}

#[tokio::test]
async fn what_a_failed_sync_refused_is_on_no_disk_and_what_was_answered_is() {
    if !can_trace() {
        return;
    }
    let (mut failed, mut unknown) = (0, 0);
    for seed in 0..3 {
        // Each of the first syncs, among which are those of the first commit, and then some.
        for first in (2..10).chain((11..60).step_by(8)) {
            for when in [first.to_string(), format!("{first}+")] {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("broken.db");
                let Some(answers) = answers_with_failed_syncs(&path, seed, &when) else { continue };
                let compared = compare_with_memory(&path, seed, &answers).await;
                failed += compared.failed;
                unknown += compared.unknown;
            }
        }
    }
    assert!(failed > 20 && unknown > 5, "{failed} failed, {unknown} unknown");
}
