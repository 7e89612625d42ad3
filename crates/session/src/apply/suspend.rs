//! A node suspends: session, wait and position land together or not at all (suspension §8.6).

use std::sync::Arc;

use singletree_durable::{
    BatchPrecondition, JsonDocument, RowMutation, StoredTurnKind, StoredTurnStatus, StoredWaitStatus, WaitRow,
};
use singletree_graph::{Deadline, PausedRun, SessionState};

use super::claim;
use super::step::write_position;
use crate::Error;
use crate::batch::BatchBuilder;
use crate::codec::record::{OutcomeRecord, TurnRowExt, decode_wait_terms};
use crate::early_signals::{ConsumedSignal, SignalMailbox};
use crate::outcome::{ChatTurnOutcome, SuspendedTurn};
use crate::turn::{TurnState, history_of_state, messages_from};
use crate::{PendingAnswer, WaitChange};

/// Returns the outcome. Afterwards the session waits for a signal; if the signal arrived early, the turn that resumes
/// runs next (D2).
pub fn suspend_turn(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    paused: &PausedRun,
    session: Option<&SessionState>,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    let messages = paused.progress.frames.first().map(history_of_state).unwrap_or_default();
    turning.announce_messages(writing, &messages)?;
    if let Some(session) = session {
        turning.write_session(writing, session)?;
    }
    let wait = new_wait_row(writing, turning, paused);
    turning.bounds.check_wait(&wait)?;
    let early = take_early_signal(writing, turning, &wait, paused)?;
    let next = early
        .map(|early| (claim::next_turn_row(writing, &turning.row, &wait, StoredTurnKind::Resume), early));
    let pending_messages = messages_from(&messages, turning.marks.boundary)?;
    let tail = turning.reply_range(messages.len());
    // The tail of the turn that resumes begins where this one's ends (R14).
    turning.marks.first = messages.len();
    turning.marks.boundary = messages.len();
    turning.end_taken_turns(writing, None)?;
    write_position(writing, turning, &paused.progress, Some(paused.descriptor.clone()))?;
    let outcome = Arc::new(ChatTurnOutcome::Suspended(SuspendedTurn {
        turn: turning.row.turn_id(),
        signal_descriptor: paused.descriptor.clone(),
        pending_messages,
        invocation_id: turning.row.invocation.clone(),
        wait: decode_wait_terms(&wait)?,
        path: turning.path,
        resumed_by: next.as_ref().map(|(row, _)| row.turn_id()),
    }));
    turning.write_turn_end(writing, &OutcomeRecord::Suspended { tail, wait: wait.no }, outcome.clone())?;
    match next {
        Some((row, answering)) => {
            claim::consume_wait(writing, &row, &wait, &answering, turning.trace.as_deref());
            writing.landed.resumes = Some(row);
        }
        None => {
            writing.add_mutation(RowMutation::Wait(wait.clone()));
            writing.landed.wait = WaitChange::Begins(wait.into());
        }
    }
    Ok(outcome)
}

/// Takes the signal that has come already, if one has and it fits; tells of one that does not.
fn take_early_signal(
    writing: &mut BatchBuilder,
    turning: &TurnState,
    wait: &WaitRow,
    paused: &PausedRun,
) -> Result<Option<PendingAnswer>, Error> {
    let Some(ConsumedSignal { from, payload }) = SignalMailbox::take_for_wait(writing, wait, paused)? else {
        return Ok(None);
    };
    match payload {
        Ok(payload) => Ok(Some(PendingAnswer { wait: wait.no, payload, from, expired: false })),
        Err(_) => {
            let refused = WaitRow { answered_by: from, ..wait.clone() };
            claim::announce_signal_refusal(writing, &turning.turn_identity(), &refused);
            Ok(None)
        }
    }
}

fn new_wait_row(writing: &mut BatchBuilder, turning: &TurnState, paused: &PausedRun) -> WaitRow {
    let no = writing.counters.waits;
    writing.counters.waits += 1;
    let deadline = paused.terms.deadline.map(|deadline| match deadline {
        Deadline::In(span) => writing.now.saturating_add(span),
        Deadline::At(time) => time,
    });
    let on_deadline = paused.terms.on_deadline.clone().map(serde_json::Value::Object);
    WaitRow {
        no,
        signal: paused.descriptor.signal_id.clone(),
        invocation: turning.row.invocation.clone(),
        turn: turning.row.no,
        status: StoredWaitStatus::Pending,
        metadata: paused.descriptor.metadata.as_ref().map(JsonDocument::from),
        action: paused.terms.action.clone(),
        deadline,
        payload_schema: paused.terms.payload_schema.as_ref().map(JsonDocument::from),
        on_deadline: on_deadline.as_ref().map(JsonDocument::from),
        created_at: writing.now,
        ended_by: None,
        answer: None,
        answered_by: None,
        ended_at: None,
    }
}
