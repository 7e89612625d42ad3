//! A configuration that was read and found sound.

use std::path::Path;


use crate::check;
use crate::error::{Error, Result};
use crate::file::File;
use crate::report::{Faults, Mistake, MistakeKind, Report};
use crate::resolve::{Resolved, read_text, resolve};
use crate::surroundings::Surroundings;

/// How large a file may be, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration that was read and found sound. [`Config::build`] makes agents of it.
///
/// Holds the secrets that its agents need; `Debug` hides them.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) file: File,
    pub(crate) resolved: Resolved,
}

impl Config {
    /// Reads a text and checks everything that can be known without asking a server: syntax, keys, values, names, what
    /// cannot be undone and would not be asked about, variables and files. `file` is what the report calls it.
    ///
    /// # Errors
    /// The report of everything that is wrong.
    pub fn check(file: &str, text: &str, around: &Surroundings<'_>) -> Result<Self, Report> {
        let faults = Faults::default();
        let Some(read) = File::read(text, &faults) else { return Err(faults.report(file, text)) };
        check::check(&read, &faults);
        let resolved = resolve(&read, around, &faults);
        if !faults.is_empty() {
            return Err(faults.report(file, text));
        }
        Ok(Self { file: read, resolved })
    }

    /// Reads a file and checks it as [`Config::check`] does.
    ///
    /// # Errors
    /// `config_unreadable`, `config_invalid`.
    pub fn load(path: &Path, around: &Surroundings<'_>) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_text(path, FILE_BYTES_MAX).map_err(|why| Error::Unreadable { file: name.clone(), why })?;
        Self::check(&name, &text, around).map_err(|it| Error::Invalid(Box::new(it)))
    }

    /// Returns the names of the agents, the one that answers unless another is asked for first: `default_agent`, else the
    /// first of the file. The others stand in the order of the file.
    #[must_use]
    pub fn agents(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.file.agents.iter().map(|it| it.name.value.as_str()).collect();
        if let Some(default) = &self.file.default_agent {
            names.sort_by_key(|it| *it != default.value);
        }
        names
    }
}

impl Report {
    /// Makes the report about a file that cannot be read at all.
    pub(crate) fn unreadable(file: &str, why: &str) -> Self {
        let what = format!("the file cannot be read: {why}");
        let mistake = Mistake { line: 1, column: 1, kind: MistakeKind::Unreadable, what, hint: None };
        Self { file: file.to_owned(), mistakes: vec![mistake] }
    }
}
