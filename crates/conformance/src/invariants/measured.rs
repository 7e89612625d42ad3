//! Invariants of graph-engine, sessions, suspension and harness that are measured.

use std::collections::BTreeSet;

use singletree::engine::RunOutcome as Ended;
use singletree::harness::{EngineInvocation, HarnessOutcome};

use super::{InvariantEvidence, Measure};
use crate::base;
use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::LocatedNode;
use crate::run::InvocationResult;
use crate::sessions::state_to_json;
use crate::vocabulary::CATEGORIES;

/// Invariants that are true or not.
pub(super) const MEASURED: &[(&str, Measure)] = &[
    ("edge_resolution_failure_in_completed_event", edge_failure_is_in_an_event),
    ("drain_returned_within_timeout", drains_respect_their_limit),
    ("graph_state_intact_after_timeout", rerun_gives_the_same_result),
    ("workers_not_cancelled_on_per_invocation_drain_timeout", every_event_arrives),
    ("each_invocation_has_unique_invocation_id", invocation_ids_differ),
    ("saved_record_overwrites_prior", last_save_replaces_first),
    ("scratch_field_never_persisted", scratch_fields_are_not_saved),
    ("single_migration_invocation", one_migration_ran),
    ("node_never_invoked", no_node_ran),
    ("no_invoke_attempted", no_node_ran),
    ("subgraph_state_fields_match_subgraph_schema", inner_state_is_the_subgraphs),
    ("no_inner_session_load_or_save", one_load_and_one_save),
    ("resume_continues_after_suspending_node", suspending_node_runs_once),
    ("resume_re_enters_at_inner_post", resume_is_inside_the_subgraph),
    ("session_saves_at_suspend_time", state_is_saved_at_suspension),
    ("harness_auto_generated_session_id", session_id_was_assigned),
    ("engine_received_session_id", engine_receives_session_id),
    ("engine_loaded_prior_session_state_on_second_invoke", second_load_finds_record),
    ("first_invoke_suspended_and_signal_subscribed", suspension_was_subscribed),
    ("harness_did_not_block_between_suspend_and_signal", harness_did_not_block),
    ("suspended_outcome_registered_subscription", suspension_was_subscribed),
    ("harness_did_not_block_on_suspended_turn", harness_did_not_block),
    ("suspend_registered_subscription", suspension_was_subscribed),
    ("harness_did_not_auto_retry", at_most_one_run),
    ("stateless_harness_did_not_resolve_session_id", no_session_passed),
    ("engine_did_not_invoke_session_store", session_store_untouched),
    ("session_store_completely_untouched", session_store_untouched),
];

/// Asserts the invariants that have a value; false when the name is none of them.
pub(super) fn check_valued_invariant(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    evidence: &InvariantEvidence,
) -> Outcome<bool> {
    match name {
        "no_events_for_node" => {
            let node = value.as_text()?;
            let mut events = evidence.runs.iter().flat_map(|run| &run.reel.deliveries);
            let seen = events.any(|event| event.event.node_name.as_ref() == node);
            let runs = evidence.runs.iter().any(|run| !run.reel.deliveries.is_empty());
            checker.check_result(&value.path, ensure(runs && !seen, || format!("node '{node}' has events")));
            let known = evidence.nodes.iter().any(|name| name == node);
            checker.check_result(&value.path, ensure(known, || format!("the case has no node '{node}'")));
        }
        "error_category_not" => {
            let path = value.path.clone();
            for category in value.clone().into_distinct_texts()? {
                let known = CATEGORIES.contains(&category.as_str());
                checker
                    .check_result(&path, ensure(known, || format!("no error has the category '{category}'")));
                let is = evidence
                    .runs
                    .iter()
                    .any(|run| run.ended.as_ref().is_err_and(|error| error.category() == category));
                checker.check_result(&path, ensure(!is, || format!("the category is '{category}'")));
            }
        }
        "migration_invocation_count" => checker.check_exact(value, migration_count(evidence)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn migration_count(evidence: &InvariantEvidence) -> usize {
    evidence.runs.iter().map(|run| run.reel.migrations.len()).sum()
}

pub(super) fn last_run(evidence: &InvariantEvidence) -> Result<&InvocationResult, String> {
    evidence.runs.last().ok_or_else(|| "nothing was invoked".into())
}

fn edge_failure_is_in_an_event(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let Err(error) = &run.ended else { return Err("it did not fail".into()) };
    let mut events = run.reel.deliveries.iter().map(|delivery| &delivery.event);
    let found = events.any(|event| {
        event.phase.as_str() == "completed"
            && event.attempt_error().is_some_and(|it| it.category == error.category())
            && error.node_location().is_some_and(|place| place.node == event.node_name)
    });
    ensure(found, || "no completed event of the node carries the failure".into())
}

fn drains_respect_their_limit(evidence: &InvariantEvidence) -> Result<(), String> {
    let of_nodes = evidence.runs.iter().flat_map(|run| &run.reel.drains).map(|it| (it.took, it.limit));
    let of_graph = evidence.runs.iter().filter_map(|run| run.drained).map(|run| (run.took, run.limit));
    let limited: Vec<_> = of_nodes.chain(of_graph).filter_map(|(took, limit)| Some((took, limit?))).collect();
    ensure(!limited.is_empty(), || "no drain had a time limit".into())?;
    // The runtime's timer ticks in milliseconds.
    let tick = std::time::Duration::from_millis(2);
    let late = limited.iter().find(|(took, limit)| *took > *limit + tick);
    ensure(late.is_none(), || format!("a drain took {late:?}"))
}

/// After a drain gave up, the same invocation gives the same, and its events arrive.
fn rerun_gives_the_same_result(evidence: &InvariantEvidence) -> Result<(), String> {
    let gave_up =
        evidence.runs.iter().find(|run| run.drained.is_some_and(|drained| drained.summary.timeout_reached));
    let run = gave_up.ok_or("no drain ran into its time limit")?;
    let again = evidence.again.as_ref().ok_or("it was not invoked again")?;
    let shown = |it: &InvocationResult| {
        let state = it.last_state().and_then(|state| state.to_json().ok());
        (it.outcome_word(), state, it.reel.execution_order())
    };
    ensure(shown(run) == shown(again), || format!("it ended as {:?}", shown(again)))?;
    let (events, visits) = (again.reel.deliveries.len(), again.reel.visits.len());
    ensure(events >= visits * 2, || format!("{visits} nodes ran, and {events} events arrived"))
}

/// Every node that ran has both its events, although a drain gave up waiting for them.
fn every_event_arrives(evidence: &InvariantEvidence) -> Result<(), String> {
    let gave_up =
        evidence.runs.iter().find(|run| run.reel.drains.iter().any(|drain| drain.summary.timeout_reached));
    let run = gave_up.ok_or("no drain ran into its time limit")?;
    let (events, visits) = (run.reel.deliveries.len(), run.reel.visits.len());
    ensure(events == visits * 2, || format!("{visits} nodes ran, and {events} events arrived"))
}

fn invocation_ids_differ(evidence: &InvariantEvidence) -> Result<(), String> {
    let ids: BTreeSet<_> = evidence.runs.iter().filter_map(InvocationResult::invocation_id).collect();
    ensure(ids.len() == evidence.runs.len(), || {
        format!("{} runs have {} ids", evidence.runs.len(), ids.len())
    })
}

fn last_save_replaces_first(evidence: &InvariantEvidence) -> Result<(), String> {
    let saves: Vec<_> = evidence.runs.iter().flat_map(|run| run.reel.saved_records()).collect();
    let (Some(first), Some(last)) = (saves.first(), saves.last()) else {
        return Err("nothing was saved".into());
    };
    ensure(saves.len() == evidence.runs.len(), || format!("there were {} saves", saves.len()))?;
    ensure(first.state != last.state, || "the second save changed nothing".into())
}

fn scratch_fields_are_not_saved(evidence: &InvariantEvidence) -> Result<(), String> {
    let saves: Vec<_> = evidence.runs.iter().flat_map(|run| run.reel.saved_records()).collect();
    ensure(!saves.is_empty(), || "nothing was saved".into())?;
    let ended = last_run(evidence)?.last_state().map(|state| state.iter_fields().count()).unwrap_or_default();
    let all = saves.iter().all(|save| save.state.len() < ended && !save.state.contains_key("scratch"));
    ensure(all, || "a record holds the scratch field".into())
}

fn one_migration_ran(evidence: &InvariantEvidence) -> Result<(), String> {
    let count = migration_count(evidence);
    ensure(count == 1, || format!("{count} migrations ran"))
}

pub(super) fn no_node_ran(evidence: &InvariantEvidence) -> Result<(), String> {
    let visits: usize = evidence.runs.iter().map(|run| run.reel.visits.len()).sum();
    ensure(!evidence.runs.is_empty() && visits == 0, || format!("{visits} nodes ran"))
}

pub(super) fn inner_state_is_the_subgraphs(evidence: &InvariantEvidence) -> Result<(), String> {
    let inner: Vec<_> =
        evidence.runs.iter().flat_map(|run| &run.reel.visits).filter(|it| it.namespace.len() > 1).collect();
    ensure(!inner.is_empty(), || "no node of a subgraph ran".into())?;
    let fields = |it: &serde_json::Map<_, _>| it.keys().cloned().collect::<BTreeSet<String>>();
    let declared: BTreeSet<_> = evidence.inner_fields.iter().cloned().collect();
    let odd = inner.iter().find(|item| fields(&item.pre_state) != declared);
    ensure(odd.is_none(), || format!("a node of the subgraph saw {:?}", odd.map(|odd| &odd.pre_state)))
}

pub(super) fn one_load_and_one_save(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let (loads, saves) = (run.reel.load_count(), run.reel.saved_records().count());
    ensure((loads, saves) == (1, 1), || format!("{loads} loads and {saves} saves"))
}

/// The suspended run and the one after it.
fn suspended_and_next_run(
    evidence: &InvariantEvidence,
) -> Result<(&InvocationResult, &InvocationResult), String> {
    let mut pairs = evidence.runs.windows(2).map(|window| (&window[0], &window[1]));
    pairs
        .find(|(it, _)| it.outcome_word() == "suspended")
        .ok_or_else(|| "nothing was suspended and resumed".into())
}

fn suspending_node_runs_once(evidence: &InvariantEvidence) -> Result<(), String> {
    let (paused, resumed) = suspended_and_next_run(evidence)?;
    let gate = paused.reel.visits.last().map(|visit| &visit.namespace);
    let again = resumed.reel.visits.iter().any(|visit| Some(&visit.namespace) == gate);
    ensure(!again && !resumed.reel.visits.is_empty(), || {
        "the suspending node ran again, or nothing did".into()
    })
}

fn resume_is_inside_the_subgraph(evidence: &InvariantEvidence) -> Result<(), String> {
    let (paused, resumed) = suspended_and_next_run(evidence)?;
    let outside = |it: &[String]| it[..it.len() - 1].to_vec();
    let gate = paused.reel.visits.last().map(|visit| outside(&visit.namespace));
    let first = resumed.reel.visits.first();
    let inside =
        first.is_some_and(|first| Some(outside(&first.namespace)) == gate && first.namespace.len() > 1);
    ensure(inside, || format!("the first node after the resume is {first:?}"))
}

fn state_is_saved_at_suspension(evidence: &InvariantEvidence) -> Result<(), String> {
    let (paused, _) = suspended_and_next_run(evidence)?;
    let Ok(Ended::Suspended(it)) = &paused.ended else { return Err("it is not suspended".into()) };
    let saved = paused.reel.saved_records().next_back().ok_or("nothing was saved")?;
    let saved = state_to_json(saved).map_err(|error| error.to_string())?;
    let state = it.state.to_json().map_err(|error| error.to_string())?;
    ensure(saved == serde_json::Value::Object(state), || format!("saved was {saved}"))
}

fn session_id_was_assigned(evidence: &InvariantEvidence) -> Result<(), String> {
    let assigned = evidence.handled.iter().any(|it| {
        matches!(it.report.invoked, Some(EngineInvocation::Start { assigned: true, session: Some(_), .. }))
    });
    ensure(assigned, || "no session was named by the harness".into())
}

fn engine_receives_session_id(evidence: &InvariantEvidence) -> Result<(), String> {
    let mut visits = evidence.handled.iter().flat_map(|it| &it.reel.visits).peekable();
    ensure(visits.peek().is_some() && visits.all(|visit| visit.session.is_some()), || {
        "a node ran in no session".into()
    })
}

fn second_load_finds_record(evidence: &InvariantEvidence) -> Result<(), String> {
    let loads: Vec<_> = evidence
        .handled
        .iter()
        .flat_map(|it| &it.reel.calls)
        .filter_map(|it| match it {
            crate::tape::SessionStoreCall::Load(found) => Some(found),
            crate::tape::SessionStoreCall::Save(_) => None,
        })
        .collect();
    let right = matches!(loads.as_slice(), [None, Some(_), ..]);
    ensure(right, || format!("the loads found {loads:?}"))
}

fn first_suspended_transmission(evidence: &InvariantEvidence) -> Result<&base::TransmissionResult, String> {
    let mut handled = evidence.handled.iter();
    let found = handled.find(|it| matches!(it.report.outcome, HarnessOutcome::Suspended(_)));
    found.ok_or_else(|| "nothing was suspended".into())
}

fn suspension_was_subscribed(evidence: &InvariantEvidence) -> Result<(), String> {
    base::ensure_subscribed(first_suspended_transmission(evidence)?)
}

fn harness_did_not_block(evidence: &InvariantEvidence) -> Result<(), String> {
    base::ensure_not_blocked(first_suspended_transmission(evidence)?)
}

fn at_most_one_run(evidence: &InvariantEvidence) -> Result<(), String> {
    let again = evidence.handled.iter().find(|it| base::was_retried(it));
    ensure(again.is_none() && !evidence.handled.is_empty(), || "something was tried twice".into())
}

fn no_session_passed(evidence: &InvariantEvidence) -> Result<(), String> {
    let mut handled = evidence.handled.iter().peekable();
    let none = |it: &base::TransmissionResult| {
        matches!(it.report.invoked, Some(EngineInvocation::Start { session: None, .. }))
            && it.reel.visits.iter().all(|visit| visit.session.is_none())
    };
    ensure(handled.peek().is_some() && handled.all(none), || "a session was passed".into())
}

fn session_store_untouched(evidence: &InvariantEvidence) -> Result<(), String> {
    let calls: usize = evidence.handled.iter().map(|it| it.reel.calls.len()).sum();
    ensure(!evidence.handled.is_empty() && calls == 0, || format!("the store was called {calls} times"))
}
