//! Waits, and signals that came before them.

use rusqlite::{Connection, Result, Row, params};
use singletree_durable::{EarlySignalRow, SessionKey, Timestamp, WaitRow, WaitRowQuery};

use super::{query_rows_by_index, query_rows_by_sweep};
use crate::column;
use crate::number::to_query_bound;

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
pub(crate) fn read_waits(
    connection: &Connection,
    query: &WaitRowQuery,
) -> Result<Vec<(SessionKey, WaitRow)>> {
    match query {
        WaitRowQuery::Pending(key) => {
            let params = params![key.tenant.as_str(), key.session.as_str()];
            query_rows_by_index(connection, within!("w.status = 'pending'"), params, wait_from_row)
        }
        WaitRowQuery::PendingOf(tenant, limit) => query_rows_by_sweep(
            connection,
            across!("wait_due", "w.status = 'pending' AND s.tenant = ? ORDER BY s.session, w.no LIMIT ?"),
            params![tenant.as_str(), to_query_bound(*limit)],
            wait_from_row,
        ),
        WaitRowQuery::Signal(key, signal) => {
            let params = params![key.tenant.as_str(), key.session.as_str(), signal];
            query_rows_by_index(
                connection,
                within!("w.status IN ('pending', 'consumed', 'cancelled', 'expired') AND w.signal = ?"),
                params,
                wait_from_row,
            )
        }
        WaitRowQuery::SignalOf(tenant, signal, limit) => query_rows_by_sweep(
            connection,
            across!(
                "wait_due",
                "w.status = 'pending' AND w.signal = ? AND s.tenant = ? ORDER BY s.session, w.no LIMIT ?"
            ),
            params![signal, tenant.as_str(), to_query_bound(*limit)],
            wait_from_row,
        ),
        WaitRowQuery::Invocation(tenant, invocation) => query_rows_by_index(
            connection,
            across!(
                "wait_invocation",
                "substr(w.invocation, -12) = substr(?1, -12) AND +w.invocation = ?1 AND s.tenant = ?2 \
                 ORDER BY s.session, w.no"
            ),
            params![invocation.as_str(), tenant.as_str()],
            wait_from_row,
        ),
    }
}

/// Reads pending waits that have a deadline, the earliest first; those until a time, that time included.
pub(crate) fn read_waits_by_deadline(
    connection: &Connection,
    until: Option<Timestamp>,
    limit: u64,
) -> Result<Vec<(SessionKey, WaitRow)>> {
    query_rows_by_index(
        connection,
        across!(
            "wait_due",
            "w.status = 'pending' AND w.deadline <= ? ORDER BY w.deadline, s.tenant, s.session, w.no LIMIT ?"
        ),
        params![until.map_or(i64::MAX, Timestamp::as_millis), to_query_bound(limit)],
        wait_from_row,
    )
}

/// Reads the early signals that a session keeps.
pub(crate) fn read_early_signals(connection: &Connection, key: &SessionKey) -> Result<Vec<EarlySignalRow>> {
    query_rows_by_index(
        connection,
        "SELECT m.signal, m.payload, m.sent_by, m.at FROM session s JOIN mail m ON m.session = s.id \
         WHERE s.tenant = ? AND s.session = ? ORDER BY m.signal",
        params![key.tenant.as_str(), key.session.as_str()],
        |row| {
            Ok(EarlySignalRow {
                signal: row.get(0)?,
                payload: column::read_json(row, 1)?,
                from: row.get(2)?,
                at: column::read_time(row, 3)?,
            })
        },
    )
}

fn wait_from_row(row: &Row<'_>) -> Result<(SessionKey, WaitRow)> {
    let wait = WaitRow {
        no: column::read_number(row, 2)?,
        signal: row.get(3)?,
        invocation: column::read_invocation_id(row, 4)?,
        turn: column::read_number(row, 5)?,
        status: column::read_keyword(row, 6)?,
        metadata: column::read_optional_json(row, 7)?,
        action: row.get(8)?,
        deadline: column::read_optional_time(row, 9)?,
        payload_schema: column::read_optional_json(row, 10)?,
        on_deadline: column::read_optional_json(row, 11)?,
        created_at: column::read_time(row, 12)?,
        ended_by: column::read_optional_number(row, 13)?,
        answer: column::read_optional_json(row, 14)?,
        answered_by: row.get(15)?,
        ended_at: column::read_optional_time(row, 16)?,
    };
    Ok((column::read_session_key(row, 0)?, wait))
}
