//! When to kill, and where the kills landed.

use std::collections::{BTreeMap, BTreeSet};

use crate::dice::Dice;
use crate::phase::Phase;
use crate::verdict::Kills;
use crate::wire::{Line, Moment};

/// The trigger of the next kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// So many milliseconds of load.
    After(i64),
    /// A commit of this kind being under way, after so many of them.
    Phase(Phase, u64),
}

/// How long to wait for a phase that does not come, in milliseconds.
const PATIENCE: i64 = 3_000;

impl Aim {
    /// Chooses the trigger: alternately a delay, and the phase in which the fewest kills have landed.
    pub(crate) fn choose(dice: &mut Dice, kills: &Kills) -> Self {
        if kills.total.is_multiple_of(2) {
            return Self::After(i64::try_from(dice.below(120)).unwrap_or_default() + 5);
        }
        let rarest = Phase::AIMED.into_iter().min_by_key(|it| kills.landed.get(it).copied().unwrap_or(0));
        Self::Phase(rarest.unwrap_or(Phase::Step), dice.below(3))
    }

    /// Returns after how many milliseconds to kill in any case.
    pub(crate) fn at_last(self) -> i64 {
        match self {
            Self::After(millis) => millis,
            Self::Phase(..) => PATIENCE,
        }
    }

    /// Tells whether it is time, now that this line was heard.
    pub(crate) fn is_met(&mut self, line: &Line) -> bool {
        let Self::Phase(wanted, left) = self else { return false };
        match line {
            Line::Commit { phase, at: Moment::Begin, .. } if phase == wanted => {
                let now = *left == 0;
                *left = left.saturating_sub(1);
                now
            }
            _ => false,
        }
    }

    /// Returns the phase that is waited for.
    pub(crate) fn phase(self) -> Option<Phase> {
        match self {
            Self::After(_) => None,
            Self::Phase(phase, _) => Some(phase),
        }
    }
}

/// The work under way in the child, as far as the child reported it.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    commits: BTreeMap<u64, Phase>,
    turns: BTreeSet<(String, u64)>,
}

impl UnderWay {
    pub(crate) fn note(&mut self, line: &Line) {
        let Line::Commit { n, phase, session, turn, at } = line else { return };
        match at {
            Moment::Begin => {
                self.commits.insert(*n, *phase);
            }
            Moment::End => {
                self.commits.remove(n);
                self.landed(*phase, session, *turn);
            }
        }
    }

    fn landed(&mut self, phase: Phase, session: &str, turn: Option<u64>) {
        let of = turn.map(|turn| (session.to_owned(), turn));
        match phase {
            Phase::Accept | Phase::Resume | Phase::Step | Phase::TakeOver => self.turns.extend(of),
            Phase::Suspend | Phase::Cancel | Phase::Finish | Phase::Fail => {
                of.map(|it| self.turns.remove(&it)).unwrap_or_default();
            }
            Phase::Delete => self.turns.retain(|(it, _)| it != session),
            Phase::Other => {}
        }
    }

    /// Counts a kill that found this under way: in the phase that it was aimed at, if that was hit, else in any other.
    pub(crate) fn count(self, aimed: Option<Phase>, kills: &mut Kills) {
        kills.total += 1;
        kills.running += u64::from(!self.turns.is_empty());
        let mut phases = self.commits.into_values();
        let hit = match aimed {
            Some(aimed) => {
                let all: BTreeSet<Phase> = phases.collect();
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

    fn commit(n: u64, phase: Phase, at: Moment) -> Line {
        Line::Commit { n, phase, session: "s".into(), turn: Some(1), at }
    }

    #[test]
    fn a_kill_counts_for_the_commit_that_was_under_way() {
        let mut way = UnderWay::default();
        way.note(&commit(0, Phase::Accept, Moment::Begin));
        way.note(&commit(0, Phase::Accept, Moment::End));
        way.note(&commit(1, Phase::Step, Moment::Begin));
        let mut kills = Kills::default();
        way.count(Some(Phase::Cancel), &mut kills);
        assert_eq!((kills.total, kills.running), (1, 1));
        assert_eq!(kills.landed, BTreeMap::from([(Phase::Step, 1)]));
        let mut way = UnderWay::default();
        way.note(&commit(0, Phase::Accept, Moment::End));
        way.note(&commit(1, Phase::Finish, Moment::End));
        way.count(None, &mut kills);
        assert_eq!((kills.total, kills.running), (2, 1), "nothing ran any more");
    }

    #[test]
    fn an_aim_is_met_by_the_commit_that_it_waits_for() {
        let mut aim = Aim::Phase(Phase::Cancel, 1);
        assert!(!aim.is_met(&commit(0, Phase::Step, Moment::Begin)));
        assert!(!aim.is_met(&commit(1, Phase::Cancel, Moment::Begin)));
        assert!(!aim.is_met(&commit(1, Phase::Cancel, Moment::End)));
        assert!(aim.is_met(&commit(2, Phase::Cancel, Moment::Begin)));
    }
}
