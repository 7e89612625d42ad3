//! The smallest run that still fails.

use crate::fault::{FaultKind, RunRestriction};
use crate::run::{RunPlan, RunReport, run_seed};

/// A failing seed, with the least that it needs to fail.
#[derive(Debug, Clone)]
pub struct ShrunkFailure {
    /// The limits under which it still fails.
    pub restriction: RunRestriction,
    /// The report of that run, with its trace.
    pub report: RunReport,
}

/// Shrinks a failing run: to the shortest beginning of its operations, to the faults that it needs, and to the shortest
/// beginning of those. Each step is a run; a step after which the run does not fail any more is taken back.
#[must_use]
pub fn shrink_failure(plan: &RunPlan, failed: &RunReport) -> ShrunkFailure {
    shrink_run(plan, failed, |report| !report.violations.is_empty())
}

/// Shrinks a run to the least in which something is still so, as [`shrink_failure`] does.
#[must_use]
pub fn shrink_run(plan: &RunPlan, failed: &RunReport, is_so: impl Fn(&RunReport) -> bool) -> ShrunkFailure {
    let fails = |restriction: &RunRestriction| {
        let plan = RunPlan { restriction: restriction.clone(), keeps_trace: false, ..plan.clone() };
        is_so(&run_seed(&plan))
    };
    let mut restriction = plan.restriction.clone();
    let operations = shortest_beginning(failed.operations, |most| {
        fails(&RunRestriction { operations: Some(most), ..restriction.clone() })
    });
    restriction.operations = operations.or(restriction.operations);
    for kind in FaultKind::ALL.iter().filter(|kind| failed.faults.contains_key(kind.as_str())) {
        let mut without = restriction.clone();
        without.without.insert(*kind);
        if fails(&without) {
            restriction = without;
        }
    }
    let total = failed.faults.values().sum();
    let faults = shortest_beginning(total, |most| {
        fails(&RunRestriction { faults: Some(most), ..restriction.clone() })
    });
    restriction.faults = faults.or(restriction.faults);
    let plan = RunPlan { restriction: restriction.clone(), keeps_trace: true, ..plan.clone() };
    ShrunkFailure { restriction, report: run_seed(&plan) }
}

/// Finds the lowest number with which it fails, as far as halving finds it; none when it fails with no lower one.
fn shortest_beginning(most: u64, fails: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (0, most);
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match fails(middle) {
            true => {
                found = Some(middle);
                high = middle;
            }
            false => low = middle + 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_beginning_is_found() {
        for wanted in 0..20 {
            assert_eq!(shortest_beginning(20, |most| most >= wanted), Some(wanted));
        }
        assert_eq!(shortest_beginning(20, |most| most >= 20), None);
        assert_eq!(shortest_beginning(0, |_| true), None);
    }
}
