//! The composition of the load: how often each kind of call was made, and how turns ended.

use std::collections::BTreeMap;

use serde::Serialize;
use singletree_audit::AuditedOutcome;

/// The composition of the load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LoadComposition {
    /// Messages in a fork of a whole session.
    pub forks: u64,
    /// Messages said otherwise.
    pub edits: u64,
    /// Answers that were given later than they could have been.
    pub late_answers: u64,
    /// Answers that were given twice.
    pub double_answers: u64,
    /// Calls whose client went away after some polls.
    pub disconnects: u64,
    /// Cancels beside a deletion of their session.
    pub cancels_beside_deletions: u64,
    /// Processes that had another release of the second agent than the one before.
    pub releases: u64,
    /// Processes in which commits failed.
    pub commit_faults: u64,
    /// Processes that were left alone before they were killed, until every call was answered.
    pub settled: u64,
    /// Looks of the doctor between two processes.
    pub examinations: u64,
    /// How calls ended that were told an outcome: by name, or by category.
    pub ends: BTreeMap<String, u64>,
}

impl LoadComposition {
    /// Counts an outcome that was told.
    pub(crate) fn count_outcome(&mut self, end: &AuditedOutcome) {
        let name = match end {
            AuditedOutcome::Errored { category, .. } => category.as_str(),
            AuditedOutcome::Completed { .. } | AuditedOutcome::Suspended { .. } => end.as_str(),
        };
        *self.ends.entry(name.to_owned()).or_default() += 1;
    }

    /// Returns how many of a hundred outcomes said that the session was suspended: those turns did not run.
    #[must_use]
    pub fn suspended_share(&self) -> u64 {
        let all: u64 = self.ends.values().sum();
        let refused = self.ends.get(SUSPENDED).copied().unwrap_or(0);
        (refused * 100).checked_div(all).unwrap_or(0)
    }
}

/// The category of a turn that found its session waiting.
pub(crate) const SUSPENDED: &str = "chat_session_suspended";
