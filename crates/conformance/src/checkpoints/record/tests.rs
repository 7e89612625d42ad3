//! Assertions about records: some that hold, some that do not hold, and some that the reader refuses.

use super::*;
use crate::yaml::parse_document;

const SEEDED: &str = "
schema_version: v1
state: {x: 1}
parent_states: [{outer: 5}]
completed_positions: [{namespace: [sub], node_name: inner, step: 1, attempt_index: 0}]
fan_out_progress:
  - namespace: []
    fan_out_node_name: process
    instance_count: 2
    enclosing_fan_out_lineage: [{namespace: [], fan_out_node_name: outer, fan_out_index: 3}]
    instances:
      - {state: completed, result: 7, result_is_error: false}
      - {state: in_flight, result_is_error: false}
";

fn spot(text: &str) -> LocatedNode {
    LocatedNode::new(parse_document(text).unwrap(), "saved_record_assertions")
}

fn record() -> Value {
    SeededCheckpoint::from_yaml_node(spot(SEEDED)).unwrap().to_json("run-1", "unversioned")
}

fn failures(text: &str) -> Vec<String> {
    let mut checker = AssertionChecker::default();
    let checked = RecordAssertions::from_yaml_node(spot(text))
        .and_then(|it| it.check_record(&mut checker, Some(&record())));
    checker.unwrap_or_record(checked);
    checker.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn a_record_is_read_into_the_specifications_form() {
    let instances = json!([
        {"state": "completed", "result": 7, "result_is_error": false},
        {"state": "in_flight", "result_is_error": false},
    ]);
    let wanted = json!({
        "invocation_id": "run-1",
        "schema_version": "v1",
        "state": {"x": 1},
        "parent_states": [{"outer": 5}],
        "completed_positions": [{"namespace": ["sub"], "node_name": "inner", "step": 1, "attempt_index": 0}],
        "fan_out_progress": [{
            "namespace": [],
            "fan_out_node_name": "process",
            "instance_count": 2,
            "enclosing_fan_out_lineage": [{"namespace": [], "fan_out_node_name": "outer", "fan_out_index": 3}],
            "instances": instances,
        }],
    });
    assert_eq!(record(), wanted);
}

#[test]
fn what_holds_passes() {
    for text in [
        "{state: {x: 1}, schema_version: v1, parent_states_present: true}",
        "completed_positions: [{namespace: [sub], node_name: inner, step: 1, attempt_index: 0}]",
        "fan_out_node_in_completed_positions: false",
        "{completed_positions: [inner], completed_positions_count: 1, state_includes: {x: 1}, fan_out_progress_present: true}",
        "completed_positions: [{node_name: inner}]",
        "fan_out_progress: {process: {instance_count: 2, instances: [{state: completed, result: 7}, {state_one_of: [in_flight, not_started]}]}}",
        "fan_out_progress: {process: {instance_count: 2, instances: [{state: completed, result_present: true}, {state: in_flight, result_is_error: false}]}}",
    ] {
        assert_eq!(failures(text), [""; 0], "{text}");
    }
}

#[test]
fn what_does_not_hold_fails_in_its_assertion() {
    for (text, at) in [
        ("state: {x: 2}", "saved_record_assertions.state"),
        ("schema_version: v2", "saved_record_assertions.schema_version"),
        ("parent_states_present: false", "parent_states_present"),
        ("completed_positions: []", "expected 0 positions"),
        ("completed_positions: [outer]", "completed_positions[0]"),
        ("completed_positions_count: 2", "completed_positions_count"),
        ("parent_states_absent: true", "parent_states_absent"),
        ("state_includes: {y: 1}", "state_includes"),
        (
            "fan_out_progress: {process: {instance_count: 2, instances: [{state: completed}, {state_one_of: [in_flight, in_flight]}]}}",
            "is named twice",
        ),
        ("completed_positions: [{namespace: [], node_name: inner, step: 1, attempt_index: 0}]", "namespace"),
        ("fan_out_node_in_completed_positions: true", "fan_out_node_in_completed_positions"),
        ("fan_out_progress: null", "fan_out_progress"),
        (
            "fan_out_progress: {other: {instance_count: 2, instances: []}}",
            "there is not one entry of 'other'",
        ),
        (
            "fan_out_progress: {process: {instance_count: 3, instances: [{state: completed}, {state: in_flight}]}}",
            "instance_count",
        ),
        (
            "fan_out_progress: {process: {instance_count: 2, instances: [{state: completed}]}}",
            "expected 1 instances",
        ),
        (
            "fan_out_progress: {process: {instance_count: 2, instances: [{state: completed, result: 8}, {state: in_flight}]}}",
            "instances[0].result",
        ),
        (
            "fan_out_progress: {process: {instance_count: 2, instances: [{state: completed}, {state_one_of: [not_started]}]}}",
            "it is \"in_flight\"",
        ),
    ] {
        let failed = failures(text);
        assert!(
            failed.iter().any(|it| it.starts_with("assertion: ") && it.contains(at)),
            "{text}: {failed:?}"
        );
    }
}

#[test]
fn what_is_unknown_fails_by_name() {
    for (text, told) in [
        ("whatever: 1", "unknown key 'whatever'"),
        (
            "fan_out_progress: {process: {instance_count: 1, instances: [{state: begun}]}}",
            "unknown state 'begun'",
        ),
        (
            "fan_out_progress: {process: {instance_count: 1, instances: [{odd: 1, state: completed}]}}",
            "unknown key 'odd'",
        ),
        ("fan_out_progress: {process: {instance_count: 1, instances: [{}]}}", "an instance is in a state"),
    ] {
        let failed = failures(text);
        assert!(failed.iter().any(|it| it.contains(told)), "{text}: {failed:?}");
    }
    let miscounted = SEEDED.replace("instance_count: 2", "instance_count: 3");
    assert!(SeededCheckpoint::from_yaml_node(spot(&miscounted)).is_err());
}
