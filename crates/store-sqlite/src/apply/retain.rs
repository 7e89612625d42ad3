//! What is not kept any more: turns with what is theirs alone, and events.

use crate::error::{Failure, refused};
use crate::meter::{Bind, Scribe};
use crate::number::bound;

/// Removes a turn whose invocation is over, with its waits, its records and those of its items that have no place.
pub(super) fn turn(scribe: &Scribe<'_>, session: Option<i64>, no: u64) -> Result<(), Failure> {
    let Some(session) = session else { return Ok(()) };
    let of = "SELECT invocation FROM turn WHERE session = ? AND no = ?";
    let (session, turn) = (Bind::Int(session), Bind::Int(bound(no)));
    let Some(invocation) = scribe.find(of, &[session, turn], |row| row.get::<_, String>(0))? else {
        return Ok(());
    };
    let invocation = Bind::Text(&invocation);
    for sql in IN_USE {
        if scribe.find(sql, &[session, invocation], |row| row.get::<_, i64>(0))?.is_some() {
            return refused(format!("the invocation of turn {no} is over"));
        }
    }
    scribe.write(
        "DELETE FROM wait WHERE session = ? AND turn = ? AND invocation = ?",
        &[session, turn, invocation],
    )?;
    for sql in FORGET {
        scribe.write(sql, &[session, turn])?;
    }
    Ok(())
}

/// What keeps an invocation from being over.
const IN_USE: [&str; 2] = [
    "SELECT no FROM turn WHERE session = ? AND status = 'accepted' AND invocation = ? LIMIT 1",
    "SELECT no FROM wait WHERE session = ? AND status = 'pending' AND invocation = ? LIMIT 1",
];

/// What goes with a turn, and the turn itself.
const FORGET: [&str; 3] = [
    "DELETE FROM record WHERE session = ? AND turn = ?",
    "DELETE FROM item WHERE session = ? AND turn = ? AND seq IS NULL",
    "DELETE FROM turn WHERE session = ? AND no = ?",
];

/// Removes the events with a lower sequence number.
pub(super) fn events(scribe: &Scribe<'_>, session: Option<i64>, before: u64) -> Result<(), Failure> {
    let Some(session) = session else { return Ok(()) };
    scribe
        .write("DELETE FROM event WHERE session = ? AND seq < ?", &[session.into(), bound(before).into()])?;
    Ok(())
}
