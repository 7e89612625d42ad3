//! Keeps a second writer out.
//!
//! The lock is on a file beside the database, never on the database: SQLite has its own locks there, and closing any
//! descriptor of a file drops all POSIX locks that the process holds on it. The operating system frees it when the
//! process ends, however it ends. The file stays: removing it would let two processes lock two files of one name.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use singletree_durable::{Error, Result};

use crate::error::unavailable_error;

/// The right to write to a database, held as long as this lives.
#[derive(Debug)]
pub(crate) struct DatabaseLock {
    file: File,
}

impl DatabaseLock {
    /// Takes the lock of a database.
    ///
    /// # Errors
    /// `store_locked` with the owner's process id and command; `store_unavailable` when the side file cannot be used.
    pub(crate) fn acquire_for_writing(database: &Path, command: &str) -> Result<Self> {
        let mut file = private_file_options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(lock_file_path(database))
            .map_err(|error| unavailable_error("lock its file", error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(read_lock_owner(&mut file)),
            Err(TryLockError::Error(error)) => return Err(unavailable_error("lock its file", error)),
        }
        sign_lock_file(&mut file, command).map_err(|error| unavailable_error("sign its lock", error))?;
        Ok(Self { file })
    }

    /// Looks whether somebody holds the lock of a database.
    ///
    /// # Errors
    /// As [`DatabaseLock::acquire_for_writing`].
    pub(crate) fn check_unlocked(database: &Path) -> Result<()> {
        let mut file = match File::open(lock_file_path(database)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unavailable_error("open its lock", error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(read_lock_owner(&mut file)),
            Err(TryLockError::Error(error)) => Err(unavailable_error("lock its file", error)),
        }
    }
}

impl Drop for DatabaseLock {
    fn drop(&mut self) {
        // Said aloud, since a process that is being spawned right now holds a copy of the descriptor for a moment.
        // If it cannot be said, the descriptor's end says it.
        self.file.unlock().unwrap_or_default();
    }
}

/// Returns options that make files which only their owner can read.
pub(crate) fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn lock_file_path(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(".lock");
    name.into()
}

fn sign_lock_file(file: &mut File, command: &str) -> std::io::Result<()> {
    let command = command.replace(|it: char| it.is_control(), " ");
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(format!("{}\n{command}\n", std::process::id()).as_bytes())
}

/// Reads who holds the lock. An owner that has not signed yet is process 0.
fn read_lock_owner(file: &mut File) -> Error {
    let mut text = String::new();
    if let Err(error) = file.read_to_string(&mut text) {
        return unavailable_error("read who has its lock", error);
    }
    let mut lines = text.lines();
    let pid = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    Error::Locked { pid, command: lines.next().unwrap_or_default().to_owned() }
}
