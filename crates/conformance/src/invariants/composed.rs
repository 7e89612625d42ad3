//! Invariants of middleware, fan-out and parallel branches that are measured.

use singletree::engine::{AttemptPhase, IsolationEvent, NodeEvent};

use super::measured::{inner_state_is_the_subgraphs, last_run, no_node_ran, one_load_and_one_save};
use super::{InvariantEvidence, Measure};
use crate::check::ensure;
use crate::observers::RUNNERS;
use crate::run::InvocationResult;

/// Invariants that are true or not.
pub(super) const MEASURED: &[(&str, Measure)] = &[
    ("engine_does_not_see_exception", run_completes_despite_failure),
    ("event_is_distinct_from_node_event", attempt_events_are_pairs),
    ("retry_exhausts_before_isolation_catches", last_attempt_is_caught),
    ("on_caught_fires_exactly_once", callback_called_once),
    ("on_caught_receives_original_exception", callback_names_the_origin),
    ("no_event_when_predicate_does_not_match", callback_failure_is_unnoticed),
    ("no_event_when_catch_does_not_match", callback_failure_is_unnoticed),
    ("skipped_branch_emits_no_event", skipped_branches_are_silent),
    ("siblings_cancelled_under_fail_fast", sibling_is_interrupted),
    ("wrapped_node_does_not_execute_after_middleware_suspend_attempt", no_node_ran),
    ("fan_out_instance_state_fields_match_subgraph_schema", inner_state_is_the_subgraphs),
    ("no_per_instance_session_load_or_save", one_load_and_one_save),
];

fn only_isolated_failure(run: &InvocationResult) -> Result<&IsolationEvent, String> {
    match run.reel.isolated.as_slice() {
        [only] => Ok(only),
        others => Err(format!("{} failures were isolated", others.len())),
    }
}

fn runner_events(run: &InvocationResult) -> Vec<&NodeEvent> {
    run.reel.events_taken_by(RUNNERS).collect()
}

fn run_completes_despite_failure(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    only_isolated_failure(run)?;
    ensure(run.outcome_word() == "completed", || format!("it {}", run.outcome_word()))
}

/// The events of nodes are one pair for each attempt and no more: the isolation adds no node event.
fn attempt_events_are_pairs(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    only_isolated_failure(run)?;
    let events = runner_events(run);
    let pairs = events.chunks(2).all(|chunk| {
        matches!(chunk, [a, b] if (a.phase, b.phase) == (AttemptPhase::Started, AttemptPhase::Completed)
            && (a.step, a.attempt_index) == (b.step, b.attempt_index))
    });
    let attempts = run.reel.visits.len();
    ensure(pairs && events.len() == attempts * 2, || format!("{attempts} attempts, {} events", events.len()))
}

fn last_attempt_is_caught(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let caught = only_isolated_failure(run)?;
    let failed: Vec<u32> = runner_events(run)
        .iter()
        .filter(|it| it.attempt_error().is_some())
        .map(|it| it.attempt_index)
        .collect();
    let all: Vec<u32> = (0..).take(run.reel.visits.len()).collect();
    let right = failed == all && all.len() > 1 && all.last() == Some(&caught.attempt_index);
    ensure(right, || format!("attempts {failed:?} failed, {} was caught", caught.attempt_index))
}

fn callback_called_once(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    only_isolated_failure(run)?;
    let calls = run.reel.caught_messages.len();
    ensure(calls == 1, || format!("it was called {calls} times"))
}

fn callback_names_the_origin(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let origin = only_isolated_failure(run)?.caught_exception.chain.last().map(|it| it.message.clone());
    let given = run.reel.caught_messages.first().cloned();
    ensure(given.is_some() && given == origin, || format!("it was given {given:?}, the origin is {origin:?}"))
}

fn callback_failure_is_unnoticed(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let right = run.ended.is_err() && run.reel.isolated.is_empty() && !runner_events(run).is_empty();
    ensure(right, || {
        format!("it {}, with {} events of isolation", run.outcome_word(), run.reel.isolated.len())
    })
}

/// A branch whose condition does not hold neither runs nor tells; those without a condition do both.
fn skipped_branches_are_silent(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    let conditional =
        |name: Option<&str>| name.is_some_and(|name| evidence.conditional.iter().any(|of| of == name));
    let told = runner_events(run).iter().any(|it| conditional(it.branch_name()));
    let ran = run.reel.visits.iter().any(|visit| conditional(visit.branch.as_deref()));
    ensure(!evidence.conditional.is_empty() && !told && !ran, || "the branch ran, or has events".into())
}

/// When one suspends, siblings that had begun do not come to their end.
fn sibling_is_interrupted(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last_run(evidence)?;
    ensure(run.outcome_word() == "suspended", || format!("it {}", run.outcome_word()))?;
    let inner = || run.reel.visits.iter().filter(|visit| visit.namespace.len() > 1);
    let open = inner().filter(|inner| !inner.ended).count();
    ensure(inner().count() > open || open > 1, || "there was no sibling".into())?;
    // One of the open visits is the node that suspended.
    ensure(open > 1, || "every sibling came to its end".into())
}
