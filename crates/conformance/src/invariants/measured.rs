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
use crate::sessions::state_of;
use crate::vocabulary::CATEGORIES;

/// Invariants that are true or not.
pub(super) const MEASURED: &[(&str, Measure)] = &[
    ("edge_resolution_failure_in_completed_event", edge_failure_is_in_an_event),
    ("drain_returned_within_timeout", drains_kept_their_time),
    ("graph_state_intact_after_timeout", runs_again_as_before),
    ("workers_not_cancelled_on_per_invocation_drain_timeout", every_event_arrived),
    ("each_invocation_has_unique_invocation_id", ids_differ),
    ("saved_record_overwrites_prior", last_save_is_all_there_is),
    ("scratch_field_never_persisted", scratch_is_not_saved),
    ("single_migration_invocation", one_migration),
    ("node_never_invoked", nothing_ran),
    ("no_invoke_attempted", nothing_ran),
    ("subgraph_state_fields_match_subgraph_schema", inner_state_is_the_subgraphs),
    ("no_inner_session_load_or_save", one_load_one_save),
    ("resume_continues_after_suspending_node", suspending_node_did_not_run_again),
    ("resume_re_enters_at_inner_post", resume_is_inside),
    ("session_saves_at_suspend_time", saved_at_suspend),
    ("harness_auto_generated_session_id", session_was_assigned),
    ("engine_received_session_id", engine_has_session),
    ("engine_loaded_prior_session_state_on_second_invoke", second_load_found),
    ("first_invoke_suspended_and_signal_subscribed", first_subscribed),
    ("harness_did_not_block_between_suspend_and_signal", did_not_block),
    ("suspended_outcome_registered_subscription", first_subscribed),
    ("harness_did_not_block_on_suspended_turn", did_not_block),
    ("suspend_registered_subscription", first_subscribed),
    ("harness_did_not_auto_retry", at_most_one_run),
    ("stateless_harness_did_not_resolve_session_id", no_session),
    ("engine_did_not_invoke_session_store", store_untouched),
    ("session_store_completely_untouched", store_untouched),
];

/// Asserts the invariants that have a value; false when the name is none of them.
pub(super) fn valued(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    evidence: &InvariantEvidence,
) -> Outcome<bool> {
    match name {
        "no_events_for_node" => {
            let node = value.text()?;
            let mut events = evidence.runs.iter().flat_map(|run| &run.reel.deliveries);
            let seen = events.any(|event| event.event.node_name.as_ref() == node);
            let runs = evidence.runs.iter().any(|run| !run.reel.deliveries.is_empty());
            checker.holds(&value.path, ensure(runs && !seen, || format!("node '{node}' has events")));
            let known = evidence.nodes.iter().any(|name| name == node);
            checker.holds(&value.path, ensure(known, || format!("the case has no node '{node}'")));
        }
        "error_category_not" => {
            let path = value.path.clone();
            for category in value.clone().distinct_texts()? {
                let known = CATEGORIES.contains(&category.as_str());
                checker.holds(&path, ensure(known, || format!("no error has the category '{category}'")));
                let is = evidence
                    .runs
                    .iter()
                    .any(|run| run.ended.as_ref().is_err_and(|error| error.category() == category));
                checker.holds(&path, ensure(!is, || format!("the category is '{category}'")));
            }
        }
        "migration_invocation_count" => checker.exactly(value, migrations(evidence)),
        _ => return Ok(false),
    }
    Ok(true)
}

fn migrations(evidence: &InvariantEvidence) -> usize {
    evidence.runs.iter().map(|run| run.reel.migrations.len()).sum()
}

pub(super) fn last(evidence: &InvariantEvidence) -> Result<&InvocationResult, String> {
    evidence.runs.last().ok_or_else(|| "nothing was invoked".into())
}

fn edge_failure_is_in_an_event(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    let Err(error) = &run.ended else { return Err("it did not fail".into()) };
    let mut events = run.reel.deliveries.iter().map(|delivery| &delivery.event);
    let found = events.any(|event| {
        event.phase.as_str() == "completed"
            && event.error().is_some_and(|it| it.category == error.category())
            && error.place().is_some_and(|place| place.node == event.node_name)
    });
    ensure(found, || "no completed event of the node carries the failure".into())
}

fn drains_kept_their_time(evidence: &InvariantEvidence) -> Result<(), String> {
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
fn runs_again_as_before(evidence: &InvariantEvidence) -> Result<(), String> {
    let gave_up =
        evidence.runs.iter().find(|run| run.drained.is_some_and(|drained| drained.summary.timeout_reached));
    let run = gave_up.ok_or("no drain ran into its time limit")?;
    let again = evidence.again.as_ref().ok_or("it was not invoked again")?;
    let shown = |it: &InvocationResult| {
        let state = it.state().and_then(|state| state.to_json().ok());
        (it.word(), state, it.reel.order())
    };
    ensure(shown(run) == shown(again), || format!("it ended as {:?}", shown(again)))?;
    let (events, visits) = (again.reel.deliveries.len(), again.reel.visits.len());
    ensure(events >= visits * 2, || format!("{visits} nodes ran, and {events} events arrived"))
}

/// Every node that ran has both its events, although a drain gave up waiting for them.
fn every_event_arrived(evidence: &InvariantEvidence) -> Result<(), String> {
    let gave_up =
        evidence.runs.iter().find(|run| run.reel.drains.iter().any(|drain| drain.summary.timeout_reached));
    let run = gave_up.ok_or("no drain ran into its time limit")?;
    let (events, visits) = (run.reel.deliveries.len(), run.reel.visits.len());
    ensure(events == visits * 2, || format!("{visits} nodes ran, and {events} events arrived"))
}

fn ids_differ(evidence: &InvariantEvidence) -> Result<(), String> {
    let ids: BTreeSet<_> = evidence.runs.iter().filter_map(InvocationResult::invocation).collect();
    ensure(ids.len() == evidence.runs.len(), || {
        format!("{} runs have {} ids", evidence.runs.len(), ids.len())
    })
}

fn last_save_is_all_there_is(evidence: &InvariantEvidence) -> Result<(), String> {
    let saves: Vec<_> = evidence.runs.iter().flat_map(|run| run.reel.saves()).collect();
    let (Some(first), Some(last)) = (saves.first(), saves.last()) else {
        return Err("nothing was saved".into());
    };
    ensure(saves.len() == evidence.runs.len(), || format!("there were {} saves", saves.len()))?;
    ensure(first.state != last.state, || "the second save changed nothing".into())
}

fn scratch_is_not_saved(evidence: &InvariantEvidence) -> Result<(), String> {
    let saves: Vec<_> = evidence.runs.iter().flat_map(|run| run.reel.saves()).collect();
    ensure(!saves.is_empty(), || "nothing was saved".into())?;
    let ended = last(evidence)?.state().map(|state| state.fields().count()).unwrap_or_default();
    let all = saves.iter().all(|save| save.state.len() < ended && !save.state.contains_key("scratch"));
    ensure(all, || "a record holds the scratch field".into())
}

fn one_migration(evidence: &InvariantEvidence) -> Result<(), String> {
    let count = migrations(evidence);
    ensure(count == 1, || format!("{count} migrations ran"))
}

pub(super) fn nothing_ran(evidence: &InvariantEvidence) -> Result<(), String> {
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

pub(super) fn one_load_one_save(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    let (loads, saves) = (run.reel.loads(), run.reel.saves().count());
    ensure((loads, saves) == (1, 1), || format!("{loads} loads and {saves} saves"))
}

/// The suspended run and the one after it.
fn pause(evidence: &InvariantEvidence) -> Result<(&InvocationResult, &InvocationResult), String> {
    let mut pairs = evidence.runs.windows(2).map(|window| (&window[0], &window[1]));
    pairs.find(|(it, _)| it.word() == "suspended").ok_or_else(|| "nothing was suspended and resumed".into())
}

fn suspending_node_did_not_run_again(evidence: &InvariantEvidence) -> Result<(), String> {
    let (paused, resumed) = pause(evidence)?;
    let gate = paused.reel.visits.last().map(|visit| &visit.namespace);
    let again = resumed.reel.visits.iter().any(|visit| Some(&visit.namespace) == gate);
    ensure(!again && !resumed.reel.visits.is_empty(), || {
        "the suspending node ran again, or nothing did".into()
    })
}

fn resume_is_inside(evidence: &InvariantEvidence) -> Result<(), String> {
    let (paused, resumed) = pause(evidence)?;
    let outside = |it: &[String]| it[..it.len() - 1].to_vec();
    let gate = paused.reel.visits.last().map(|visit| outside(&visit.namespace));
    let first = resumed.reel.visits.first();
    let inside =
        first.is_some_and(|first| Some(outside(&first.namespace)) == gate && first.namespace.len() > 1);
    ensure(inside, || format!("the first node after the resume is {first:?}"))
}

fn saved_at_suspend(evidence: &InvariantEvidence) -> Result<(), String> {
    let (paused, _) = pause(evidence)?;
    let Ok(Ended::Suspended(it)) = &paused.ended else { return Err("it is not suspended".into()) };
    let saved = paused.reel.saves().next_back().ok_or("nothing was saved")?;
    let saved = state_of(saved).map_err(|error| error.to_string())?;
    let state = it.state.to_json().map_err(|error| error.to_string())?;
    ensure(saved == serde_json::Value::Object(state), || format!("saved was {saved}"))
}

fn session_was_assigned(evidence: &InvariantEvidence) -> Result<(), String> {
    let assigned = evidence.handled.iter().any(|it| {
        matches!(it.report.invoked, Some(EngineInvocation::Start { assigned: true, session: Some(_), .. }))
    });
    ensure(assigned, || "no session was named by the harness".into())
}

fn engine_has_session(evidence: &InvariantEvidence) -> Result<(), String> {
    let mut visits = evidence.handled.iter().flat_map(|it| &it.reel.visits).peekable();
    ensure(visits.peek().is_some() && visits.all(|visit| visit.session.is_some()), || {
        "a node ran in no session".into()
    })
}

fn second_load_found(evidence: &InvariantEvidence) -> Result<(), String> {
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

fn first_suspended(evidence: &InvariantEvidence) -> Result<&base::TransmissionResult, String> {
    let mut handled = evidence.handled.iter();
    let found = handled.find(|it| matches!(it.report.outcome, HarnessOutcome::Suspended(_)));
    found.ok_or_else(|| "nothing was suspended".into())
}

fn first_subscribed(evidence: &InvariantEvidence) -> Result<(), String> {
    base::subscribed(first_suspended(evidence)?)
}

fn did_not_block(evidence: &InvariantEvidence) -> Result<(), String> {
    base::did_not_block(first_suspended(evidence)?)
}

fn at_most_one_run(evidence: &InvariantEvidence) -> Result<(), String> {
    let again = evidence.handled.iter().find(|it| base::retried(it));
    ensure(again.is_none() && !evidence.handled.is_empty(), || "something was tried twice".into())
}

fn no_session(evidence: &InvariantEvidence) -> Result<(), String> {
    let mut handled = evidence.handled.iter().peekable();
    let none = |it: &base::TransmissionResult| {
        matches!(it.report.invoked, Some(EngineInvocation::Start { session: None, .. }))
            && it.reel.visits.iter().all(|visit| visit.session.is_none())
    };
    ensure(handled.peek().is_some() && handled.all(none), || "a session was passed".into())
}

fn store_untouched(evidence: &InvariantEvidence) -> Result<(), String> {
    let calls: usize = evidence.handled.iter().map(|it| it.reel.calls.len()).sum();
    ensure(!evidence.handled.is_empty() && calls == 0, || format!("the store was called {calls} times"))
}
