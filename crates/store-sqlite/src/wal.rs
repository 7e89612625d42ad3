//! The log beside the file.

use std::time::Duration;

use rusqlite::Connection;

use crate::open;

/// Folds the log into the file, without waiting for readers.
pub(crate) fn try_empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let emptied = empty_log(connection);
    connection.busy_timeout(open::BUSY)?;
    emptied
}

/// Folds the log into the file. False when a reader was in the way.
pub(crate) fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}
