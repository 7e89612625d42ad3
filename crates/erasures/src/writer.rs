//! Adding to a list.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use singletree_durable::{Result, Timestamp};

use crate::ErasedName;
use crate::hash::hash_erased_name;
use crate::line::{ErasureListLine, for_each_line, unavailable_error};

/// Adds to a list. It holds the key and no entries, so that its memory does not grow with the list. Several processes of one
/// machine may add to the same list.
#[derive(Debug)]
pub struct ErasureListWriter {
    path: PathBuf,
    key: Option<String>,
}

impl ErasureListWriter {
    /// Opens a list to add to it. The file is made with the first entry.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub fn open_to_append(path: PathBuf) -> Result<Self> {
        let key = find_key(&path)?;
        Ok(Self { path, key })
    }

    /// Adds names, with the times at which they were erased. The file (mode 0600 on Unix) is synced before this answers.
    /// `draw_key` gives a new list its key: 64 hexadecimal digits that nobody can guess.
    ///
    /// # Errors
    /// `store_full`, `store_unavailable`, and those of `draw_key`: then nothing must be erased yet, or a backup would bring
    /// it back.
    pub fn append_names(
        &mut self,
        erased: &[(ErasedName, Timestamp)],
        draw_key: impl FnOnce() -> Result<String>,
    ) -> Result<()> {
        let mut file =
            private_file_options().append(true).create(true).open(&self.path).map_err(unavailable_error)?;
        // Until the file is closed. Where files have no locks, one process has the list.
        match file.lock() {
            Err(error) if error.kind() != ErrorKind::Unsupported => return Err(unavailable_error(error)),
            Ok(()) | Err(_) => {}
        }
        let length = file.metadata().map_err(unavailable_error)?.len();
        if self.key.is_none() && length > 0 {
            // Another process began the list since this one opened it.
            self.key = find_key(&self.path)?;
        }
        // The line break ends a line that a crash has cut.
        let mut added = String::from("\n");
        let key = match &self.key {
            Some(key) => key.clone(),
            None => draw_key()?,
        };
        // The file may have been moved away since the last entry.
        let is_new = self.key.is_none() || length == 0;
        if is_new {
            added.push_str(&format!("key {key}\n"));
        }
        for (name, at) in erased {
            let hash = hash_erased_name(&key, name);
            added.push_str(&format!("{} {hash}\n", at.as_millis()));
        }
        if let Err(error) = file.write_all(added.as_bytes()).and_then(|()| file.sync_all()) {
            // These deletions are refused: a line that stays would delete a session that exists from a restored backup.
            // If even this fails, the lines stay, as after a crash.
            drop(file.set_len(length));
            return Err(unavailable_error(error));
        }
        #[cfg(unix)]
        if is_new && let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(unavailable_error)?;
        }
        self.key = Some(key);
        Ok(())
    }
}

fn find_key(path: &Path) -> Result<Option<String>> {
    let mut found = None;
    for_each_line(path, |line| {
        if let ErasureListLine::Key(key) = line {
            found = Some(key.to_owned());
        }
    })?;
    Ok(found)
}

/// Returns options that make files which only their owner can read.
fn private_file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::fs;

    use singletree_durable::{SessionId, SessionKey, SubjectId, TenantId};

    use super::*;
    use crate::ErasureList;

    fn key(session: &str) -> SessionKey {
        SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap())
    }

    fn draw_key() -> Result<String> {
        Ok("5".repeat(64))
    }

    #[test]
    fn a_list_tells_what_was_erased_and_holds_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = ErasureList::path_beside(&folder.path().join("chat.db"));
        let list = ErasureList::read_from_file(&path).unwrap();
        let (ann, subject) = (key("about-ann"), SubjectId::parse("ann").unwrap());
        assert!(list.is_empty() && list.erased_at(&ErasedName::Session(ann.clone())).is_none());
        let append = |name: ErasedName, at| {
            let mut list = ErasureListWriter::open_to_append(path.clone()).unwrap();
            list.append_names(&[(name, Timestamp::from_millis(at))], draw_key).unwrap();
        };
        append(ErasedName::Session(ann.clone()), 5);
        // A crash in the middle of a line.
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"7 12ab\xff").unwrap();
        let whom = ErasedName::Subject(ann.tenant.clone(), subject);
        append(whom.clone(), 9);

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

    #[test]
    fn a_list_that_was_moved_away_begins_anew_and_another_file_is_no_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("erased");
        let mut writer = ErasureListWriter::open_to_append(path.clone()).unwrap();
        for (session, moved) in [("a", "first"), ("b", "second")] {
            let name = ErasedName::Session(key(session));
            writer.append_names(&[(name.clone(), Timestamp::from_millis(1))], draw_key).unwrap();
            let moved = folder.path().join(moved);
            fs::rename(&path, &moved).unwrap();
            assert!(ErasureList::read_from_file(moved).unwrap().erased_at(&name).is_some());
        }
        // The first entry, cut by a crash: nothing was erased.
        fs::write(&path, "\nkey 55").unwrap();
        assert!(ErasureList::read_from_file(&path).unwrap().is_empty());
        for other in [&b"a letter\n"[..], &[0; 5000], &[b'x'; 5000]] {
            fs::write(&path, other).unwrap();
            assert_eq!(ErasureList::read_from_file(&path).unwrap_err().category(), "store_corrupt");
        }
    }

    #[test]
    fn several_processes_add_to_one_list_under_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("erased");
        let mut writers = [0, 1].map(|_| ErasureListWriter::open_to_append(path.clone()).unwrap());
        let names: Vec<ErasedName> = (0..20).map(|no| ErasedName::Session(key(&format!("s{no}")))).collect();
        std::thread::scope(|scope| {
            for (writer, names) in writers.iter_mut().zip(names.chunks(10)) {
                scope.spawn(move || {
                    for name in names {
                        writer.append_names(&[(name.clone(), Timestamp::from_millis(1))], draw_key).unwrap();
                    }
                });
            }
        });
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().filter(|line| line.starts_with("key ")).count(), 1);
        let list = ErasureList::read_from_file(&path).unwrap();
        for name in &names {
            assert_eq!(list.erased_at(name), Some(Timestamp::from_millis(1)), "{name:?}");
        }
    }
}
