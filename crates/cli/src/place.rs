//! The paths of the database and of the files beside it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use singletree::durable::SessionId;

use crate::args::Db;
use crate::error::{Error, Result};
use crate::shell_word::quote_shell_word;
use crate::store_url::StoreUrl;
use crate::who::read_env_variable;

/// A database and its neighbours.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseLocation {
    name: DatabaseName,
    /// The path beside which the other files are: that of the database, where it is a file.
    base: PathBuf,
    /// The option that named it, for other commands.
    option: String,
}

/// Which database it is.
#[derive(Debug, Clone)]
pub(crate) enum DatabaseName {
    /// A file of SQLite.
    File(PathBuf),
    /// A PostgreSQL database, and the file in which erased data is listed.
    Postgres(StoreUrl, Option<PathBuf>),
}

impl DatabaseLocation {
    /// Finds the database that the options name, or that of the user's data folder.
    pub(crate) fn from_options(options: &Db) -> Result<Self> {
        let url = match (&options.store, &options.store_env) {
            (Some(url), _) => url.clone(),
            (None, Some(name)) => read_store_variable(name)?,
            (None, None) if options.list_erased.is_some() => {
                let problem = "--list-erased is for --store; beside a file there is FILE.erased";
                return Err(Error::Usage(problem.to_owned()));
            }
            (None, None) => return Self::from_path_or_default(options.db.as_deref()),
        };
        let mut option = match &options.store_env {
            Some(name) => format!(" --store-env {}", quote_shell_word(name)),
            None => format!(" --store {}", quote_shell_word(url.shown())),
        };
        if let Some(list) = &options.list_erased {
            option.push_str(&format!(" --list-erased {}", quote_shell_word(&list.display().to_string())));
        }
        let base = find_data_folder()?.join(url.file_name());
        Ok(Self { name: DatabaseName::Postgres(url, options.list_erased.clone()), base, option })
    }

    /// Finds a database that is a file: the one that is named, or that of the user's data folder.
    pub(crate) fn from_path_or_default(db: Option<&Path>) -> Result<Self> {
        let named = |db: &Path| format!(" --db {}", quote_shell_word(&db.display().to_string()));
        let option = db.map(named).unwrap_or_default();
        let db = match db {
            Some(db) => db.to_owned(),
            None => find_data_folder()?.join("singletree.db"),
        };
        match std::path::absolute(&db) {
            Ok(db) => Ok(Self { name: DatabaseName::File(db.clone()), base: db, option }),
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

    /// Returns which database it is.
    pub(crate) fn name(&self) -> &DatabaseName {
        &self.name
    }

    /// Returns the path of the database, for commands that only know files.
    ///
    /// # Errors
    /// `usage` for a PostgreSQL database, with `instead` as the advice.
    pub(crate) fn require_file(&self, instead: &str) -> Result<&Path> {
        match &self.name {
            DatabaseName::File(file) => Ok(file),
            DatabaseName::Postgres(..) => {
                Err(Error::Usage(format!("this command takes no --store; {instead}")))
            }
        }
    }

    /// Returns the path whose disk and size are measured. There is nothing at it for a PostgreSQL database.
    pub(crate) fn measured_path(&self) -> &Path {
        &self.base
    }

    /// Returns the name of the database for people, without its password.
    pub(crate) fn shown_name(&self) -> String {
        match &self.name {
            DatabaseName::File(file) => file.display().to_string(),
            DatabaseName::Postgres(url, _) => url.shown().to_owned(),
        }
    }

    /// Returns the option to add to a command so that it uses the same database: nothing where no database was named.
    pub(crate) fn database_option(&self) -> String {
        self.option.clone()
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

    /// Returns the folder of the database, or of the files that belong to it.
    pub(crate) fn database_folder(&self) -> &Path {
        self.base.parent().unwrap_or(&self.base)
    }

    fn path_beside(&self, ending: &str) -> PathBuf {
        let mut name = OsString::from(&self.base);
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// Returns the folder of this user's data.
fn find_data_folder() -> Result<PathBuf> {
    let data = dirs::data_dir()
        .ok_or_else(|| Error::Usage("there is no data folder here; name a --db".to_owned()))?;
    Ok(data.join("singletree"))
}

/// Reads the address of a database from the environment.
fn read_store_variable(name: &str) -> Result<StoreUrl> {
    let missing = || Error::Usage("the variable that --store-env names is not set".to_owned());
    let text = read_env_variable(name).filter(|text| !text.trim().is_empty()).ok_or_else(missing)?;
    text.trim()
        .parse()
        .map_err(|error| Error::Usage(format!("the variable that --store-env names is {error}")))
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
