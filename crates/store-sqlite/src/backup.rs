//! A whole copy of the database, made while it is used.

use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use singletree_durable::Result;

use crate::error::{translate_error, unavailable_error};
use crate::lock::private_file_options;
use crate::{SqliteStore, format, open};

const DOING: &str = "back up";

impl SqliteStore {
    /// Copies the database into a new file (mode 0600 on Unix; its folder must exist), as it is at one moment after the
    /// call, while others go on reading and writing. The copy is synced to disk before this call returns; it can be
    /// opened like any other database, and contains no deleted data. Works on a handle that only reads, too.
    ///
    /// The log cannot be restarted while the copy is made: until then, it grows with every write.
    ///
    /// The copy is a log of its own. It has another [epoch](singletree_durable::Journal::log_epoch) than this database,
    /// and gets one more when it is first opened for writing: however often it replaces a lost database, event ids of
    /// one log never name events of another. Turns that ran when the copy was made are in it without an outcome and are
    /// taken over like those of a process that died.
    ///
    /// # Errors
    /// - `store_unavailable`: something of that name is there already (it is left unchanged), or it cannot be written.
    /// - `store_corrupt`: the database is damaged.
    /// - `store_closed`.
    ///
    /// # Cancellation
    /// The copy is made even if the future is dropped; [`close`](Self::close) waits for it. A process that is killed
    /// leaves an empty file of that name and, beside it, the unfinished copy, whose name ends in `.partial`.
    pub async fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        let to = std::path::absolute(to.as_ref()).map_err(|error| unavailable_error(DOING, error))?;
        self.run_on_own_thread(DOING, move |source| copy_database(&open::open_reader(source)?, &to)).await
    }
}

/// Reserves the name, makes the copy beside it, and puts it there when it is whole.
fn copy_database(source: &Connection, to: &Path) -> Result<()> {
    create_new_file(to)?;
    let partial = partial_path(to);
    let result = create_new_file(&partial).and_then(|()| {
        let result = fill_partial_copy(source, &partial).and_then(|()| publish_copy(&partial, to));
        if result.is_err() {
            discard_file(&partial);
        }
        result
    });
    if result.is_err() {
        discard_file(to);
    }
    result
}

fn create_new_file(path: &Path) -> Result<()> {
    match private_file_options().write(true).create_new(true).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(unavailable_error(DOING, format!("there is something at {} already", path.display())))
        }
        Err(error) => Err(unavailable_error(DOING, error)),
    }
}

fn partial_path(to: &Path) -> PathBuf {
    let mut name = OsString::from(to);
    name.push(".partial");
    name.into()
}

/// Removes a file that this call made. A file that cannot be removed stays, and blocks the next backup to that name.
fn discard_file(path: &Path) {
    std::fs::remove_file(path).unwrap_or_default();
}

fn fill_partial_copy(source: &Connection, partial: &Path) -> Result<()> {
    let failed = |error| translate_error(error, DOING);
    let name = partial.to_str().ok_or_else(|| unavailable_error(DOING, "its name is not UTF-8"))?;
    source.execute("VACUUM INTO ?", [name]).map_err(failed)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags(partial, flags).map_err(failed)?;
    // It is nobody's yet: a copy that is not finished is thrown away, and one that is is synced below.
    copy.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(())).map_err(failed)?;
    copy.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
    format::mark_as_copy(&copy).map_err(failed)?;
    copy.close().map_err(|(_, error)| failed(error))
}

fn publish_copy(partial: &Path, to: &Path) -> Result<()> {
    let failed = |error| unavailable_error(DOING, error);
    File::open(partial).and_then(|open| open.sync_all()).map_err(failed)?;
    std::fs::rename(partial, to).map_err(failed)?;
    #[cfg(unix)]
    if let Some(folder) = to.parent() {
        File::open(folder).and_then(|open| open.sync_all()).map_err(failed)?;
    }
    Ok(())
}
