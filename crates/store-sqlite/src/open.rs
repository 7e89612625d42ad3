//! Opens connections, with every setting written out.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use singletree_durable::Result;

use crate::CommitDurability;
use crate::error::{translate_error, unavailable_error};
use crate::format;
use crate::lock::private_file_options;

/// How long a connection waits for a lock of another process.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// The size of a page in bytes. A commit writes every page that it touches to the log, whole, so that small ones are
/// cheap; long bodies go on in pages of their own, which small ones waste less of.
///
/// Smaller than a disk's sector, so that two pages may share one: as for the frames of the log, which lie across
/// sectors at any size of a page, it is assumed that a write that is cut off by a power loss harms no byte beside it
/// (SQLite's "powersafe overwrite").
const PAGE: i64 = 2048;

/// How many pages the log has when it is folded into the file: 4 MiB. Short: a log that is written over again and again
/// does not grow, so that a sync of it has no new size to write down.
const LOG_PAGES: &str = "2000";

/// How many prepared statements a connection keeps; above the number of different ones there are.
const STATEMENTS: usize = 96;

/// Makes the file if there is none, and returns its one true name.
///
/// The true name is absolute, so that the lock's name does not depend on the way here, and SQLite sees neither a URI
/// nor one of its special names in it.
pub(crate) fn create_file(path: &Path) -> Result<PathBuf> {
    // Only a file that did not exist is opened here: closing an existing one would drop SQLite's locks on it.
    match private_file_options().write(true).create_new(true).open(path) {
        Ok(file) => drop(file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unavailable_error("make its file", error)),
    }
    canonical_path(path)
}

/// Returns the one true name of a file that exists.
pub(crate) fn canonical_path(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|error| unavailable_error("find its file", error))
}

/// Opens a connection that writes to a file which is ours or empty, and refuses any other without changing it.
///
/// It syncs every commit until [`relax`] says otherwise.
pub(crate) fn open_writer(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open_connection(path, flags)?;
    // Until it is known whose file it is, not even a log that lies beside it may be folded in.
    let hands_off = |yes| {
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, yes)
            .map_err(|error| translate_error(error, "open"))
    };
    hands_off(true)?;
    let is_made = format::inspect_format(&connection)?;
    if connection.is_readonly("main").map_err(|error| translate_error(error, "open"))? {
        return Err(unavailable_error("open for writing", std::io::Error::from(ErrorKind::PermissionDenied)));
    }
    hands_off(false)?;
    apply_settings(&connection, is_made).map_err(|error| translate_error(error, "open"))?;
    Ok(connection)
}

/// Sets the durability of later commits.
pub(crate) fn set_durability(connection: &Connection, durability: CommitDurability) -> rusqlite::Result<()> {
    let level = match durability {
        CommitDurability::Full => "FULL",
        CommitDurability::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", level)
}

/// Opens the file again after a failure; the lock was held all the time, so that it is as it was.
pub(crate) fn reopen_writer(path: &Path, durability: CommitDurability) -> Result<Connection> {
    let connection = open_writer(path)?;
    set_durability(&connection, durability).map_err(|error| translate_error(error, "open"))?;
    Ok(connection)
}

/// Opens a connection that only reads, to a file that is ours.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let connection =
        open_connection(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    if !format::inspect_format(&connection)? {
        return Err(format::empty_file_error());
    }
    // In KiB: two readers and the writer stay below 5 MiB together.
    connection.pragma_update(None, "cache_size", -1024).map_err(|error| translate_error(error, "open"))?;
    Ok(connection)
}

/// Opens a connection that only looks, but through which SQLite sees the constraints of tables: those that it takes for
/// writing are the only ones that it checks.
pub(crate) fn open_inspector(path: &Path) -> Result<Connection> {
    let connection =
        open_connection(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let look = |connection: &Connection| {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "query_only", true)
    };
    look(&connection).map_err(|error| translate_error(error, "open"))?;
    Ok(connection)
}

fn open_connection(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let connection =
        Connection::open_with_flags(path, flags).map_err(|error| translate_error(error, "open"))?;
    connection.busy_timeout(BUSY).map_err(|error| translate_error(error, "open"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A plan depends on the statement alone. Without this, SQLite plans anew whenever a value is bound that it might
    // have used.
    let stable = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
    stable.map_err(|error| translate_error(error, "open"))?;
    Ok(connection)
}

fn apply_settings(connection: &Connection, is_made: bool) -> rusqlite::Result<()> {
    let set = |name, value: &str| connection.pragma_update_and_check(None, name, value, |_| Ok(()));
    connection.pragma_update(None, "page_size", PAGE)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    if !is_made {
        // The first page of an empty file needs no file to go back by: cut off, it leaves an empty file. It is synced
        // before there is a log, since SQLite takes a log beside a file without pages for a stranger's.
        set("journal_mode", "MEMORY")?;
    }
    set("journal_mode", "WAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    set("wal_autocheckpoint", LOG_PAGES)?;
    // Deleted or replaced data leaves no copy in the pages (D25).
    set("secure_delete", "ON")?;
    // Savepoints keep their pages in memory, not in files elsewhere.
    connection.pragma_update(None, "temp_store", "MEMORY")
}

#[cfg(test)]
mod tests {
    use super::*;

    // INV-3
    #[test]
    fn a_writer_syncs_every_commit_unless_it_was_told_otherwise() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = create_file(&dir.path().join("store.db")).expect("a file");
        let connection = open_writer(&path).expect("a writer");
        let level = || connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0));
        let mode = connection.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
        assert_eq!((level(), mode), (Ok(2), Ok("wal".to_owned())));
        set_durability(&connection, CommitDurability::Normal).expect("a setting");
        assert_eq!(level(), Ok(1));
        set_durability(&connection, CommitDurability::Full).expect("a setting");
        assert_eq!(level(), Ok(2));
    }
}
