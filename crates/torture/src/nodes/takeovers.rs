//! How soon the turns of a dead node go on elsewhere.

use std::collections::BTreeMap;

use crate::phase::BatchPurpose;
use crate::wire::{ChildReport, CommitSide};

/// The sessions of dead nodes in which turns ran, each with the time of the death in milliseconds.
#[derive(Debug, Default)]
pub(super) struct AwaitedTakeovers {
    since: BTreeMap<String, i64>,
    /// How many connections were cut until now.
    cuts: u64,
    pub(super) count: u64,
    pub(super) slowest_millis: i64,
}

impl AwaitedTakeovers {
    /// A node is gone, with turns running in these sessions. A takeover that others may have been about to make is not
    /// measured any more: the node that is gone now may be the one that was to make it.
    pub(super) fn note_death(&mut self, sessions: impl IntoIterator<Item = String>, now: i64) {
        self.since = sessions.into_iter().map(|session| (session, now)).collect();
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.since.is_empty()
    }

    /// Tells how many connections were cut until now: a commit of a takeover whose answer is cut off is settled first, which takes
    /// its time.
    pub(super) fn note_cuts(&mut self, cuts: u64) {
        if cuts != self.cuts {
            self.cuts = cuts;
            self.forget();
        }
    }

    /// Some node stands still or has no database: the time of a takeover says nothing until the next death.
    pub(super) fn forget(&mut self) {
        self.since.clear();
    }

    pub(super) fn note_report(&mut self, line: &ChildReport, now: i64) {
        let ChildReport::Commit { session, phase, at: CommitSide::End, .. } = line else { return };
        // Each of them is made by the owner of the session only.
        if *phase == BatchPurpose::Other {
            return;
        }
        // One that begins with anything else had no open turn any more: the last commit of the dead node has landed.
        if let Some(since) = self.since.remove(session).filter(|_| *phase == BatchPurpose::TakeOver) {
            self.count += 1;
            self.slowest_millis = self.slowest_millis.max(now - since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(session: &str, phase: BatchPurpose, at: CommitSide) -> ChildReport {
        ChildReport::Commit { n: 0, phase, session: session.to_owned(), turn: Some(1), at }
    }

    #[test]
    fn a_takeover_is_measured_from_the_death_to_the_first_commit_of_another_node() {
        let mut awaited = AwaitedTakeovers::default();
        awaited.note_death(["a".to_owned(), "b".to_owned()], 1_000);
        awaited.note_report(&commit("c", BatchPurpose::Step, CommitSide::End), 1_100);
        awaited.note_report(&commit("a", BatchPurpose::TakeOver, CommitSide::Begin), 4_000);
        awaited.note_report(&commit("a", BatchPurpose::TakeOver, CommitSide::End), 4_200);
        awaited.note_report(&commit("a", BatchPurpose::Step, CommitSide::End), 9_000);
        assert_eq!((awaited.count, awaited.slowest_millis), (1, 3_200));
        awaited.note_cuts(1);
        awaited.note_report(&commit("b", BatchPurpose::TakeOver, CommitSide::End), 9_000);
        assert_eq!((awaited.count, awaited.slowest_millis), (1, 3_200));
        awaited.note_death(["e".to_owned()], 9_500);
        awaited.note_report(&commit("e", BatchPurpose::Accept, CommitSide::End), 19_000);
        assert_eq!((awaited.count, awaited.is_awaited()), (1, false), "its turn had ended");
        awaited.note_death(["d".to_owned()], 10_000);
        awaited.note_cuts(1);
        assert!(awaited.is_awaited(), "none was cut since");
    }
}
