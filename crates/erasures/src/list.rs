//! A list, read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use singletree_durable::{Error, Result, Timestamp};

use crate::ErasedName;
use crate::hash::hash_erased_name;
use crate::line::{ErasureListLine, for_each_line};

/// A list, read: which names were erased, and when.
#[derive(Debug)]
pub struct ErasureList {
    /// One, unless two processes began the list at the same moment.
    keys: Vec<String>,
    entries: HashMap<String, Timestamp>,
}

impl ErasureList {
    /// Reads a list; a file that does not exist is an empty list. A line that a crash has cut is skipped: its erasure
    /// was not committed either. The whole list is held in memory, about 150 bytes for each entry.
    ///
    /// # Errors
    /// `store_unavailable`; `store_corrupt` for a file that is no list, or has lost its key, so that nothing could be found in it.
    pub fn read_from_file(path: impl AsRef<Path>) -> Result<Self> {
        let mut list = Self { keys: Vec::new(), entries: HashMap::new() };
        let mut has_foreign_lines = false;
        for_each_line(path.as_ref(), |line| match line {
            ErasureListLine::Key(key) => list.keys.push(key.to_owned()),
            ErasureListLine::Entry(at, hash) => {
                let last = list.entries.entry(hash.to_owned()).or_insert(at);
                *last = at.max(*last);
            }
            ErasureListLine::Foreign => has_foreign_lines = true,
        })?;
        if list.keys.is_empty() && (has_foreign_lines || !list.entries.is_empty()) {
            let what = format!("{}: no list of erasures, or one without its key", path.as_ref().display());
            return Err(Error::Corrupt { what, source: None });
        }
        Ok(list)
    }

    /// Returns the path of the list of a database that is a file: beside it, with `.erased` behind its name.
    #[must_use]
    pub fn path_beside(database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push(".erased");
        name.into()
    }

    /// Returns the time of the last erasure of this name; none if it was not erased.
    #[must_use]
    pub fn erased_at(&self, name: &ErasedName) -> Option<Timestamp> {
        let hashes = self.keys.iter().map(|key| hash_erased_name(key, name));
        hashes.filter_map(|hash| self.entries.get(&hash).copied()).max()
    }

    /// Tells whether nothing was erased.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
