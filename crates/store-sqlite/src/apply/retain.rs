//! Removes turns, with the rows that belong to them alone, and events.

use crate::column;
use crate::error::{BatchFailure, refuse_batch};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{pack_row_key, session_key_range, to_packed_bound, to_query_bound};

/// Removes a turn whose invocation is over, with its waits, its records and those of its items that have no place.
pub(super) fn remove_turn(
    scribe: &WriteTransaction<'_>,
    session: Option<i64>,
    no: u64,
) -> Result<(), BatchFailure> {
    let Some(id) = session else { return Ok(()) };
    let key = BoundValue::Int(pack_row_key(id, no)?);
    let of = "SELECT invocation, message FROM turn WHERE id = ?";
    let found = scribe.query_one_row(of, &[key], |row| {
        Ok((row.get::<_, String>(0)?, column::read_optional_number(row, 1)?))
    })?;
    let Some((invocation, message)) = found else { return Ok(()) };
    let (session, turn, invocation) =
        (BoundValue::Int(id), BoundValue::Int(to_query_bound(no)), BoundValue::Text(&invocation));
    for sql in IN_USE {
        if scribe.query_one_row(sql, &[session, invocation], |row| row.get::<_, i64>(0))?.is_some() {
            return refuse_batch(format!("the invocation of turn {no} is over"));
        }
    }
    scribe.execute_write(WAITS, &[session, turn, invocation])?;
    for sql in FORGET {
        scribe.execute_write(sql, &[session, turn])?;
    }
    if let Some(message) = message {
        scribe.execute_write(MESSAGE, &[pack_row_key(id, message)?.into(), turn])?;
    }
    scribe.execute_write("DELETE FROM turn WHERE id = ?", &[key])?;
    Ok(())
}

/// Queries for a reason why an invocation is not over: an open turn or a pending wait.
const IN_USE: [&str; 2] = [
    "SELECT no FROM turn WHERE session = ? AND status = 'accepted' AND invocation = ? LIMIT 1",
    "SELECT no FROM wait WHERE session = ? AND status = 'pending' AND invocation = ? LIMIT 1",
];

/// The waits that a turn made; the first comparison is that of the index.
const WAITS: &str = "DELETE FROM wait WHERE substr(invocation, -12) = substr(?3, -12) AND session = ?1 \
    AND turn = ?2 AND invocation = ?3";

/// The message that a turn answers, as long as it is in no list.
const MESSAGE: &str = "DELETE FROM item WHERE id = ? AND turn = ? AND seq IS NULL";

/// Deletions of the rows that belong to a turn alone.
const FORGET: [&str; 2] = [
    "DELETE FROM record WHERE session = ? AND turn = ?",
    "DELETE FROM item WHERE session = ? AND turn = ? AND loose IS NOT NULL",
];

/// Removes the events with a lower sequence number.
pub(super) fn remove_events_before(
    scribe: &WriteTransaction<'_>,
    session: Option<i64>,
    before: u64,
) -> Result<(), BatchFailure> {
    let Some(session) = session else { return Ok(()) };
    let first = session_key_range(session).0;
    scribe.execute_write(
        "DELETE FROM event WHERE id >= ? AND id < ?",
        &[first.into(), (first + to_packed_bound(before)).into()],
    )?;
    Ok(())
}
