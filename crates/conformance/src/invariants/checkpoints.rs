//! Invariants of checkpoints and of going on from them that are measured.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::measured::last_run;
use super::{InvariantEvidence, Measure};
use crate::check::{AssertionChecker, ensure};
use crate::checkpoints::CheckpointSave;
use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::matcher::is_uuid4;
use crate::run::InvocationResult;
use crate::tape::NodeVisit;

/// Invariants that are true or not.
pub(super) const MEASURED: &[(&str, Measure)] = &[
    ("resumed_invocation_id_differs_from_original", invocation_ids_differ),
    ("first_and_resumed_invocation_ids_differ", invocation_ids_differ),
    ("resumed_run_invocation_id_is_fresh_uuidv4", resumed_id_is_fresh),
    ("resumed_run_invocation_id_not_caller_supplied", invocation_ids_differ),
    ("resumed_correlation_id_matches_original", correlation_is_shared),
    ("resumed_run_correlation_id_matches_first", correlation_is_shared),
    ("no_new_correlation_id_generated_on_resume", correlation_is_shared),
    ("correlation_id_uniform_across_both_runs", correlation_is_shared),
    ("first_run_correlation_id_is_uuidv4", correlation_is_uuid),
    ("attempt_index_reset_to_zero_on_resume", attempts_restart_at_zero),
    ("migration_order_matches_chain", migrations_are_a_chain),
    ("migration_registry_not_consulted", no_migration_ran),
    ("no_duplicate_results", |it| no_duplicates(it, "results")),
    ("no_duplicate_error_entries", |it| no_duplicates(it, "errors")),
    ("save_order_matches_completed_event_order", saves_follow_events),
    ("invocation_id_is_uuidv4", saved_id_is_uuid),
    ("last_saved_at_monotonic_across_saves", save_times_increase),
    ("completed_positions_step_monotonic", steps_increase),
    ("batching_scoped_to_fan_out_internal_saves_only", only_inner_saves_wait),
    ("inner_fan_out_progress_matched_per_enclosing_lineage", only_unfinished_instances_run),
    ("each_outer_instance_skips_only_its_own_completed_inner_instances", only_unfinished_instances_run),
    ("no_inner_instance_skipped_across_enclosing_instances", only_unfinished_instances_run),
    ("legacy_unlineaged_entry_not_applied_to_nested_fan_out", all_inner_instances_run_again),
    ("all_inner_instances_re_run_in_every_outer_instance", all_inner_instances_run_again),
];

/// Asserts the invariants that have a value; false when the name is none of them.
///
/// # Errors
/// For a value of another form.
pub(super) fn check_valued_invariant(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    evidence: &InvariantEvidence,
) -> Outcome<bool> {
    let resumed = evidence.runs.last();
    match name {
        "first_run_correlation_id" => {
            checker.check_exact(value, evidence.runs.first().and_then(first_correlation))
        }
        "resumed_run_correlation_id" => checker.check_exact(value, resumed.and_then(first_correlation)),
        "first_run_invocation_id" => {
            checker.check_exact(value, evidence.runs.first().and_then(InvocationResult::invocation_id))
        }
        "saved_record_correlation_id" => {
            let saved = evidence.record.as_ref().map(|record| record["correlation_id"].clone());
            checker.check_exact(value, saved.unwrap_or_default());
        }
        "save_count" => checker.check_exact(value, evidence.saves.len()),
        "migration_count" => checker.check_exact(value, resumed.map(|resumed| resumed.reel.migrations.len())),
        "results_list_length" => {
            let state = resumed.and_then(|resumed| resumed.last_state()?.get("results")?.to_json().ok());
            checker.check_exact(value, state.as_ref().and_then(Value::as_array).map(Vec::len));
        }
        _ => return Ok(check_instance_invariant(checker, name, value, resumed)),
    }
    Ok(true)
}

/// `instance_N_...`: an assertion about one instance in the resumed invocation.
fn check_instance_invariant(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    resumed: Option<&InvocationResult>,
) -> bool {
    let Some((index, said)) = name.strip_prefix("instance_").and_then(|name| name.split_once('_')) else {
        return false;
    };
    let Ok(index) = index.parse::<u64>() else { return false };
    let of: Vec<&NodeVisit> = resumed
        .into_iter()
        .flat_map(|it| &it.reel.visits)
        .filter(|it| it.fan_out_index() == Some(index))
        .collect();
    match said {
        "attempt_index_on_resume" => checker.check_exact(value, of.first().map(|it| it.attempt)),
        "resume_attempt_count" => checker.check_exact(value, of.len()),
        _ => {
            let node = said.strip_prefix("executes_").and_then(|said| said.strip_suffix("_on_resume"));
            let Some(node) = node else { return false };
            let ran = of.iter().any(|it| it.namespace.last().is_some_and(|namespace| namespace == node));
            checker
                .check_truth(value, ensure(ran, || format!("node '{node}' of instance {index} did not run")));
        }
    }
    true
}

/// The invocation that ended before its time, and the one that went on.
fn first_and_resumed_run(
    evidence: &InvariantEvidence,
) -> Result<(&InvocationResult, &InvocationResult), String> {
    match evidence.runs.as_slice() {
        [first, resumed] => Ok((first, resumed)),
        runs => Err(format!("there were {} invocations", runs.len())),
    }
}

fn first_correlation(run: &InvocationResult) -> Option<String> {
    run.reel.visits.first().map(|visit| visit.correlation.clone())
}

fn invocation_ids_differ(evidence: &InvariantEvidence) -> Result<(), String> {
    let (first, resumed) = first_and_resumed_run(evidence)?;
    let (first, resumed) = (first.invocation_id(), resumed.invocation_id());
    ensure(first.is_some() && resumed.is_some() && first != resumed, || format!("{first:?}, {resumed:?}"))
}

fn resumed_id_is_fresh(evidence: &InvariantEvidence) -> Result<(), String> {
    invocation_ids_differ(evidence)?;
    let id = last_run(evidence)?.invocation_id().unwrap_or_default();
    ensure(is_uuid4(&id), || format!("it is {id}"))
}

fn correlation_is_shared(evidence: &InvariantEvidence) -> Result<(), String> {
    let (first, resumed) = first_and_resumed_run(evidence)?;
    let all: BTreeSet<&str> = [first, resumed]
        .iter()
        .flat_map(|item| &item.reel.visits)
        .map(|it| it.correlation.as_str())
        .collect();
    let both_ran = !first.reel.visits.is_empty() && !resumed.reel.visits.is_empty();
    ensure(both_ran && all.len() == 1, || format!("the ids are {all:?}"))
}

fn correlation_is_uuid(evidence: &InvariantEvidence) -> Result<(), String> {
    let id = first_correlation(first_and_resumed_run(evidence)?.0).unwrap_or_default();
    ensure(is_uuid4(&id), || format!("it is '{id}'"))
}

fn attempts_restart_at_zero(evidence: &InvariantEvidence) -> Result<(), String> {
    let (first, resumed) = first_and_resumed_run(evidence)?;
    let spent = first.reel.visits.last().map(|visit| visit.attempt);
    let begins = resumed.reel.visits.first().map(|visit| visit.attempt);
    ensure(spent > Some(0) && begins == Some(0), || {
        format!("it ended with {spent:?} and began with {begins:?}")
    })
}

/// Each migration begins where the one before it ended.
fn migrations_are_a_chain(evidence: &InvariantEvidence) -> Result<(), String> {
    let ran = &last_run(evidence)?.reel.migrations;
    let steps: Vec<_> = ran.iter().filter_map(|item| item.split_once("->")).collect();
    let chain = steps.windows(2).all(|window| window[0].1 == window[1].0);
    ensure(chain && steps.len() == ran.len() && steps.len() > 1, || format!("migrations ran: {ran:?}"))
}

fn no_migration_ran(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let none = run.reel.migrations.is_empty() && run.outcome_word() == "completed";
    ensure(none, || format!("it {}, migrations: {:?}", run.outcome_word(), run.reel.migrations))
}

fn no_duplicates(evidence: &InvariantEvidence, field: &str) -> Result<(), String> {
    let value = last_run(evidence)?.last_state().and_then(|state| state.get(field)?.to_json().ok());
    let Some(Value::Array(items)) = value else { return Err(format!("there is no list '{field}'")) };
    let different: BTreeSet<String> = items.iter().map(Value::to_string).collect();
    ensure(different.len() == items.len() && !items.is_empty(), || format!("the list is {items:?}"))
}

/// Each save adds the node whose completed event comes next.
fn saves_follow_events(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let ran: Vec<&str> =
        run.reel.visits.iter().filter_map(|visit| visit.namespace.last()).map(String::as_str).collect();
    let added = evidence
        .saves
        .iter()
        .map(|save| save.record["completed_positions"].as_array().and_then(|items| items.last()));
    let added: Vec<&str> =
        added.map(|added| added.and_then(|added| added["node_name"].as_str()).unwrap_or("nothing")).collect();
    ensure(!ran.is_empty() && ran == added, || format!("nodes {ran:?} ran, and {added:?} were saved"))
}

fn saved_values<'a>(evidence: &'a InvariantEvidence, key: &str) -> Result<Vec<&'a Value>, String> {
    let values: Vec<&Value> = evidence.saves.iter().map(|save| &save.record[key]).collect();
    ensure(!values.is_empty(), || "nothing was saved".into())?;
    Ok(values)
}

fn saved_id_is_uuid(evidence: &InvariantEvidence) -> Result<(), String> {
    let ids = saved_values(evidence, "invocation_id")?;
    let right = ids.iter().all(|id| id.as_str().is_some_and(is_uuid4));
    ensure(right, || format!("the ids are {ids:?}"))
}

fn save_times_increase(evidence: &InvariantEvidence) -> Result<(), String> {
    let times = saved_values(evidence, "last_saved_at")?;
    let times: Vec<Option<u64>> = times.iter().map(|time| time.as_u64()).collect();
    let right = times.iter().all(Option::is_some) && times.windows(2).all(|window| window[0] <= window[1]);
    ensure(right, || format!("the times are {times:?}"))
}

/// The store kept back saves from inside of fan-outs and no other saves: a load after any other save returns that
/// save (pipeline-utilities §10.11.4).
fn only_inner_saves_wait(evidence: &InvariantEvidence) -> Result<(), String> {
    let inside = |it: &&CheckpointSave| {
        it.record["fan_out_progress"].as_array().is_some_and(|items| !items.is_empty())
    };
    let (inner, other): (Vec<&CheckpointSave>, Vec<&CheckpointSave>) =
        evidence.all_saves.iter().partition(inside);
    let late = other.iter().filter(|it| !it.at_once).count();
    let kept = inner.iter().filter(|item| !item.at_once).count();
    ensure(late == 0 && !other.is_empty() && kept > 0, || {
        format!("{kept} of {} inner saves were kept back, {late} of {} others", inner.len(), other.len())
    })
}

fn steps_increase(evidence: &InvariantEvidence) -> Result<(), String> {
    for positions in saved_values(evidence, "completed_positions")? {
        let steps: Vec<Option<u64>> =
            positions.as_array().into_iter().flatten().map(|items| items["step"].as_u64()).collect();
        let rising = steps.windows(2).all(|window| window[0] < window[1]);
        ensure(rising && steps.iter().all(Option::is_some), || format!("the steps are {steps:?}"))?;
    }
    Ok(())
}

/// The instances of nested fan-outs that ran, by their indexes, outermost first.
fn nested_instances_run(run: &InvocationResult) -> BTreeSet<Vec<u64>> {
    let chains =
        run.reel.visits.iter().map(|visit| visit.instance.iter().flatten().copied().collect::<Vec<_>>());
    chains.filter(|chain| chain.len() > 1).collect()
}

/// The instances of nested fan-outs in the record, and whether they are done; an entry without its lineage is of none.
fn recorded_nested_instances(evidence: &InvariantEvidence) -> Result<BTreeMap<Vec<u64>, bool>, String> {
    let record = evidence.record.as_ref().ok_or("there is no record")?;
    let mut found: BTreeMap<Vec<u64>, bool> = BTreeMap::new();
    for entry in record["fan_out_progress"].as_array().into_iter().flatten() {
        let lineage = entry["enclosing_fan_out_lineage"].as_array();
        let lineage: Vec<u64> =
            lineage.into_iter().flatten().filter_map(|it| it["fan_out_index"].as_u64()).collect();
        for (at, instance) in (0_u64..).zip(entry["instances"].as_array().into_iter().flatten()) {
            let chain = lineage.iter().copied().chain([at]).collect();
            found.insert(chain, instance["state"] == "completed");
        }
    }
    found.retain(|chain, _| chain.len() > 1);
    Ok(found)
}

fn only_unfinished_instances_run(evidence: &InvariantEvidence) -> Result<(), String> {
    let recorded = recorded_nested_instances(evidence)?;
    let open: BTreeSet<Vec<u64>> =
        recorded.iter().filter(|(_, done)| !**done).map(|(chain, _)| chain.clone()).collect();
    let ran = nested_instances_run(last_run(evidence)?);
    let some_done = recorded.len() > open.len();
    ensure(some_done && ran == open, || format!("{ran:?} ran, {open:?} were not done"))
}

/// Every inner instance of every outer one ran, although the record has an entry of the inner fan-out.
fn all_inner_instances_run_again(evidence: &InvariantEvidence) -> Result<(), String> {
    let ran = nested_instances_run(last_run(evidence)?);
    let outer: BTreeSet<u64> = ran.iter().map(|item| item[0]).collect();
    let inner: BTreeSet<u64> = ran.iter().map(|item| item[1]).collect();
    let all = ran.len() == outer.len() * inner.len();
    ensure(
        recorded_nested_instances(evidence)?.is_empty() && all && outer.len() > 1 && inner.len() > 1,
        || format!("{ran:?} ran"),
    )
}
