//! The erasure list: a file beside a database, for restored backups.
//!
//! A backup still holds data that was erased after it was made. A restore applies this list to it. The list holds keyed
//! hashes: it tells whether a known name was erased, but contains no names. Its key is in the file itself.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use singletree_durable::{Error, Result, SessionKey, SubjectId, TenantId, Timestamp};

use crate::error::{translate_error, unavailable_error};
use crate::lock::private_file_options;
use crate::name_hash::hmac_of_texts;

/// The name of these operations in errors.
const DOING: &str = "keep the list of what was erased";

/// Something that was erased, deleted or revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasedName {
    /// Everything of a tenant.
    Tenant(TenantId),
    /// Everything that was kept for a subject of a tenant.
    Subject(TenantId, SubjectId),
    /// A session.
    Session(SessionKey),
    /// An API key of a tenant, by its id.
    Key(TenantId, String),
}

/// The list of one database, read: which names were erased, and when.
#[derive(Debug)]
pub struct ErasureList {
    key: Option<String>,
    entries: HashMap<String, Timestamp>,
}

impl ErasureList {
    /// Reads a list; a file that does not exist is an empty list. A line that a crash has cut is skipped: its erasure
    /// was not committed either. The whole list is held in memory, about 150 bytes for each entry.
    ///
    /// # Errors
    /// `store_unavailable`; `store_corrupt` when entries have no key, so that nothing could be found in it.
    pub fn read_from_file(path: impl AsRef<Path>) -> Result<Self> {
        let mut list = Self { key: None, entries: HashMap::new() };
        for_each_line(path.as_ref(), |line| match line {
            ErasureListLine::Key(key) => list.key = Some(key.to_owned()),
            ErasureListLine::Entry(at, hash) => {
                let last = list.entries.entry(hash.to_owned()).or_insert(at);
                *last = at.max(*last);
            }
        })?;
        if list.key.is_none() && !list.entries.is_empty() {
            let what = format!("{}: a list of erasures without its key", path.as_ref().display());
            return Err(Error::Corrupt { what, source: None });
        }
        Ok(list)
    }

    /// Returns the path of a database's list: beside it, with `.erased` behind its name.
    #[must_use]
    pub fn path_beside(database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push(".erased");
        name.into()
    }

    /// Returns the time of the last erasure of this name; none if it was not erased.
    #[must_use]
    pub fn erased_at(&self, name: &ErasedName) -> Option<Timestamp> {
        self.entries.get(&hash_erased_name(self.key.as_ref()?, name)).copied()
    }

    /// Tells whether nothing was erased.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Appends to the list of one database. It holds the key and no entries, so that its memory does not grow with the
/// list.
#[derive(Debug)]
pub(crate) struct ErasureListWriter {
    path: PathBuf,
    key: Option<String>,
}

impl ErasureListWriter {
    /// Opens a list to append to it. The file is made with the first entry.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub(crate) fn open_to_append(path: PathBuf) -> Result<Self> {
        let mut found = None;
        for_each_line(&path, |line| {
            if let ErasureListLine::Key(key) = line {
                found = Some(key.to_owned());
            }
        })?;
        Ok(Self { path, key: found })
    }

    /// Adds names. The file (mode 0600 on Unix) is synced before this answers.
    ///
    /// # Errors
    /// `store_full`, `store_unavailable`: then nothing must be erased yet, or a backup would bring it back.
    pub(crate) fn append_names(&mut self, erased: &[(ErasedName, Timestamp)]) -> Result<()> {
        let (key, is_new) = match &self.key {
            Some(key) => (key.clone(), false),
            None => (draw_list_key()?, true),
        };
        // The line break ends a line that a crash has cut.
        let mut added = String::from("\n");
        if is_new {
            added.push_str(&format!("key {key}\n"));
        }
        for (name, at) in erased {
            added.push_str(&format!("{} {}\n", at.as_millis(), hash_erased_name(&key, name)));
        }
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::StorageFull => Error::Full { doing: DOING, source: error.into() },
            _ => unavailable_error(DOING, error),
        };
        let mut file: OpenOptions = private_file_options();
        let mut file = file.append(true).create(true).open(&self.path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        if let Err(error) = file.write_all(added.as_bytes()).and_then(|()| file.sync_all()) {
            // These deletions are refused: a line that stays would delete a session that exists from a restored backup.
            // If even this fails, the lines stay, as after a crash.
            drop(file.set_len(length));
            return Err(failed(error));
        }
        #[cfg(unix)]
        if is_new && let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        self.key = Some(key);
        Ok(())
    }
}

/// A line of a list.
enum ErasureListLine<'a> {
    Key(&'a str),
    Entry(Timestamp, &'a str),
}

/// Reads a list line by line. Lines that are cut or damaged are passed over.
fn for_each_line(path: &Path, mut take: impl FnMut(ErasureListLine<'_>)) -> Result<()> {
    let mut file = match fs::File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unavailable_error(DOING, error)),
    };
    let mut bytes = Vec::new();
    while file.read_until(b'\n', &mut bytes).map_err(|error| unavailable_error(DOING, error))? > 0 {
        let line = std::str::from_utf8(&bytes).ok().and_then(|line| line.trim_end().split_once(' '));
        match line {
            Some(("key", key)) if key.len() == KEY_LEN => take(ErasureListLine::Key(key)),
            Some((at, hash)) if hash.len() == HASH_LEN => {
                if let Ok(at) = at.parse() {
                    take(ErasureListLine::Entry(Timestamp::from_millis(at), hash));
                }
            }
            Some(_) | None => {}
        }
        bytes.clear();
    }
    Ok(())
}

/// The length of a key and of a hash, in hexadecimal digits.
const KEY_LEN: usize = 64;
const HASH_LEN: usize = 64;

fn hash_erased_name(key: &str, name: &ErasedName) -> String {
    match name {
        ErasedName::Tenant(tenant) => hmac_of_texts(key, &["tenant", tenant.as_str()]),
        ErasedName::Subject(tenant, subject) => {
            hmac_of_texts(key, &["subject", tenant.as_str(), subject.as_str()])
        }
        ErasedName::Session(session) => {
            hmac_of_texts(key, &["session", session.tenant.as_str(), session.session.as_str()])
        }
        ErasedName::Key(tenant, id) => hmac_of_texts(key, &["key", tenant.as_str(), id]),
    }
}

/// Draws a key. SQLite has the system's randomness at hand.
fn draw_list_key() -> Result<String> {
    let drawn = Connection::open_in_memory().and_then(|open_in_memory| {
        open_in_memory.query_row("SELECT lower(hex(randomblob(32)))", [], |row| row.get(0))
    });
    drawn.map_err(|error| translate_error(error, DOING))
}

#[cfg(test)]
mod tests {
    use singletree_durable::SessionId;

    use super::*;

    fn key(session: &str) -> SessionKey {
        SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap())
    }

    #[test]
    fn a_list_tells_what_was_erased_and_holds_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = ErasureList::path_beside(&folder.path().join("chat.db"));
        let list = ErasureList::read_from_file(&path).unwrap();
        let (ann, subject) = (key("about-ann"), SubjectId::parse("ann").unwrap());
        assert!(list.is_empty() && list.erased_at(&ErasedName::Session(ann.clone())).is_none());
        let open = || ErasureListWriter::open_to_append(path.clone()).unwrap();
        open().append_names(&[(ErasedName::Session(ann.clone()), Timestamp::from_millis(5))]).unwrap();
        // A crash in the middle of a line.
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"7 12ab\xff").unwrap();
        let whom = ErasedName::Subject(ann.tenant.clone(), subject);
        open().append_names(&[(whom.clone(), Timestamp::from_millis(9))]).unwrap();

        let list = ErasureList::read_from_file(&path).unwrap();
        assert_eq!(list.erased_at(&ErasedName::Session(ann.clone())), Some(Timestamp::from_millis(5)));
        let found = list.erased_at(&whom);
        assert_eq!(found, Some(Timestamp::from_millis(9)));
        assert_eq!(list.erased_at(&ErasedName::Session(key("ann"))), None);
        assert_eq!(list.erased_at(&ErasedName::Key(ann.tenant, "ann".to_owned())), None);
        let text = fs::read(&path).unwrap();
        let entries = text.windows(5).position(|bytes| bytes.starts_with(b"key ")).unwrap() + 70;
        let without_key = folder.path().join("without.erased");
        fs::write(&without_key, &text[entries..]).unwrap();
        assert_eq!(ErasureList::read_from_file(&without_key).unwrap_err().category(), "store_corrupt");
        assert!(!String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("ann"));
    }
}
