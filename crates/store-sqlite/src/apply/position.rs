//! Puts of the rows that unfinished invocations need: positions, and records of facts that are not committed yet.

use singletree_durable::{InvocationId, PositionRow, RecordRow};

use crate::checksum;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{to_query_bound, to_stored_number};

/// Writes where an invocation stands, whatever stood there.
pub(super) fn put_position(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &PositionRow,
) -> Result<(), BatchFailure> {
    let values =
        [BoundValue::from(row.invocation.as_str()), to_stored_number(row.turn)?.into(), (&row.body).into()];
    let [invocation, turn, body] = values;
    let sql = "INSERT INTO position (session, invocation, turn, body, checksum) VALUES (?, ?, ?, ?, ?) \
        ON CONFLICT (session, invocation) DO UPDATE SET turn = excluded.turn, body = excluded.body, \
        checksum = excluded.checksum";
    scribe
        .execute_write(
            sql,
            &[session.into(), invocation, turn, body, checksum::checksum_of_parts(&[&values])],
        )
        .map(drop)
}

/// Removes the position of an invocation, if there is one.
pub(super) fn remove_position(
    scribe: &WriteTransaction<'_>,
    session: Option<i64>,
    invocation: &InvocationId,
) -> Result<(), BatchFailure> {
    let Some(session) = session else { return Ok(()) };
    let values = [session.into(), invocation.as_str().into()];
    scribe.execute_write("DELETE FROM position WHERE session = ? AND invocation = ?", &values)?;
    Ok(())
}

/// Writes a record, whatever stood there.
pub(super) fn put_record(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &RecordRow,
) -> Result<(), BatchFailure> {
    let values: [BoundValue<'_>; 3] =
        [to_stored_number(row.turn)?.into(), (&row.name).into(), (&row.body).into()];
    let [turn, name, body] = values;
    let sql = "INSERT INTO record (session, turn, name, body, checksum) VALUES (?, ?, ?, ?, ?) \
        ON CONFLICT (session, turn, name) DO UPDATE SET body = excluded.body, checksum = excluded.checksum";
    scribe
        .execute_write(sql, &[session.into(), turn, name, body, checksum::checksum_of_parts(&[&values])])
        .map(drop)
}

/// Removes all records of a turn.
pub(super) fn remove_records(
    scribe: &WriteTransaction<'_>,
    session: Option<i64>,
    turn: u64,
) -> Result<(), BatchFailure> {
    let Some(session) = session else { return Ok(()) };
    let values = [session.into(), to_query_bound(turn).into()];
    scribe.execute_write("DELETE FROM record WHERE session = ? AND turn = ?", &values)?;
    Ok(())
}
