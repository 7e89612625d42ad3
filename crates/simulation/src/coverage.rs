//! The cases that a simulation has to reach sometimes: one that never does proves nothing about them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The cases that all kinds of runs reach sometimes, beside each fault. A number of seeds that misses one of them is a failure of the
/// simulation.
pub const CASES: &[&str] = &[
    "a call met a process that was stopping",
    "a call was repeated after its connection was lost",
    "a call of a campaign was in doubt",
    "a campaign paused after a failure",
    "a campaign used up its budget",
    "a campaign was completed",
    "a campaign was deleted",
    "a campaign went on after a pause",
    "a cancel raced a deletion",
    "a call met a server that has the tool no longer",
    "a commit landed after its process was killed",
    "a commit was answered before an earlier one of another session",
    "a commit was lost with its process",
    "a failed commit failed all its members",
    "a fence was refused",
    "a fork raced a deletion",
    "a listener came in the middle of a reply",
    "a listener heard of a message that steers",
    "a listener heard the model think",
    "a listener was told that its session was deleted",
    "a message was refused since the store failed",
    "a message was refused while its session waited",
    "a person was too late with a campaign",
    "a process could not take over turns and started again",
    "a process was stopped in an orderly way",
    "a proposal was refused",
    "a queue was full",
    "a read saw a commit before its acknowledgement",
    "a retry came too late",
    "a server of tools could not be reached",
    "a statement landed after its client had gone",
    "a turn died with its process too often",
    "a turn used up its budget",
    "a turn was cancelled",
    "a turn was not known any more",
    "a wait expired, or an answer came after its deadline",
    "an answer raced a deadline",
    "another release was started",
    "approval was asked for a changed definition",
    "it was not known whether a message was accepted",
    "the tools of a server were others than before",
    "turns of a dead process were taken over",
    "two answers differed",
];

/// The cases of runs with one process at a time, beside [`CASES`].
pub(crate) const CASES_OF_ONE_PROCESS: &[&str] = &[
    "a commit in doubt was kept",
    "a commit in doubt was lost",
    "a commit in doubt was replaced",
    "a power cut lost a suffix",
];

/// The cases of runs in which several processes share the store, beside [`CASES`].
pub(crate) const CASES_OF_SEVERAL_PROCESSES: &[&str] = &[
    "a session was another process's",
    "a session was left to a process that has its graph",
    "a statement of a process that was cut off",
    "the lease of a process that lives ended",
    "the outcome of a cut commit was settled",
    "the session of a cut commit was another process's",
];

/// Counts of named cases of a run. A clone counts together with it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoverageCounts(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl CoverageCounts {
    /// Counts a case.
    pub(crate) fn note(&self, case: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(case).or_default() += 1;
    }

    /// Counts a case, if it is one.
    pub(crate) fn note_if(&self, happened: bool, case: &'static str) {
        if happened {
            self.note(case);
        }
    }

    /// Returns the counts.
    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
