//! When to kill, and where the kills landed.

use std::collections::{BTreeMap, BTreeSet};

use crate::dice::TortureRandom;
use crate::phase::BatchPurpose;
use crate::verdict::KillStatistics;
use crate::wire::{ChildReport, CommitSide};

/// The trigger of the next kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillTrigger {
    /// So many milliseconds of load.
    After(i64),
    /// A commit of this kind being under way, after so many of them.
    Phase(BatchPurpose, u64),
}

/// How long to wait for a phase that does not come, in milliseconds.
const PATIENCE: i64 = 3_000;

impl KillTrigger {
    /// Chooses the trigger: alternately a delay, and the phase in which the fewest kills have landed.
    pub(crate) fn choose_next(dice: &mut TortureRandom, kills: &KillStatistics) -> Self {
        if kills.total.is_multiple_of(2) {
            return Self::After(i64::try_from(dice.draw_below(120)).unwrap_or_default() + 5);
        }
        let rarest =
            BatchPurpose::AIMED.into_iter().min_by_key(|it| kills.landed.get(it).copied().unwrap_or(0));
        Self::Phase(rarest.unwrap_or(BatchPurpose::Step), dice.draw_below(3))
    }

    /// Returns after how many milliseconds to kill in any case.
    pub(crate) fn kill_timeout_millis(self) -> i64 {
        match self {
            Self::After(millis) => millis,
            Self::Phase(..) => PATIENCE,
        }
    }

    /// Tells whether it is time, now that this line was heard.
    pub(crate) fn is_met_by(&mut self, line: &ChildReport) -> bool {
        let Self::Phase(wanted, left) = self else { return false };
        match line {
            ChildReport::Commit { phase, at: CommitSide::Begin, .. } if phase == wanted => {
                let now = *left == 0;
                *left = left.saturating_sub(1);
                now
            }
            _ => false,
        }
    }

    /// Returns the phase that is waited for.
    pub(crate) fn awaited_phase(self) -> Option<BatchPurpose> {
        match self {
            Self::After(_) => None,
            Self::Phase(phase, _) => Some(phase),
        }
    }
}

/// The work under way in the child, as far as the child reported it.
#[derive(Debug, Default)]
pub(crate) struct WorkInProgress {
    commits: BTreeMap<u64, BatchPurpose>,
    turns: BTreeSet<(String, u64)>,
}

impl WorkInProgress {
    pub(crate) fn note_report(&mut self, line: &ChildReport) {
        let ChildReport::Commit { n, phase, session, turn, at } = line else { return };
        match at {
            CommitSide::Begin => {
                self.commits.insert(*n, *phase);
            }
            CommitSide::End => {
                self.commits.remove(n);
                self.note_commit(*phase, session, *turn);
            }
            CommitSide::Failed => {
                self.commits.remove(n);
            }
        }
    }

    /// Returns the sessions in which turns run, as far as the child reported it.
    pub(crate) fn busy_sessions(&self) -> BTreeSet<String> {
        self.turns.iter().map(|(session, _)| session.clone()).collect()
    }

    /// Another process has taken this session over.
    pub(crate) fn forget_session(&mut self, session: &str) {
        self.turns.retain(|(it, _)| it != session);
    }

    fn note_commit(&mut self, phase: BatchPurpose, session: &str, turn: Option<u64>) {
        let of = turn.map(|turn| (session.to_owned(), turn));
        match phase {
            BatchPurpose::Accept | BatchPurpose::Resume | BatchPurpose::Step | BatchPurpose::TakeOver => {
                self.turns.extend(of)
            }
            BatchPurpose::Suspend | BatchPurpose::Cancel | BatchPurpose::Finish | BatchPurpose::Fail => {
                of.map(|it| self.turns.remove(&it)).unwrap_or_default();
            }
            BatchPurpose::Delete => self.turns.retain(|(it, _)| it != session),
            BatchPurpose::Other => {}
        }
    }

    /// Counts a kill that found this under way: in the phase that it was aimed at, if that was hit, else in any other.
    pub(crate) fn count_kill(self, aimed: Option<BatchPurpose>, kills: &mut KillStatistics) {
        kills.total += 1;
        kills.running += u64::from(!self.turns.is_empty());
        let mut phases = self.commits.into_values();
        let hit = match aimed {
            Some(aimed) => {
                let all: BTreeSet<BatchPurpose> = phases.collect();
                if all.contains(&aimed) { Some(aimed) } else { all.into_iter().next() }
            }
            None => phases.next(),
        };
        if let Some(hit) = hit {
            *kills.landed.entry(hit).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(n: u64, phase: BatchPurpose, at: CommitSide) -> ChildReport {
        ChildReport::Commit { n, phase, session: "s".into(), turn: Some(1), at }
    }

    #[test]
    fn a_kill_counts_for_the_commit_that_was_under_way() {
        let mut way = WorkInProgress::default();
        way.note_report(&commit(0, BatchPurpose::Accept, CommitSide::Begin));
        way.note_report(&commit(0, BatchPurpose::Accept, CommitSide::End));
        way.note_report(&commit(1, BatchPurpose::Step, CommitSide::Begin));
        let mut kills = KillStatistics::default();
        way.count_kill(Some(BatchPurpose::Cancel), &mut kills);
        assert_eq!((kills.total, kills.running), (1, 1));
        assert_eq!(kills.landed, BTreeMap::from([(BatchPurpose::Step, 1)]));
        let mut way = WorkInProgress::default();
        way.note_report(&commit(0, BatchPurpose::Accept, CommitSide::End));
        way.note_report(&commit(1, BatchPurpose::Finish, CommitSide::End));
        way.count_kill(None, &mut kills);
        assert_eq!((kills.total, kills.running), (2, 1), "nothing ran any more");
    }

    #[test]
    fn an_aim_is_met_by_the_commit_that_it_waits_for() {
        let mut aim = KillTrigger::Phase(BatchPurpose::Cancel, 1);
        assert!(!aim.is_met_by(&commit(0, BatchPurpose::Step, CommitSide::Begin)));
        assert!(!aim.is_met_by(&commit(1, BatchPurpose::Cancel, CommitSide::Begin)));
        assert!(!aim.is_met_by(&commit(1, BatchPurpose::Cancel, CommitSide::End)));
        assert!(aim.is_met_by(&commit(2, BatchPurpose::Cancel, CommitSide::Begin)));
    }
}
