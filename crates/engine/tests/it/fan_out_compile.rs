//! Problems and warnings about a fan-out at compile time (pipeline-utilities §§9, 9.3, 9.8).

use serde_json::json;
use singletree_engine::{Error, FailureIsolation, FanOut, FieldShape, Retry, Snapshot, StateUpdate};

use crate::fan_out::{around, each, tenfold};
use crate::rig::{field, int, over, sets, text, update};

fn check(fan: FanOut<Snapshot>, expected: &[&str]) {
    match around(fan).compile() {
        Ok(_) => assert!(expected.is_empty(), "it compiles"),
        Err(Error::Compile { problems }) => {
            let found: Vec<_> = problems.iter().map(|it| it.kind.category()).collect();
            assert_eq!(found, expected, "{problems:?}");
        }
        Err(other) => panic!("{other:?}"),
    }
}

// spec: pipeline-utilities §9: every field that is named is declared where it is named.
#[test]
fn every_field_is_declared() {
    const UNDECLARED: &[&str] = &["mapping_references_undeclared_field"];
    let inner = tenfold();
    let fan = || FanOut::over(&inner);
    check(fan().items("nowhere", "n"), UNDECLARED);
    check(fan().items("items", "nowhere"), UNDECLARED);
    check(each(&inner).collect("nowhere", "results"), UNDECLARED);
    check(each(&inner).collect("out", "nowhere"), UNDECLARED);
    check(each(&inner).input("nowhere", "base"), UNDECLARED);
    check(each(&inner).input("base", "nowhere"), UNDECLARED);
    check(each(&inner).extra_output("nowhere", "out"), UNDECLARED);
    check(each(&inner).extra_output("more", "nowhere"), UNDECLARED);
    check(each(&inner).errors_field("nowhere"), UNDECLARED);
    check(each(&inner).count_field("nowhere"), UNDECLARED);
    // spec: pipeline-utilities §§9, 9.5: and of the right kind.
    check(each(&inner).count_field("results"), UNDECLARED);
    check(each(&inner).errors_field("count"), UNDECLARED);
    check(each(&inner).errors_field("more"), &[]);
}

// spec: pipeline-utilities §9: exactly one mode, of the right kind.
#[test]
fn there_is_one_mode() {
    let inner = tenfold();
    check(FanOut::over(&inner), &["fan_out_count_mode_ambiguous"]);
    check(each(&inner).count(1), &["fan_out_count_mode_ambiguous"]);
    check(FanOut::over(&inner).items("count", "n"), &["fan_out_field_not_list"]);
    check(FanOut::over(&inner).count(-1), &["fan_out_invalid_count"]);
    check(FanOut::over(&inner).count(0).concurrency(0), &["fan_out_invalid_concurrency"]);
    check(FanOut::over(&inner).count(0).concurrency(1), &[]);
}

// A list that does not extend cannot collect records.
#[test]
fn errors_go_to_a_list_that_extends() {
    let errors = field("errors", FieldShape::Any.list(), json!([]));
    let fan = FanOut::<Snapshot>::over(&tenfold()).count(1).errors_field("errors");
    let builder = over([errors]).fan_out("each", fan).edge("each", singletree_engine::END).entry("each");
    assert_eq!(builder.compile().unwrap_err().category(), "mapping_references_undeclared_field");
}

// spec: pipeline-utilities §9.8: a fixed degraded update has the collected field; one by a function is not known.
#[test]
fn a_fixed_degraded_update_has_what_is_collected() {
    const MISSING: &[&str] = &["fan_out_degraded_update_missing_collect_field"];
    let inner = tenfold();
    let with = |degraded: StateUpdate| each(&inner).instance_middleware(FailureIsolation::new("e", degraded));
    check(with(update(json!({"out": 0}))), &[]);
    check(with(update(json!({"n": 0}))), MISSING);
    check(with(StateUpdate::new()).instance_middleware(Retry::new()), MISSING);
    let by = FailureIsolation::from_function("e", |_| Ok(StateUpdate::new()));
    check(each(&inner).instance_middleware(by), &[]);
    // Without a field to collect there is no slot.
    let none = FanOut::over(&inner).count(1);
    check(none.instance_middleware(FailureIsolation::new("e", StateUpdate::new())), &[]);
    // Around the fan-out as a whole the update is the parent's.
    let whole = around(each(&inner)).node_middleware("each", FailureIsolation::new("e", StateUpdate::new()));
    assert!(whole.compile().is_ok());
}

// spec: pipeline-utilities §9.3; graph-engine §2: round trips by the map and by the collected field.
#[test]
fn round_trips_are_warned_of() {
    let warned = |fan: FanOut<Snapshot>| {
        let graph = around(fan).compile().unwrap();
        let warnings = graph.warnings().iter().map(|it| (it.kind.category(), it.field.clone().unwrap()));
        warnings.collect::<Vec<_>>()
    };
    let round = |field: &str| vec![("projection_reducer_round_trip", field.to_owned())];
    let lists = || {
        let fields = [field("list", FieldShape::Int.list(), json!([])), int("n"), text("t")];
        let builder = over(fields).node("x", sets(json!({}))).edge("x", singletree_engine::END).entry("x");
        FanOut::<Snapshot>::over(&builder.compile().unwrap())
    };
    // By inputs and extra outputs.
    assert_eq!(warned(lists().count(1).input("list", "more").extra_output("more", "list")), round("more"));
    assert_eq!(warned(lists().count(1).input("list", "items").extra_output("more", "list")), []);
    assert_eq!(warned(lists().count(1).input("list", "more")), []);
    // By inputs and the collected field.
    assert_eq!(
        warned(lists().count(1).input("list", "results").collect("list", "results")),
        round("results")
    );
    assert_eq!(warned(lists().count(1).input("list", "items").collect("list", "results")), []);
    // By the items and the collected field.
    assert_eq!(warned(lists().items("results", "n").collect("n", "results")), round("results"));
    assert_eq!(warned(lists().items("results", "n").collect("list", "results")), []);
    assert_eq!(warned(lists().items("items", "n").collect("n", "results")), []);
    // A reducer that does not merge twice.
    let fan = lists().count(1).input("list", "last").extra_output("last", "list");
    let last = field("last", FieldShape::Int.list(), json!([]));
    let graph = over([last]).fan_out("each", fan).edge("each", singletree_engine::END).entry("each");
    assert_eq!(graph.compile().unwrap().warnings(), []);
}
