//! Seeds: clean, and the same twice.

use singletree_simulation::{LeaseFault, RunPlan, ShrunkFailure, run_seed, shrink_failure};

/// How many seeds are run, and from which on.
#[expect(clippy::disallowed_methods, reason = "a longer run is asked for by the environment")]
fn seeds() -> std::ops::Range<u64> {
    let read = |name: &str, otherwise: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    };
    let first = read("SINGLETREE_SEED", 0);
    first..first + read("SINGLETREE_SEEDS", 200)
}

fn plan(seed: u64) -> RunPlan {
    RunPlan { seed, ..RunPlan::default() }
}

// INV-1, INV-2, INV-3, INV-6, INV-7, INV-8, INV-12, INV-14
#[test]
fn every_promise_is_kept_under_every_seed() {
    let (mut turns, mut failed) = (0, Vec::new());
    for seed in seeds() {
        let report = run_seed(&plan(seed));
        turns += report.turns;
        if !report.violations.is_empty() {
            failed.push(report);
        }
    }
    let lines =
        failed.iter().map(|report| format!("seed {}: {}", report.seed, report.violations.join("\n  ")));
    let lines: Vec<String> = lines.collect();
    if let Some(first) = failed.first() {
        let ShrunkFailure { restriction, report } = shrink_failure(&plan(first.seed), first);
        let (trace, found) = (report.trace.join("\n"), report.violations.join("\n"));
        panic!("{}\n{} seeds failed:\n{}\n{restriction:?}\n{found}", trace, failed.len(), lines.join("\n"));
    }
    assert!(turns > 0);
}

// The same where three processes share the store: leases end, and sessions move.
#[test]
fn every_promise_is_kept_when_several_processes_share_the_store() {
    for seed in seeds().step_by(4) {
        let report = run_seed(&RunPlan { nodes: 3, ..plan(seed) });
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}");
    }
}

// Two faults in the protocol of leases; `.ci/simulation leases` plants all of them.
#[test]
fn a_fault_in_the_leases_of_several_processes_is_found() {
    for fault in [LeaseFault::FenceNotChecked, LeaseFault::DeadOwnerKept] {
        let hunted = |seed| RunPlan { nodes: 3, lease_fault: Some(fault), ..plan(seed) };
        let found = (0..200).any(|seed| !run_seed(&hunted(seed)).violations.is_empty());
        assert!(found, "{fault:?}");
    }
}

// INV-11: each run has its own hash seeds, as each process has.
#[test]
fn the_same_seed_is_the_same_run() {
    for seed in seeds().step_by(10) {
        let run = |keeps_trace| run_seed(&RunPlan { keeps_trace, ..plan(seed) });
        if run(false).digest != run(false).digest {
            let (one, other) = (run(true).trace, run(true).trace);
            let differs = one.iter().zip(&other).position(|(one, other)| one != other);
            let at = differs.unwrap_or(one.len().min(other.len()));
            let around = |trace: &[String]| trace[at.saturating_sub(5)..(at + 2).min(trace.len())].join("\n");
            panic!("seed {seed}, line {at}:\n{}\n---\n{}", around(&one), around(&other));
        }
    }
}
