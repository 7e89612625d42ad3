//! Positions and records.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use singletree_durable::{InvocationId, PositionRow, RecordRow, SessionKey};

use super::query_rows_by_index;
use crate::column;
use crate::number::to_query_bound;

/// Reads where an invocation stands.
pub(crate) fn read_position(
    connection: &Connection,
    key: &SessionKey,
    invocation: &InvocationId,
) -> Result<Option<PositionRow>> {
    connection
        .prepare_cached(
            "SELECT p.invocation, p.turn, p.body FROM session s JOIN position p ON p.session = s.id \
             WHERE s.tenant = ? AND s.session = ? AND p.invocation = ?",
        )?
        .query_row(params![key.tenant.as_str(), key.session.as_str(), invocation.as_str()], position_from_row)
        .optional()
}

/// Reads all positions of a session, ordered by invocation.
pub(crate) fn read_positions(connection: &Connection, key: &SessionKey) -> Result<Vec<PositionRow>> {
    query_rows_by_index(
        connection,
        "SELECT p.invocation, p.turn, p.body FROM session s JOIN position p ON p.session = s.id \
         WHERE s.tenant = ? AND s.session = ? ORDER BY p.invocation",
        params![key.tenant.as_str(), key.session.as_str()],
        position_from_row,
    )
}

fn position_from_row(row: &Row<'_>) -> Result<PositionRow> {
    Ok(PositionRow {
        invocation: column::read_invocation_id(row, 0)?,
        turn: column::read_number(row, 1)?,
        body: column::read_json(row, 2)?,
    })
}

/// Reads the records of a turn, ordered by name.
pub(crate) fn read_turn_records(
    connection: &Connection,
    key: &SessionKey,
    turn: u64,
) -> Result<Vec<RecordRow>> {
    query_rows_by_index(
        connection,
        "SELECT r.turn, r.name, r.body FROM session s JOIN record r ON r.session = s.id \
         WHERE s.tenant = ? AND s.session = ? AND r.turn = ? ORDER BY r.name",
        params![key.tenant.as_str(), key.session.as_str(), to_query_bound(turn)],
        |row| {
            Ok(RecordRow {
                turn: column::read_number(row, 0)?,
                name: row.get(1)?,
                body: column::read_json(row, 2)?,
            })
        },
    )
}
