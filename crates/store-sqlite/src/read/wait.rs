//! Waits, and signals that came before them.

use rusqlite::{Connection, Result, Row, params};
use singletree_durable::{EarlySignalRow, SessionKey, Timestamp, WaitRow, WaitRowQuery};

use super::{all, sweep};
use crate::column;
use crate::number::bound;

macro_rules! columns {
    () => {
        "SELECT s.tenant, s.session, w.no, w.signal, w.invocation, w.turn, w.status, w.metadata, w.action, \
         w.deadline, w.payload_schema, w.on_deadline, w.created_at, w.ended_by, w.answer, w.answered_by, \
         w.ended_at "
    };
}

/// Of one session.
macro_rules! within {
    ($rest:literal) => {
        concat!(
            columns!(),
            "FROM session s CROSS JOIN wait w INDEXED BY wait_state ON w.session = s.id WHERE s.tenant = ? AND s.session = ? AND ",
            $rest,
            " ORDER BY w.no"
        )
    };
}

/// Across sessions: through an index of the waits, never through the sessions.
macro_rules! across {
    ($index:literal, $rest:literal) => {
        concat!(
            columns!(),
            "FROM wait w INDEXED BY ",
            $index,
            " CROSS JOIN session s ON s.id = w.session WHERE ",
            $rest
        )
    };
}

/// Reads waits.
pub(crate) fn of(connection: &Connection, query: &WaitRowQuery) -> Result<Vec<(SessionKey, WaitRow)>> {
    match query {
        WaitRowQuery::Pending(key) => {
            let params = params![key.tenant.as_str(), key.session.as_str()];
            all(connection, within!("w.status = 'pending'"), params, wait)
        }
        WaitRowQuery::PendingOf(tenant, limit) => sweep(
            connection,
            across!("wait_due", "w.status = 'pending' AND s.tenant = ? ORDER BY s.session, w.no LIMIT ?"),
            params![tenant.as_str(), bound(*limit)],
            wait,
        ),
        WaitRowQuery::Signal(key, signal) => {
            let params = params![key.tenant.as_str(), key.session.as_str(), signal];
            all(
                connection,
                within!("w.status IN ('pending', 'consumed', 'cancelled', 'expired') AND w.signal = ?"),
                params,
                wait,
            )
        }
        WaitRowQuery::SignalOf(tenant, signal, limit) => sweep(
            connection,
            across!(
                "wait_due",
                "w.status = 'pending' AND w.signal = ? AND s.tenant = ? ORDER BY s.session, w.no LIMIT ?"
            ),
            params![signal, tenant.as_str(), bound(*limit)],
            wait,
        ),
        WaitRowQuery::Invocation(tenant, invocation) => all(
            connection,
            across!(
                "wait_invocation",
                "substr(w.invocation, -12) = substr(?1, -12) AND +w.invocation = ?1 AND s.tenant = ?2 \
                 ORDER BY s.session, w.no"
            ),
            params![invocation.as_str(), tenant.as_str()],
            wait,
        ),
    }
}

/// Reads pending waits that have a deadline, the earliest first; those until a time, that time included.
pub(crate) fn deadlines(
    connection: &Connection,
    until: Option<Timestamp>,
    limit: u64,
) -> Result<Vec<(SessionKey, WaitRow)>> {
    all(
        connection,
        across!(
            "wait_due",
            "w.status = 'pending' AND w.deadline <= ? ORDER BY w.deadline, s.tenant, s.session, w.no LIMIT ?"
        ),
        params![until.map_or(i64::MAX, Timestamp::as_millis), bound(limit)],
        wait,
    )
}

/// Reads the early signals that a session keeps.
pub(crate) fn mail(connection: &Connection, key: &SessionKey) -> Result<Vec<EarlySignalRow>> {
    all(
        connection,
        "SELECT m.signal, m.payload, m.sent_by, m.at FROM session s JOIN mail m ON m.session = s.id \
         WHERE s.tenant = ? AND s.session = ? ORDER BY m.signal",
        params![key.tenant.as_str(), key.session.as_str()],
        |row| {
            Ok(EarlySignalRow {
                signal: row.get(0)?,
                payload: column::json(row, 1)?,
                from: row.get(2)?,
                at: column::time(row, 3)?,
            })
        },
    )
}

fn wait(row: &Row<'_>) -> Result<(SessionKey, WaitRow)> {
    let wait = WaitRow {
        no: column::number(row, 2)?,
        signal: row.get(3)?,
        invocation: column::invocation(row, 4)?,
        turn: column::number(row, 5)?,
        status: column::word(row, 6)?,
        metadata: column::json_opt(row, 7)?,
        action: row.get(8)?,
        deadline: column::time_opt(row, 9)?,
        payload_schema: column::json_opt(row, 10)?,
        on_deadline: column::json_opt(row, 11)?,
        created_at: column::time(row, 12)?,
        ended_by: column::number_opt(row, 13)?,
        answer: column::json_opt(row, 14)?,
        answered_by: row.get(15)?,
        ended_at: column::time_opt(row, 16)?,
    };
    Ok((column::key(row, 0)?, wait))
}
