//! Faults that are planted by rule are found.

use singletree_simulation::{PlantRule, PlantedFault, collect_plantable_faults, hunt_planted_fault};

#[test]
fn a_fault_in_the_commits_is_found() {
    let drop = |purpose, effect| PlantedFault { purpose, rule: PlantRule::Drop(effect) };
    let faults = [drop("end", "event"), drop("accept", "item"), drop("end", "place"), drop("answer", "wait")];
    let possible = collect_plantable_faults(0..10);
    for fault in faults {
        assert!(possible.contains(&fault), "{fault}");
        assert!(hunt_planted_fault(fault, 0..20).found.is_some(), "{fault}");
    }
}

#[test]
fn a_requirement_that_is_left_out_is_found_although_it_refuses_nothing() {
    let leave_out = |purpose, name| PlantedFault { purpose, rule: PlantRule::LeaveOut(name) };
    let faults =
        [leave_out("accept", "key free"), leave_out("close", "wait"), leave_out("end", "session version")];
    for fault in faults {
        assert!(hunt_planted_fault(fault, 0..20).found.is_some(), "{fault}");
    }
}

#[test]
fn a_fault_that_changes_no_row_is_told_from_one_that_is_not_found() {
    let swap = |purpose, first, second| PlantedFault { purpose, rule: PlantRule::Swap(first, second) };
    let verdict = hunt_planted_fault(swap("accept", "turn", "event"), 0..5);
    assert_eq!((verdict.found, verdict.effect.makes_difference), (None, false));
    assert!(verdict.effect.batches > 0, "it was planted");
    let drop = PlantedFault { purpose: "accept", rule: PlantRule::Drop("event") };
    assert!(hunt_planted_fault(drop, 0..5).effect.makes_difference);
}
