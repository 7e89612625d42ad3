//! Cases that must fail: a runner that never fails is worth nothing.

use crate::trial::{changed, failures};

const CASE: &str = "
state: {fields: {v: {type: int, default: 0}, log: {type: list<string>, reducer: append, default: []}}}
entry: a
nodes:
  a: {update: {v: 1, log: [a]}}
  b: {update: {log: [b]}}
  c: {update: {log: [c]}}
edges: [{from: a, condition: {if_field: v, equals: 2, then: c, else: b}}, {from: c, to: b}, {from: b, to: END}]
initial_state: {}
observers: [{name: obs, attach: graph, target: outer, behavior: record, phases: [completed]}]
session_store: in_memory
session_id: s
expected:
  final_state: {v: 1, log: [a, b]}
  execution_order: [a, b]
  observer_events:
    obs:
      - {step: 0, phase: completed, node_name: a, namespace: [a]}
      - {step: 1, phase: completed, node_name: b, namespace: [b]}
  saved_session_assertions: {state: {v: 1, log: [a, b]}}
  loaded_session_state: null
invariants: {no_events_for_node: c}
";

#[test]
fn the_case_itself_passes() {
    assert_eq!(failures(CASE), [""; 0]);
}

#[test]
fn what_is_unknown_fails_by_name() {
    for (from, to, told) in [
        ("entry: a", "entry: a\nwhatever: 1", "unknown key 'whatever'"),
        ("type: int", "type: set<int>", "unknown type 'set<int>'"),
        ("reducer: append", "reducer: prepend", "unknown reducer 'prepend'"),
        ("{log: [b]}}", "{log: [b]}, sleeps: 1}", "unknown key 'sleeps'"),
        ("a: {update: {v", "a: {calls_embed: {}, update: {v", "'calls_embed' needs providers of embeddings"),
        ("entry: a", "entry: a\nmiddleware: {per_node: {a: [{type: cache}]}}", "unknown middleware 'cache'"),
        (
            "entry: a",
            "entry: a\nmiddleware: {per_node: {a: [{type: retry, tries: 1}]}}",
            "unknown key 'tries'",
        ),
        ("a: {update: {v: 1, log: [a]}}", "a: {flaky: {failure_sequence: [{odd: 1}]}}", "unknown key 'odd'"),
        ("a: {update: {v: 1, log: [a]}}", "a: {fan_out: {subgraph: s, items_field: i}}", "go together"),
        ("{from: b, to: END}", "{from: b, to: END, if: x}", "unknown key 'if'"),
        ("behavior: record", "behavior: forget", "unknown behavior 'forget'"),
        ("phases: [completed]", "phases: [finished]", "unknown phase 'finished'"),
        ("session_store: in_memory", "session_store: redis", "unknown store 'redis'"),
        ("  execution_order:", "  order:", "unknown key 'order'"),
        ("{step: 0, phase", "{stage: 0, phase", "unknown key 'stage'"),
        ("no_events_for_node: c", "all_is_well: true", "unknown invariant 'all_is_well'"),
        ("no_events_for_node: c", "drain_waited_for_all_events: true", "which the case does not assert"),
        ("final_state: {v: 1", "final_state: {v: <timestamp>", "unknown token <timestamp>"),
        ("final_state: {v: 1", "final_state: {v: <any-string>", "expected text that is not empty"),
        (
            "session_store: in_memory",
            "session_store: {type: in_memory, behavior: {save_raises: x}}",
            "unknown fault 'x'",
        ),
        ("session_id: s", "session_id: s\ninvoke: {drain: {timeout_seconds: -1}}", "the drain's time limit"),
        ("entry: a", "entry: a\nconformance_version: '9.0.0'", "fixture_version_unsupported"),
    ] {
        let failed = changed(CASE, from, to);
        assert!(failed.iter().any(|it| it.contains(told)), "{to}: {failed:?}");
    }
}

#[test]
fn what_is_not_so_fails_in_its_assertion() {
    for (from, to, at) in [
        ("final_state: {v: 1", "final_state: {v: 2", "expected.final_state"),
        ("final_state: {v: 1, ", "final_state: {", "expected.final_state"),
        ("execution_order: [a, b]", "execution_order: [b, a]", "expected.execution_order"),
        ("{step: 1, phase: completed", "{step: 2, phase: completed", "expected.observer_events.obs[1]"),
        (
            "\n      - {step: 1, phase: completed, node_name: b, namespace: [b]}",
            "",
            "expected.observer_events.obs",
        ),
        ("namespace: [a]}", "namespace: [a], error: node_exception}", "expected.observer_events.obs[0]"),
        ("{state: {v: 1", "{state: {v: 3", "expected.saved_session_assertions.state"),
        ("session_id: s\n", "", "expected.saved_session_assertions"),
        ("loaded_session_state: null", "loaded_session_state: {}", "expected.loaded_session_state"),
        ("no_events_for_node: c", "no_events_for_node: a", "invariants.no_events_for_node"),
        ("no_events_for_node: c", "no_events_for_node: d", "the case has no node 'd'"),
        ("no_events_for_node: c", "error_category_not: [nonsense]", "no error has the category 'nonsense'"),
        ("no_events_for_node: c", "error_category_not: []", "an empty list demands nothing"),
        ("expected:", "expected_error: {category: node_exception}\nexpected:", "expected_error"),
        ("a: {update: {v: 1, log: [a]}}", "a: {raises: no}", "(completes)"),
        ("expected:", "expected_compile_error: dangling_edge\nexpected:", "expected_compile_error"),
    ] {
        let failed = changed(CASE, from, to);
        let told = failed.iter().any(|it| it.starts_with("assertion: ") && it.contains(at));
        assert!(told, "{to}: {failed:?}");
    }
}

#[test]
fn a_case_that_asserts_nothing_fails() {
    let text = &CASE[..CASE.find("expected:").unwrap()];
    assert_eq!(failures(&format!("{text}expected: {{}}")), ["assertion: the case: nothing was asserted"]);
}
