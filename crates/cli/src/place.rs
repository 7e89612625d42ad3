//! The paths of the database and of the files beside it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use singletree::durable::SessionId;

use crate::error::{Error, Result};
use crate::shell_word::quote_shell_word;

/// A database and its neighbours.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseLocation {
    db: PathBuf,
    /// As somebody named it.
    named: Option<PathBuf>,
}

impl DatabaseLocation {
    /// Finds the database: the one that is named, or that of the user's data folder.
    pub(crate) fn from_path_or_default(db: Option<&Path>) -> Result<Self> {
        let named = db.map(Path::to_owned);
        let db = match db {
            Some(db) => db.to_owned(),
            None => {
                let data = dirs::data_dir()
                    .ok_or_else(|| Error::Usage("there is no data folder here; name a --db".to_owned()))?;
                data.join("singletree").join("singletree.db")
            }
        };
        match std::path::absolute(&db) {
            Ok(db) => Ok(Self { db, named }),
            Err(source) => Err(Error::Place { doing: "find", path: db, source }),
        }
    }

    /// Makes the folder, for this user only, if there is none.
    pub(crate) fn create_folder(&self) -> Result<()> {
        let folder = self.database_folder();
        if folder.is_dir() {
            return Ok(());
        }
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder).map_err(|source| Error::Place {
            doing: "make the folder",
            path: folder.to_owned(),
            source,
        })
    }

    /// Returns the database.
    pub(crate) fn database_path(&self) -> &Path {
        &self.db
    }

    /// Returns the option to add to a command so that it uses the same database: nothing where no database was named.
    pub(crate) fn database_option(&self) -> String {
        let option = |it: &PathBuf| format!(" --db {}", quote_shell_word(&it.display().to_string()));
        self.named.as_ref().map(option).unwrap_or_default()
    }

    /// Returns the file of the lines that were typed.
    pub(crate) fn input_history_path(&self) -> PathBuf {
        self.path_beside("typed")
    }

    /// Returns the file in which a server that runs says where it is, and with which key its operator is known.
    pub(crate) fn operator_file_path(&self) -> PathBuf {
        self.path_beside("serve")
    }

    /// Returns the session that was used last, if that is known.
    pub(crate) fn last_session(&self) -> Option<String> {
        let text = fs::read_to_string(self.path_beside("last")).ok()?;
        SessionId::parse(text.trim()).ok().map(|parsed| parsed.to_string())
    }

    /// Keeps which session was used last.
    pub(crate) fn remember_session(&self, session: &str) -> Result<()> {
        if self.last_session().as_deref() == Some(session) {
            return Ok(());
        }
        let path = self.path_beside("last");
        let doing = "remember the session in";
        write_private_file(&path, session).map_err(|source| Error::Place { doing, path, source })
    }

    /// Forgets a session, if it was the last one.
    pub(crate) fn forget_session(&self, session: &str) -> Result<()> {
        if self.last_session().as_deref() != Some(session) {
            return Ok(());
        }
        let path = self.path_beside("last");
        fs::remove_file(&path).map_err(|source| Error::Place { doing: "remove", path, source })
    }

    /// Forgets the lines that were typed.
    pub(crate) fn forget_input_history(&self) -> Result<()> {
        let path = self.input_history_path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::Place { doing: "remove", path, source: error })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Returns the folder of the database.
    pub(crate) fn database_folder(&self) -> &Path {
        self.db.parent().unwrap_or(&self.db)
    }

    fn path_beside(&self, ending: &str) -> PathBuf {
        let mut name = OsString::from(&self.db);
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// Puts a line into a file that only this user can read, whole or not at all.
pub(crate) fn write_private_file(path: &Path, line: &str) -> io::Result<()> {
    let mut draft = OsString::from(path);
    draft.push(".tmp");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    writeln!(options.open(&draft)?, "{line}")?;
    fs::rename(&draft, path)
}
