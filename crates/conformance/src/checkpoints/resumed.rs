//! Expectations about the nodes that ran, and those that did not run, in an invocation that resumes from a record.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::check::AssertionChecker;
use crate::fields::LocatedNode;
use crate::observers::RUNNERS;
use crate::run::InvocationResult;

/// Asserts the expectation under a key about a resumed invocation. Returns false when the key is about something
/// else.
pub(crate) fn check_resumption_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    (run, record): (&InvocationResult, Option<&Value>),
) -> bool {
    match key {
        "nodes_executed_during_resume" => checker.check_exact(spot, executed_nodes(run)),
        "nodes_skipped_during_resume" => {
            let ran = executed_nodes(run);
            let done =
                record_list(record, "completed_positions").filter_map(|item| item["node_name"].as_str());
            let skipped = done.filter(|done| !ran.iter().any(|ran| ran == done)).map(Value::from);
            checker.check_exact(spot, skipped.collect::<Vec<_>>());
        }
        "instances_executed_during_resume" => {
            checker.check_exact(spot, instance_indexes(run).into_iter().collect::<Vec<_>>());
        }
        "instances_skipped_during_resume" => {
            let ran = instance_indexes(run);
            let done = record_list(record, "fan_out_progress")
                .flat_map(|item| item["instances"].as_array())
                .flatten();
            let done = (0_u64..).zip(done).filter(|(_, it)| it["state"] == "completed");
            checker
                .check_exact(spot, done.map(|(at, _)| at).filter(|at| !ran.contains(at)).collect::<Vec<_>>());
        }
        "successful_attempt_index_during_resume" => {
            let ended = run.reel.events_taken_by(RUNNERS).filter(|taken_by| taken_by.post_state().is_some());
            checker.check_exact(spot, ended.last().map(|it| it.attempt_index));
        }
        _ => return false,
    }
    true
}

fn record_list<'a>(record: Option<&'a Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    record.and_then(|record| record[key].as_array()).into_iter().flatten()
}

/// The nodes whose bodies ran, in order, each execution once.
fn executed_nodes(run: &InvocationResult) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let fresh = run.reel.visits.iter().filter(|visit| seen.insert(visit.step));
    fresh.filter_map(|it| it.namespace.last().cloned()).collect()
}

fn instance_indexes(run: &InvocationResult) -> BTreeSet<u64> {
    run.reel.visits.iter().filter_map(crate::tape::NodeVisit::fan_out_index).collect()
}
