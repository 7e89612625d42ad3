//! Invariants of harness-chat that are measured.

use serde_json::Value;
use singletree::harness::ChatTurnOutcome;

use super::{InvariantEvidence, Measure};
use crate::chat::ChatTurnResult;
use crate::check::ensure;

/// Invariants that are true or not.
pub(super) const MEASURED: &[(&str, Measure)] = &[
    ("turn_2_loads_turn_1_history", second_turn_sees_first),
    ("multimodal_content_blocks_preserved_in_history", blocks_are_kept),
    ("chat_harness_does_not_block_on_suspended_outcome", no_time_passed),
    ("compose_pending_state_persisted_before_suspend_node_runs", pending_message_is_kept),
    ("listener_fires_exactly_once_per_resumed_turn", listeners_fired_once),
    ("next_send_call_does_not_consume_the_post_resume_reply", next_send_is_its_own_turn),
    ("chat_harness_does_not_invoke_graph_when_session_load_fails", graph_not_invoked),
    ("session_state_preserved_after_transient_error", history_unchanged),
    ("message_validation_runs_at_send_api_boundary_before_session_load", journal_untouched),
    ("graph_body_not_invoked_when_message_validation_fails", graph_not_invoked),
];

fn turn_position(evidence: &InvariantEvidence, ended: &str) -> Result<usize, String> {
    let at = evidence.talked.turns.iter().position(|turn| turn.outcome.as_str() == ended);
    at.ok_or_else(|| format!("no turn {ended}"))
}

fn last_turn(evidence: &InvariantEvidence) -> Result<&ChatTurnResult, String> {
    evidence.talked.turns.last().ok_or_else(|| "there was no turn".into())
}

/// The graph of the second turn begins with the history that the first turn left.
fn second_turn_sees_first(evidence: &InvariantEvidence) -> Result<(), String> {
    let [first, second, ..] = evidence.talked.turns.as_slice() else {
        return Err("there are no two turns".into());
    };
    let seen = second
        .reel
        .visits
        .first()
        .and_then(|visit| visit.pre_state.get("messages"))
        .and_then(Value::as_array);
    let right = seen.is_some_and(|seen| !first.after.0.is_empty() && seen.starts_with(&first.after.0));
    ensure(right, || format!("the second turn's graph saw {seen:?}"))
}

/// Messages whose content is made of blocks are kept block by block.
fn blocks_are_kept(evidence: &InvariantEvidence) -> Result<(), String> {
    let kept = &last_turn(evidence)?.after.0;
    let mut sent =
        evidence.talked.turns.iter().map(|turn| &turn.sent).filter(|it| it["content"].is_array()).peekable();
    ensure(sent.peek().is_some(), || "no message was made of blocks".into())?;
    let kept = |sent: &Value| {
        kept.iter().any(|item| item["content"] == sent["content"] && item["role"] == sent["role"])
    };
    ensure(sent.all(kept), || "a message is kept otherwise than it was sent".into())
}

/// The suspended turn took no time: with time paused, a wait for the signal inside the turn would let time pass.
fn no_time_passed(evidence: &InvariantEvidence) -> Result<(), String> {
    let turned = &evidence.talked.turns[turn_position(evidence, "suspended")?];
    ensure(turned.took.is_zero(), || format!("the turn took {:?}", turned.took))
}

/// The pending message is in the state that the suspending node received, and it is kept afterwards.
fn pending_message_is_kept(evidence: &InvariantEvidence) -> Result<(), String> {
    let turned = &evidence.talked.turns[turn_position(evidence, "suspended")?];
    let ChatTurnOutcome::Suspended(outcome) = turned.outcome.as_ref() else {
        return Err("not suspended".into());
    };
    let pending = outcome.pending_messages.last().ok_or("no message is pending")?;
    let pending = serde_json::to_value(pending.as_ref()).map_err(|error| error.to_string())?;
    let gate = turned.reel.visits.last().ok_or("nothing ran")?;
    let seen = gate
        .pre_state
        .get("messages")
        .and_then(Value::as_array)
        .is_some_and(|value| value.contains(&pending));
    ensure(seen, || "the suspending node did not see it".into())?;
    ensure(turned.after.0.contains(&pending), || "it is not kept".into())
}

fn listeners_fired_once(evidence: &InvariantEvidence) -> Result<(), String> {
    let talked = &evidence.talked;
    let count: usize = talked.heard.values().map(Vec::len).sum();
    let wanted = talked.arrivals * talked.heard.len();
    ensure(wanted > 0 && count == wanted, || format!("{} resumed turns, {count} calls", talked.arrivals))
}

fn next_send_is_its_own_turn(evidence: &InvariantEvidence) -> Result<(), String> {
    let next = evidence.talked.next.as_ref().ok_or("nobody sent again")?;
    let mut heard = evidence.talked.heard.values().flatten().peekable();
    ensure(heard.peek().is_some(), || "nobody heard of the resumed turn".into())?;
    ensure(heard.all(|it| it.turn_id() != next.turn_id()), || {
        "the next send returned the resumed turn".into()
    })?;
    let resumed = evidence.talked.heard.values().flatten().filter_map(|it| match it.as_ref() {
        ChatTurnOutcome::Completed(it) => Some(it.replies.as_slice()),
        ChatTurnOutcome::Suspended(_) | ChatTurnOutcome::Errored(_) => None,
    });
    let replies: Vec<_> = resumed.flatten().collect();
    let told = match next.as_ref() {
        ChatTurnOutcome::Completed(it) => it.replies.iter().filter(|reply| replies.contains(reply)).count(),
        ChatTurnOutcome::Suspended(it) => {
            it.pending_messages.iter().filter(|pending_message| replies.contains(pending_message)).count()
        }
        ChatTurnOutcome::Errored(it) => return Err(format!("the next send failed: {}", it.error_category)),
    };
    ensure(told == 0, || "the next send brings the resumed turn's replies".into())
}

fn graph_not_invoked(evidence: &InvariantEvidence) -> Result<(), String> {
    let turned = last_turn(evidence)?;
    ensure(turned.reel.visits.is_empty(), || "a node ran".into())
}

/// The history before the failed turn equals the history after it.
fn history_unchanged(evidence: &InvariantEvidence) -> Result<(), String> {
    let turned = &evidence.talked.turns[turn_position(evidence, "errored")?];
    ensure(turned.before == turned.after, || format!("the history became {:?}", turned.after))
}

fn journal_untouched(evidence: &InvariantEvidence) -> Result<(), String> {
    let calls = last_turn(evidence)?.calls;
    ensure(calls == 0, || format!("the journal was called {calls} times"))
}
