//! Invariants of middleware, fan-out and parallel branches that are measured.

use singletree::engine::{AttemptPhase, IsolationEvent, NodeEvent};

use super::measured::{inner_state_is_the_subgraphs, last, nothing_ran, one_load_one_save};
use super::{InvariantEvidence, Measure};
use crate::check::ensure;
use crate::observers::RUNNERS;
use crate::run::InvocationResult;

/// Invariants that are true or not.
pub(super) const MEASURED: &[(&str, Measure)] = &[
    ("engine_does_not_see_exception", completed_all_the_same),
    ("event_is_distinct_from_node_event", events_are_pairs),
    ("retry_exhausts_before_isolation_catches", caught_the_last_attempt),
    ("on_caught_fires_exactly_once", called_once),
    ("on_caught_receives_original_exception", called_with_the_origin),
    ("no_event_when_predicate_does_not_match", failed_unnoticed),
    ("no_event_when_catch_does_not_match", failed_unnoticed),
    ("skipped_branch_emits_no_event", skipped_branches_are_silent),
    ("siblings_cancelled_under_fail_fast", a_sibling_did_not_end),
    ("wrapped_node_does_not_execute_after_middleware_suspend_attempt", nothing_ran),
    ("fan_out_instance_state_fields_match_subgraph_schema", inner_state_is_the_subgraphs),
    ("no_per_instance_session_load_or_save", one_load_one_save),
];

fn isolated(run: &InvocationResult) -> Result<&IsolationEvent, String> {
    match run.reel.isolated.as_slice() {
        [only] => Ok(only),
        others => Err(format!("{} failures were isolated", others.len())),
    }
}

fn heard(run: &InvocationResult) -> Vec<&NodeEvent> {
    run.reel.taken_by(RUNNERS).collect()
}

fn completed_all_the_same(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    isolated(run)?;
    ensure(run.word() == "completed", || format!("it {}", run.word()))
}

/// The events of nodes are one pair for each attempt and no more: the isolation adds no node event.
fn events_are_pairs(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    isolated(run)?;
    let events = heard(run);
    let pairs = events.chunks(2).all(|chunk| {
        matches!(chunk, [a, b] if (a.phase, b.phase) == (AttemptPhase::Started, AttemptPhase::Completed)
            && (a.step, a.attempt_index) == (b.step, b.attempt_index))
    });
    let attempts = run.reel.visits.len();
    ensure(pairs && events.len() == attempts * 2, || format!("{attempts} attempts, {} events", events.len()))
}

fn caught_the_last_attempt(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    let caught = isolated(run)?;
    let failed: Vec<u32> =
        heard(run).iter().filter(|it| it.error().is_some()).map(|it| it.attempt_index).collect();
    let all: Vec<u32> = (0..).take(run.reel.visits.len()).collect();
    let right = failed == all && all.len() > 1 && all.last() == Some(&caught.attempt_index);
    ensure(right, || format!("attempts {failed:?} failed, {} was caught", caught.attempt_index))
}

fn called_once(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    isolated(run)?;
    let calls = run.reel.caught_messages.len();
    ensure(calls == 1, || format!("it was called {calls} times"))
}

fn called_with_the_origin(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    let origin = isolated(run)?.caught_exception.chain.last().map(|it| it.message.clone());
    let given = run.reel.caught_messages.first().cloned();
    ensure(given.is_some() && given == origin, || format!("it was given {given:?}, the origin is {origin:?}"))
}

fn failed_unnoticed(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    let right = run.ended.is_err() && run.reel.isolated.is_empty() && !heard(run).is_empty();
    ensure(right, || format!("it {}, with {} events of isolation", run.word(), run.reel.isolated.len()))
}

/// A branch whose condition does not hold neither runs nor tells; those without a condition do both.
fn skipped_branches_are_silent(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    let conditional =
        |name: Option<&str>| name.is_some_and(|name| evidence.conditional.iter().any(|of| of == name));
    let told = heard(run).iter().any(|it| conditional(it.branch_name()));
    let ran = run.reel.visits.iter().any(|visit| conditional(visit.branch.as_deref()));
    ensure(!evidence.conditional.is_empty() && !told && !ran, || "the branch ran, or has events".into())
}

/// When one suspends, siblings that had begun do not come to their end.
fn a_sibling_did_not_end(evidence: &InvariantEvidence) -> Result<(), String> {
    let run = last(evidence)?;
    ensure(run.word() == "suspended", || format!("it {}", run.word()))?;
    let inner = || run.reel.visits.iter().filter(|visit| visit.namespace.len() > 1);
    let open = inner().filter(|inner| !inner.ended).count();
    ensure(inner().count() > open || open > 1, || "there was no sibling".into())?;
    // One of the open visits is the node that suspended.
    ensure(open > 1, || "every sibling came to its end".into())
}
