//! Puts of the rows that unfinished invocations need: positions, and records of facts that are not committed yet.

use singletree_durable::{InvocationId, PositionRow, RecordRow};

use crate::checksum;
use crate::error::Failure;
use crate::meter::{Bind, Scribe};
use crate::number::{bound, stored};

/// Writes where an invocation stands, whatever stood there.
pub(super) fn put(scribe: &Scribe<'_>, session: i64, row: &PositionRow) -> Result<(), Failure> {
    let values = [Bind::from(row.invocation.as_str()), stored(row.turn)?.into(), (&row.body).into()];
    let [invocation, turn, body] = values;
    let sql = "INSERT INTO position (session, invocation, turn, body, checksum) VALUES (?, ?, ?, ?, ?) \
        ON CONFLICT (session, invocation) DO UPDATE SET turn = excluded.turn, body = excluded.body, \
        checksum = excluded.checksum";
    scribe.write(sql, &[session.into(), invocation, turn, body, checksum::of(&[&values])]).map(drop)
}

/// Removes the position of an invocation, if there is one.
pub(super) fn remove(
    scribe: &Scribe<'_>,
    session: Option<i64>,
    invocation: &InvocationId,
) -> Result<(), Failure> {
    let Some(session) = session else { return Ok(()) };
    let values = [session.into(), invocation.as_str().into()];
    scribe.write("DELETE FROM position WHERE session = ? AND invocation = ?", &values)?;
    Ok(())
}

/// Writes a record, whatever stood there.
pub(super) fn put_record(scribe: &Scribe<'_>, session: i64, row: &RecordRow) -> Result<(), Failure> {
    let values: [Bind<'_>; 3] = [stored(row.turn)?.into(), (&row.name).into(), (&row.body).into()];
    let [turn, name, body] = values;
    let sql = "INSERT INTO record (session, turn, name, body, checksum) VALUES (?, ?, ?, ?, ?) \
        ON CONFLICT (session, turn, name) DO UPDATE SET body = excluded.body, checksum = excluded.checksum";
    scribe.write(sql, &[session.into(), turn, name, body, checksum::of(&[&values])]).map(drop)
}

/// Removes all records of a turn.
pub(super) fn remove_records(scribe: &Scribe<'_>, session: Option<i64>, turn: u64) -> Result<(), Failure> {
    let Some(session) = session else { return Ok(()) };
    let values = [session.into(), bound(turn).into()];
    scribe.write("DELETE FROM record WHERE session = ? AND turn = ?", &values)?;
    Ok(())
}
