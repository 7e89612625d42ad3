//! The end of the log after a commit that failed (D38).
//!
//! A commit writes its frames to the log before it syncs them. When the sync fails, SQLite forgets the frames and the
//! log keeps them: a process that opens the file after this one has died takes them for committed. So they are replaced
//! at once, by a commit that begins in the same place. Each frame carries a checksum over all frames before it, so that
//! the frames behind the replaced one count no more. As long as that fails the connection is kept, since a new one
//! might read the log from its beginning, and nothing else is written.

use rusqlite::Connection;

use crate::meter::run_control_statement;
use crate::{CommitDurability, open};

/// The end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventLogTail {
    /// It contains successful commits only.
    Sound,
    /// It may hold a commit that failed.
    InDoubt,
}

/// Replaces the remains of a failed commit at the end of the log, and syncs the replacement at every durability.
pub(crate) fn replace_failed_commit(
    connection: &Connection,
    durability: CommitDurability,
) -> rusqlite::Result<()> {
    if !connection.is_autocommit() {
        run_control_statement(connection, "ROLLBACK")?;
    }
    open::set_durability(connection, CommitDurability::Full)?;
    // No batch writes this row, so that the first frame differs from the one that it replaces.
    let replaced = connection.execute("UPDATE meta SET failed_commits = failed_commits + 1", []);
    if !connection.is_autocommit() {
        run_control_statement(connection, "ROLLBACK")?;
    }
    open::set_durability(connection, durability)?;
    replaced.map(drop)
}
