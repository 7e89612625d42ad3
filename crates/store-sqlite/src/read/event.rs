//! Events.

use rusqlite::{Connection, Result, params};
use singletree_durable::{EventRow, SessionKey};

use super::all;
use crate::column;
use crate::number::{bound, within};

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
         CROSS JOIN event e ON e.id >= (s.id << 32) + ?3 AND e.id < (s.id + 1) << 32 \
         CROSS JOIN name n ON n.id = e.kind WHERE s.tenant = ?1 AND s.session = ?2 ORDER BY e.id LIMIT ?4",
        params![key.tenant.as_str(), key.session.as_str(), within(from), bound(limit)],
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
