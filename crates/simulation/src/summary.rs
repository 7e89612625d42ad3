//! The figures of many runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::coverage::{CASES, CASES_OF_ONE_PROCESS, CASES_OF_SEVERAL_PROCESSES};
use crate::fault::FaultKind;
use crate::run::RunReport;

/// The figures of many runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SimulationSummary {
    /// Runs.
    pub seeds: u64,
    /// Turns that were accepted.
    pub turns: u64,
    /// Calls of clients.
    pub calls: u64,
    /// Commits of the store.
    pub commits: u64,
    /// Writes in these commits.
    pub writes: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Seconds of simulated time in which work was open, without jumps of more than a minute.
    pub counted_seconds: f64,
    /// The digest of the digests of all runs.
    pub digest: u64,
    /// How often each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often each case happened, those that never did included.
    pub cases: BTreeMap<&'static str, u64>,
    /// The seeds that failed.
    pub failed: Vec<u64>,
}

impl SimulationSummary {
    /// Starts with no run, for runs with one process at a time.
    #[must_use]
    pub fn new() -> Self {
        Self::of_processes(1)
    }

    /// Starts with no run, for runs in which so many processes share the store: it decides which faults and cases have to
    /// be reached.
    #[must_use]
    pub fn of_processes(nodes: usize) -> Self {
        let own = if nodes > 1 { CASES_OF_SEVERAL_PROCESSES } else { CASES_OF_ONE_PROCESS };
        let cases = CASES.iter().chain(own).map(|case| (*case, 0)).collect();
        let faults = FaultKind::ALL.iter().filter(|kind| kind.can_happen(nodes));
        let faults = faults.map(|kind| (kind.as_str(), 0)).collect();
        Self { cases, faults, ..Self::default() }
    }

    /// Adds a run.
    pub fn add_run(&mut self, report: &RunReport) {
        self.seeds += 1;
        self.turns += report.turns;
        self.calls += report.calls;
        self.commits += report.commits;
        self.writes += report.writes;
        self.deaths += report.deaths;
        self.counted_seconds += report.counted.as_secs_f64();
        self.digest = crate::digest::fold_bytes(self.digest, &report.digest.to_le_bytes());
        for (fault, count) in &report.faults {
            *self.faults.entry(fault).or_default() += count;
        }
        for (case, count) in &report.coverage {
            if let Some(total) = self.cases.get_mut(case) {
                *total += count;
            }
        }
        if !report.violations.is_empty() {
            self.failed.push(report.seed);
        }
    }

    /// Returns the faults and cases that no run has reached.
    #[must_use]
    pub fn missed_cases(&self) -> Vec<&'static str> {
        let missed = self.faults.iter().chain(&self.cases).filter(|(_, count)| **count == 0);
        missed.map(|(case, _)| *case).collect()
    }

    /// Returns the simulated time that counts.
    #[must_use]
    pub fn counted_time(&self) -> Duration {
        Duration::from_secs_f64(self.counted_seconds)
    }
}

impl fmt::Display for SimulationSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, turns, calls, commits, writes, deaths, .. } = self;
        writeln!(f, "{seeds} seeds: {turns} turns, {calls} calls, {commits} commits of {writes} writes,")?;
        let (hours, faults) = (self.counted_seconds / 3_600.0, self.faults.values().sum::<u64>());
        writeln!(f, "{faults} faults, {deaths} deaths of processes, {hours:.2} simulated hours")?;
        let reached = self.faults.len() + self.cases.len() - self.missed_cases().len();
        writeln!(f, "{reached} of {} faults and cases reached", self.faults.len() + self.cases.len())?;
        for case in self.missed_cases() {
            writeln!(f, "never: {case}")?;
        }
        write!(f, "digest {:016x}", self.digest)
    }
}
