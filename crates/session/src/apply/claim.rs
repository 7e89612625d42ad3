//! A wait is answered: in one commit it is consumed and the turn that resumes is accepted (INV-7).

use singletree_durable::{
    BatchPrecondition, JsonDocument, RowMutation, StoredTurnKind, StoredTurnStatus, StoredWaitStatus,
    Timestamp, TurnRow, WaitRow,
};

use singletree_env::TraceHeaders;

use crate::Error;
use crate::batch::{BatchBuilder, TurnIdentity};
use crate::codec::record::TurnRowExt;
use crate::codec::telemetry::StoredTrace;
use crate::event::ChatEventKind;
use crate::{PendingAnswer, WaitChange};

/// Makes the row of the turn that the end of a wait starts.
pub fn next_turn_row(
    writing: &mut BatchBuilder,
    suspended: &TurnRow,
    wait: &WaitRow,
    kind: StoredTurnKind,
) -> TurnRow {
    let no = writing.counters.turns;
    writing.counters.turns += 1;
    TurnRow {
        no,
        ordinal: suspended.ordinal + 1,
        kind,
        status: StoredTurnStatus::Accepted,
        fence: writing.batch.fence,
        deaths: 0,
        message: None,
        wait: Some(wait.no),
        key: None,
        digest: None,
        accepted_at: writing.now,
        ended_at: None,
        outcome: None,
        retries: None,
        ..suspended.clone()
    }
}

/// Returns the wait as it is stored then.
///
/// # Errors
/// `chat_signal_expired` for an answer at or after the deadline, by the time that the transition records (D37).
pub fn claim_wait(
    writing: &mut BatchBuilder,
    row: &TurnRow,
    wait: &WaitRow,
    answering: &PendingAnswer,
    trace: Option<&TraceHeaders>,
) -> Result<WaitRow, Error> {
    if !answering.expired && is_wait_due(wait, writing.now) {
        return Err(Error::SignalExpired { signal: wait.signal.clone() });
    }
    writing.require(BatchPrecondition::Wait { no: wait.no, status: StoredWaitStatus::Pending });
    Ok(consume_wait(writing, row, wait, answering, trace))
}

/// Tells whether the deadline of a wait has come.
pub(crate) fn is_wait_due(wait: &WaitRow, now: Timestamp) -> bool {
    wait.deadline.is_some_and(|deadline| deadline <= now)
}

/// Writes that a wait is answered, and the turn that this starts.
pub(crate) fn consume_wait(
    writing: &mut BatchBuilder,
    row: &TurnRow,
    wait: &WaitRow,
    answering: &PendingAnswer,
    trace: Option<&TraceHeaders>,
) -> WaitRow {
    let status = if answering.expired { StoredWaitStatus::Expired } else { StoredWaitStatus::Consumed };
    let answer = serde_json::Value::Object(answering.payload.clone());
    let consumed = WaitRow {
        status,
        ended_by: Some(row.no),
        answer: Some(JsonDocument::from(&answer)),
        answered_by: answering.from.clone(),
        ended_at: Some(writing.now),
        ..wait.clone()
    };
    writing.add_mutation(RowMutation::Wait(consumed.clone()));
    writing.landed.wait = WaitChange::Ends;
    writing.add_mutation(RowMutation::Turn(row.clone()));
    let author = TurnIdentity { no: row.no, id: row.turn_id() };
    announce_wait_end(writing, &author, &consumed, trace);
    consumed
}

/// Tells how a wait ended, in the first event of the turn that this starts, which holds the trace of its invocation.
pub(crate) fn announce_wait_end(
    writing: &mut BatchBuilder,
    author: &TurnIdentity,
    wait: &WaitRow,
    trace: Option<&TraceHeaders>,
) {
    write_signal_event(writing, author, (wait, name_wait_end(wait.status)), trace);
}

/// Tells that an early signal cannot end its wait, which goes on.
pub(crate) fn announce_signal_refusal(writing: &mut BatchBuilder, author: &TurnIdentity, wait: &WaitRow) {
    write_signal_event(writing, author, (wait, "refused"), None);
}

fn write_signal_event(
    writing: &mut BatchBuilder,
    author: &TurnIdentity,
    (wait, how): (&WaitRow, &'static str),
    trace: Option<&TraceHeaders>,
) {
    let from = wait.answered_by.clone();
    let mut body = serde_json::json!({ "wait": wait.no, "signal": wait.signal, "how": how, "from": from });
    if let Some(trace) = trace.and_then(StoredTrace::to_json) {
        body[StoredTrace::FIELD] = trace;
    }
    let what = ChatEventKind::SignalReceived { wait: wait.no, signal: wait.signal.clone(), how, from };
    writing.add_event(author, None, Some(JsonDocument::from(&body)), what);
}

/// Returns the word for how a wait ended.
fn name_wait_end(status: StoredWaitStatus) -> &'static str {
    match status {
        StoredWaitStatus::Pending | StoredWaitStatus::Consumed => "consumed",
        StoredWaitStatus::Cancelled => "cancelled",
        StoredWaitStatus::Expired => "expired",
    }
}
