//! How a store is opened.

use std::path::PathBuf;

use singletree_durable::Result;

use crate::SqliteStore;

/// The failures that a committed batch survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CommitDurability {
    /// The process and a power loss: every commit is synced to disk before it is answered.
    #[default]
    Full,
    /// The process, however it ends. A power loss may take the newest commits, whole and from the end only.
    Normal,
}

/// How to open a file for writing; made by [`SqliteStore::options`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteOptions {
    pub(crate) path: PathBuf,
    pub(crate) durability: CommitDurability,
    pub(crate) command: String,
    pub(crate) lists_erasures: bool,
}

impl SqliteOptions {
    /// Starts with the defaults: [`CommitDurability::Full`], no command text.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, durability: CommitDurability::default(), command: String::new(), lists_erasures: false }
    }

    /// Sets the failures that a committed batch survives.
    #[must_use]
    pub fn durability(mut self, durability: CommitDurability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the description of this process in the error of a refused second process: usually its command line. Line
    /// breaks become spaces.
    #[must_use]
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// Lists every session that is deleted in a file beside the database ([`ErasureList`](crate::ErasureList)), synced
    /// before the deletion is committed, so that no restored backup brings it back. The list grows by about 80 bytes
    /// for each deletion. Where it cannot be written, the deletion fails with `store_unavailable`. Deletions by
    /// [`SqliteStore::session_store`], which keeps no audit, are not listed.
    #[must_use]
    pub fn list_erasures(mut self) -> Self {
        self.lists_erasures = true;
        self
    }

    /// Opens the file, or makes it (mode 0600 on Unix; its folder must exist), and takes the right to write.
    ///
    /// Raises the file's fence durably, so that unfinished work of an earlier owner can be recognized.
    ///
    /// # Errors
    /// - `store_locked`: another process, or another handle of this one, has it open for writing.
    /// - `store_format_unsupported`: it belongs to another application or to a newer version; it is left unchanged.
    /// - `store_corrupt`: it is no SQLite database, or a damaged one; it is left unchanged.
    /// - `store_unavailable`: it cannot be made, read or written.
    ///
    /// # Cancellation
    /// A dropped open has happened or not; if it has, the file is closed again.
    pub async fn open(self) -> Result<SqliteStore> {
        SqliteStore::open_with_options(self).await
    }
}
