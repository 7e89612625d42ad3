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
