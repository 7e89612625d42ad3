//! Puts of waits, and of signals that came before them.

use singletree_durable::{EarlySignalRow, WaitRow};

use crate::checksum;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{pack_row_key, to_stored_number, to_stored_optional};
use crate::word::ColumnKeyword;

/// Writes a wait, whatever stood there.
pub(super) fn put_wait(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &WaitRow,
) -> Result<(), BatchFailure> {
    let values = [
        BoundValue::Int(pack_row_key(session, row.no)?),
        (&row.signal).into(),
        row.invocation.as_str().into(),
        to_stored_number(row.turn)?.into(),
        row.status.to_keyword().into(),
        row.metadata.as_ref().into(),
        row.action.as_ref().into(),
        row.deadline.into(),
        row.payload_schema.as_ref().into(),
        row.on_deadline.as_ref().into(),
        row.created_at.into(),
        to_stored_optional(row.ended_by)?.into(),
        row.answer.as_ref().into(),
        row.answered_by.as_ref().into(),
        row.ended_at.into(),
    ];
    let checksum =
        checksum::checksum_of_parts(&[
            &[&[BoundValue::Int(to_stored_number(row.no)?)], &values[1..]].concat()
        ]);
    scribe.execute_write(PUT, &[values.as_slice(), &[checksum]].concat()).map(drop)
}

const PUT: &str = "INSERT INTO wait (id, signal, invocation, turn, status, metadata, action, deadline, \
    payload_schema, on_deadline, created_at, ended_by, answer, answered_by, ended_at, checksum) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
    ON CONFLICT (id) DO UPDATE SET signal = excluded.signal, invocation = excluded.invocation, \
    turn = excluded.turn, status = excluded.status, metadata = excluded.metadata, action = excluded.action, \
    deadline = excluded.deadline, payload_schema = excluded.payload_schema, \
    on_deadline = excluded.on_deadline, created_at = excluded.created_at, ended_by = excluded.ended_by, \
    answer = excluded.answer, answered_by = excluded.answered_by, ended_at = excluded.ended_at, checksum = excluded.checksum";

/// Keeps an early signal, whatever was kept of its id.
pub(super) fn put_early_signal(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &EarlySignalRow,
) -> Result<(), BatchFailure> {
    let values: [BoundValue<'_>; 4] =
        [(&row.signal).into(), (&row.payload).into(), row.from.as_ref().into(), row.at.into()];
    let [signal, payload, from, at] = values;
    let sql = "INSERT INTO mail (session, signal, payload, sent_by, at, checksum) VALUES (?, ?, ?, ?, ?, ?) \
         ON CONFLICT (session, signal) DO UPDATE SET payload = excluded.payload, sent_by = excluded.sent_by, \
         at = excluded.at, checksum = excluded.checksum";
    scribe
        .execute_write(
            sql,
            &[session.into(), signal, payload, from, at, checksum::checksum_of_parts(&[&values])],
        )
        .map(drop)
}

/// Removes the early signal of an id, if there is one.
pub(super) fn remove_early_signal(
    scribe: &WriteTransaction<'_>,
    session: Option<i64>,
    signal: &str,
) -> Result<(), BatchFailure> {
    let Some(session) = session else { return Ok(()) };
    scribe.execute_write(
        "DELETE FROM mail WHERE session = ? AND signal = ?",
        &[session.into(), signal.into()],
    )?;
    Ok(())
}
