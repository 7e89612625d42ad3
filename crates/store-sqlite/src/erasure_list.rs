//! The erasure list: a file beside a database, for restored backups.
//!
//! A backup still holds data that was erased after it was made. A restore applies this list to it. The list holds keyed
//! hashes: it tells whether a known name was erased, but contains no names. Its key is in the file itself.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use singletree_durable::{Result, SessionKey, SubjectId, TenantId, Timestamp};

use crate::error::{translate, unavailable};
use crate::lock::private;
use crate::name_hash::hash;

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

/// The list of names that were erased from one database.
#[derive(Debug)]
pub struct ErasureList {
    path: PathBuf,
    key: Option<String>,
    entries: HashMap<String, Timestamp>,
}

impl ErasureList {
    /// Reads the list of a file; a missing file is an empty list. An incomplete line, as a crash leaves it, is skipped:
    /// its entry is added again when the erasure is finished.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unavailable(DOING, error)),
        };
        let (mut key, mut entries) = (None, HashMap::new());
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("key", found)) if found.len() == KEY_LEN => key = Some(found.to_owned()),
                Some((at, found)) if found.len() == HASH_LEN => {
                    if let Ok(at) = at.parse() {
                        let at = Timestamp::from_millis(at);
                        let last = entries.entry(found.to_owned()).or_insert(at);
                        *last = at.max(*last);
                    }
                }
                Some(_) | None => {}
            }
        }
        Ok(Self { path, key, entries })
    }

    /// Returns where the list of a database is: beside it, with `.erased` behind its name.
    #[must_use]
    pub fn path_beside(database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push(".erased");
        name.into()
    }

    /// Returns when this was erased last; none if it was not.
    #[must_use]
    pub fn erased_at(&self, name: &ErasedName) -> Option<Timestamp> {
        self.entries.get(&hash_of(self.key.as_ref()?, name)).copied()
    }

    /// Tells whether nothing was erased.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds names. The file (mode 0600 on Unix) is synced before this returns.
    ///
    /// # Errors
    /// `store_unavailable`: then nothing must be erased yet, or a backup would bring it back.
    pub fn add<'a>(&mut self, names: impl IntoIterator<Item = &'a ErasedName>, at: Timestamp) -> Result<()> {
        let mut text = String::new();
        let key = match &self.key {
            Some(key) => key.clone(),
            None => {
                let key = draw()?;
                text.push_str(&format!("key {key}\n"));
                key
            }
        };
        // Ends the incomplete line that a crash may have left.
        let mut added = String::from("\n");
        added.push_str(&text);
        let mut hashes = Vec::new();
        for name in names {
            let hash = hash_of(&key, name);
            added.push_str(&format!("{} {hash}\n", at.as_millis()));
            hashes.push(hash);
        }
        let failed = |error| unavailable(DOING, error);
        let mut file: OpenOptions = private();
        let mut file = file.append(true).create(true).open(&self.path).map_err(failed)?;
        file.write_all(added.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        #[cfg(unix)]
        if let Some(folder) = self.path.parent().filter(|it| !it.as_os_str().is_empty()) {
            fs::File::open(folder).and_then(|it| it.sync_all()).map_err(failed)?;
        }
        self.key = Some(key);
        self.entries.extend(hashes.into_iter().map(|it| (it, at)));
        Ok(())
    }
}

/// The length of a key and of a hash, in hexadecimal digits.
const KEY_LEN: usize = 64;
const HASH_LEN: usize = 64;

fn hash_of(key: &str, name: &ErasedName) -> String {
    match name {
        ErasedName::Tenant(tenant) => hash(key, &["tenant", tenant.as_str()]),
        ErasedName::Subject(tenant, subject) => hash(key, &["subject", tenant.as_str(), subject.as_str()]),
        ErasedName::Session(session) => {
            hash(key, &["session", session.tenant.as_str(), session.session.as_str()])
        }
        ErasedName::Key(tenant, id) => hash(key, &["key", tenant.as_str(), id]),
    }
}

/// Draws a key. SQLite has the system's randomness at hand.
fn draw() -> Result<String> {
    let drawn = Connection::open_in_memory()
        .and_then(|it| it.query_row("SELECT lower(hex(randomblob(32)))", [], |row| row.get(0)));
    drawn.map_err(|error| translate(error, DOING))
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
        let mut list = ErasureList::read(&path).unwrap();
        let (ann, subject) = (key("about-ann"), SubjectId::parse("ann").unwrap());
        assert!(list.is_empty() && list.erased_at(&ErasedName::Session(ann.clone())).is_none());
        list.add([&ErasedName::Session(ann.clone())], Timestamp::from_millis(5)).unwrap();
        // A crash in the middle of a line.
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"7 12ab").unwrap();
        let mut list = ErasureList::read(&path).unwrap();
        let whom = ErasedName::Subject(ann.tenant.clone(), subject);
        list.add([&whom], Timestamp::from_millis(9)).unwrap();

        let list = ErasureList::read(&path).unwrap();
        assert_eq!(list.erased_at(&ErasedName::Session(ann.clone())), Some(Timestamp::from_millis(5)));
        let found = list.erased_at(&whom);
        assert_eq!(found, Some(Timestamp::from_millis(9)));
        assert_eq!(list.erased_at(&ErasedName::Session(key("ann"))), None);
        assert_eq!(list.erased_at(&ErasedName::Key(ann.tenant, "ann".to_owned())), None);
        assert!(!fs::read_to_string(&path).unwrap().contains("ann"));
    }
}
