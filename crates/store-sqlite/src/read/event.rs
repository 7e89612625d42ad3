//! Events.

use rusqlite::{Connection, Result, params};
use singletree_durable::{EventRow, SessionKey};

use super::query_rows_by_index;
use crate::column;
use crate::number::{to_packed_bound, to_query_bound};

/// Reads events from a sequence number on.
pub(crate) fn read_events(
    connection: &Connection,
    key: &SessionKey,
    from: u64,
    limit: u64,
) -> Result<Vec<EventRow>> {
    query_rows_by_index(
        connection,
        "SELECT e.seq, e.turn, n.text, e.item, e.at, e.body FROM session s \
         CROSS JOIN event e ON e.id >= (s.id << 32) + ?3 AND e.id < (s.id + 1) << 32 \
         CROSS JOIN name n ON n.id = e.kind WHERE s.tenant = ?1 AND s.session = ?2 ORDER BY e.id LIMIT ?4",
        params![key.tenant.as_str(), key.session.as_str(), to_packed_bound(from), to_query_bound(limit)],
        |row| {
            Ok(EventRow {
                seq: column::read_number(row, 0)?,
                turn: column::read_number(row, 1)?,
                kind: row.get(2)?,
                item: column::read_optional_number(row, 3)?,
                at: column::read_time(row, 4)?,
                body: column::read_optional_json(row, 5)?,
            })
        },
    )
}
