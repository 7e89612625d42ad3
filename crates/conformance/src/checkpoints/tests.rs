//! Cases of checkpoints that must fail, and where.

use crate::trial::{changed, failures};

const CASE: &str = "
state: {fields: {v: {type: int, default: 0}, log: {type: list<string>, reducer: append, default: []}}}
entry: a
nodes:
  a: {update: {v: 1, log: [a]}}
  b: {update: {log: [b]}}
edges: [{from: a, to: b}, {from: b, to: END}]
initial_state: {}
checkpointer: in_memory
crash_injection: {after_node: a}
saved_record_assertions:
  state: {v: 1, log: [a]}
  completed_positions: [{namespace: [], node_name: a, step: 0, attempt_index: 0}]
resume:
  from_first_run: true
  expected:
    final_state: {v: 1, log: [a, b]}
    nodes_executed_during_resume: [b]
    nodes_skipped_during_resume: [a]
";

#[test]
fn the_case_itself_passes_with_each_store() {
    assert_eq!(failures(CASE), [""; 0]);
    for store in [
        "sqlite",
        "{kind: in_memory}",
        "{kind: in_memory_batched, fan_out_internal_save_batching: {flush_every: 3}}",
    ] {
        let text = CASE.replacen("in_memory", store, 1);
        assert_eq!(failures(&text), [""; 0], "{store}");
    }
}

#[test]
fn what_is_not_so_fails_in_its_assertion() {
    for (from, to, told) in [
        // The process never gets there.
        ("after_node: a}", "after_node: c}", "assertion: crash_injection: "),
        ("after_node: a}", "after_node: b}", "assertion: saved_record_assertions.state"),
        ("state: {v: 1, log: [a]}", "state: {v: 2, log: [a]}", "assertion: saved_record_assertions.state"),
        ("step: 0", "step: 1", "assertion: saved_record_assertions.completed_positions"),
        ("log: [a, b]}\n", "log: [a, a, b]}\n", "assertion: resume.expected.final_state"),
        ("resume: [b]", "resume: [a, b]", "assertion: resume.expected.nodes_executed_during_resume"),
        ("resume: [a]", "resume: []", "assertion: resume.expected.nodes_skipped_during_resume"),
    ] {
        let failed = changed(CASE, from, to);
        assert!(failed.iter().any(|it| it.starts_with(told)), "{to}: {failed:?}");
    }
}

#[test]
fn what_cannot_be_asserted_or_is_unknown_fails_by_name() {
    let seeded =
        "seeded_record: {state: {v: 1, log: [a]}, completed_positions: []}\nexpected: {final_state: {}}";
    for (from, to, told) in [
        ("resume:\n", "expected: {final_state: {}}\nresume:\n", "an invocation that has no outcome"),
        (
            "resume:\n",
            "first_run_expected_error: {category: node_exception}\nresume:\n",
            "an invocation that has no outcome",
        ),
        ("crash_injection: {after_node: a}", seeded, "an invocation that has no outcome"),
        ("checkpointer: in_memory", "checkpointer: redis", "unknown checkpointer 'redis'"),
        (
            "checkpointer: in_memory",
            "checkpointer: {kind: in_memory_batched, fan_out_internal_save_batching: {flush_every: 0}}",
            "flushes after no save at all",
        ),
        ("{after_node: a}", "{before_node: a}", "a crash is after a node or after an instance"),
        ("from_first_run: true", "from_last_run: true", "goes on from the first run or a seeded record"),
        ("from_first_run: true", "from_seeded_record: true", "there is no such record"),
        (
            "from_first_run: true",
            "from_first_run: true\n  resume_with_modified_items: {w: [1]}",
            "the record has no field 'w'",
        ),
        ("  completed_positions", "  finished_positions", "unknown key 'finished_positions'"),
    ] {
        let failed = changed(CASE, from, to);
        assert!(failed.iter().any(|it| it.contains(told)), "{to}: {failed:?}");
    }
}

// A store that returns records with the requested change: the resumed run sees the changed state.
#[test]
fn a_modified_record_is_what_is_gone_on_with() {
    let text = CASE
        .replacen("from_first_run: true", "from_first_run: true\n  resume_with_modified_items: {v: 7}", 1)
        .replacen("final_state: {v: 1", "final_state: {v: 7", 1);
    assert_eq!(failures(&text), [""; 0]);
}

// pipeline-utilities §10.10: the error of a migration carries the versions of the step that failed, not those of the
// whole chain.
#[test]
fn the_step_of_a_chain_that_failed_is_named() {
    let text = "
state: {schema_version: v3, fields: {v: {type: int, default: 0}}}
entry: a
nodes: {a: {update: {v: 1}}}
edges: [{from: a, to: END}]
initial_state: {}
checkpointer: in_memory
seeded_record: {schema_version: v1, state: {v: 0}, completed_positions: []}
migrations:
  - {from_version: v1, to_version: v2, migrate: identity_passthrough}
  - {from_version: v2, to_version: v3, migrate: raises_keyerror}
resume:
  from_seeded_record: true
  expected_error:
    category: checkpoint_state_migration_failed
    carries: {from_version: v2, to_version: v3}
    cause: {exception_type: KeyError}
";
    assert_eq!(failures(text), [""; 0]);
    let wrong = text.replacen("carries: {from_version: v2", "carries: {from_version: v1", 1);
    assert!(failures(&wrong)[0].starts_with("assertion: resume.expected_error.carries.from_version"));
}
