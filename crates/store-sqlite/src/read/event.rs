//! Events.

use rusqlite::{Connection, Result, params};
use singletree_durable::{EventRow, SessionKey};

use super::all;
use crate::column;
use crate::number::bound;

/// Reads events from a sequence number on.
pub(crate) fn from(
    connection: &Connection,
    key: &SessionKey,
    from: u64,
    limit: u64,
) -> Result<Vec<EventRow>> {
    all(
        connection,
        "SELECT e.seq, e.turn, n.text, e.item, e.at, e.body FROM session s \
         JOIN event e ON e.session = s.id JOIN name n ON n.id = e.kind \
         WHERE s.tenant = ? AND s.session = ? AND e.seq >= ? ORDER BY e.seq LIMIT ?",
        params![key.tenant.as_str(), key.session.as_str(), bound(from), bound(limit)],
        |row| {
            Ok(EventRow {
                seq: column::number(row, 0)?,
                turn: column::number(row, 1)?,
                kind: row.get(2)?,
                item: column::number_opt(row, 3)?,
                at: column::time(row, 4)?,
                body: column::json_opt(row, 5)?,
            })
        },
    )
}
