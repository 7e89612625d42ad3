//! A row that points elsewhere is found.

use super::*;
use crate::case::split_cases;
use crate::dialect::FixtureDialect;
use crate::yaml::parse_document;

const INVARIANT: &str = "graph_state_intact_after_per_invocation_drain_timeout";

const CASE: &str = "
state: {fields: {v: {type: int, default: 0}}}
entry: a
nodes: {a: {update: {v: 1}}}
edges: [{from: a, to: END}]
initial_state: {}
session_store: in_memory
session_id: s
expected:
  final_state: {v: 1}
  execution_order: [a]
  saved_session_assertions: {state: {v: 1}}
  store_after: {no_record_for_session_id: t}
invariants: {graph_state_intact_after_per_invocation_drain_timeout: true}
";

fn cases(text: &str) -> Vec<ConformanceCase> {
    let case = |content: crate::case::UnparsedCase| ConformanceCase {
        capability: "c".into(),
        fixture: "f".into(),
        name: content.name.clone(),
        content: Ok(content),
    };
    split_cases(parse_document(text).unwrap(), "f", FixtureDialect::Graph)
        .unwrap()
        .into_iter()
        .map(case)
        .collect()
}

fn proved(rows: &[RestatedInvariant]) -> RestatementReport {
    prove_invariants(&cases(CASE), rows, &mut MutationRandom(1))
}

fn faults_of(ids: &'static [&'static str]) -> Vec<String> {
    proved(&[RestatedInvariant::new(INVARIANT, ids)]).faults
}

#[test]
fn a_row_that_names_its_assertion_is_shown() {
    let wanted = RestatementReport {
        invariants: BTreeSet::from([INVARIANT]),
        uses: 1,
        changes: 2,
        ..RestatementReport::default()
    };
    assert_eq!(proved(&[RestatedInvariant::new(INVARIANT, &["final_state"])]), wanted);
}

#[test]
fn a_row_that_points_elsewhere_is_found() {
    let told = |what: &str| [format!("c/f::f: {INVARIANT}: {what}")];
    for (ids, what) in [
        (&["drain_summary"] as &[_], "the case asserts no 'drain_summary'"),
        // An input of the case, and no assertion.
        (&["initial_state"], "the case asserts no 'initial_state'"),
        (&["final_state", "outcome"], "the case asserts no 'outcome'"),
        // This assertion demands an absence: another value may hold as well.
        (&["no_record_for_session_id"], "nothing of what 'no_record_for_session_id' demands can be changed"),
    ] {
        assert_eq!(faults_of(ids), told(what), "{ids:?}");
    }
    assert_eq!(proved(&[]).faults, told("is not in the table"));
}

#[test]
fn a_row_that_no_case_uses_is_said() {
    let rows = [
        RestatedInvariant::new(INVARIANT, &["final_state"]),
        RestatedInvariant::new("another", &["final_state"]),
    ];
    assert_eq!(proved(&rows).unused, ["another"]);
}

#[test]
fn a_changed_case_must_fail_in_assertions_of_the_id_alone() {
    let id = AssertionId("error.category");
    let right = CaseFailure::assertion_error("invocations[1].expected.error.category", "differs");
    assert_eq!(describe_fault(id, std::slice::from_ref(&right)), None);
    for wrong in [
        vec![],
        vec![CaseFailure::reader_error("invocations[1].expected.error.category", "unknown")],
        vec![CaseFailure::build_error("graph", "does not compile")],
        vec![right.clone(), CaseFailure::assertion_error("invocations[1].expected.outcome", "differs")],
        vec![CaseFailure::assertion_error("invocations[1].expected.error", "differs")],
    ] {
        assert!(describe_fault(id, &wrong).is_some(), "{wrong:?}");
    }
}
