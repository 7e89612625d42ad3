//! Everything that is wrong with a file, for people and for programs.

use std::cell::RefCell;
use std::fmt;

use serde::Serialize;

use crate::spot::line_and_column;

/// The kind of a mistake: a stable word for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MistakeKind {
    /// The text is no TOML.
    Syntax,
    /// The file cannot be read, or is larger than it may be.
    Unreadable,
    /// Nobody reads this key.
    UnknownKey,
    /// A key that must be there is not.
    Missing,
    /// The value is of another type, or outside of its range.
    Value,
    /// Two keys say different things, or a key says nothing here.
    Contradiction,
    /// A name that stands for nothing.
    UnknownName,
    /// A key or a token stands in the file itself.
    SecretByValue,
    /// An environment variable that is not set, or a file that cannot be read.
    Unavailable,
    /// Something that cannot be undone could be done without anybody being asked.
    Unapproved,
    /// The agent's settings need another level of durability.
    Durability,
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConfigMistake {
    /// The line, from 1.
    pub line: usize,
    /// The column, in characters, from 1.
    pub column: usize,
    /// The kind of the mistake.
    pub kind: MistakeKind,
    /// The description of the mistake. Never holds a secret, nor a text that might be one.
    pub what: String,
    /// How to correct it, where that is known.
    pub hint: Option<String>,
}

/// All mistakes of a file, in the order of their places.
///
/// `Display` is for people: `FILE:LINE:COLUMN: DESCRIPTION`, and the hint on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ConfigReport {
    /// Which file, as whoever asked calls it.
    pub file: String,
    /// The mistakes; in an error at least one.
    pub mistakes: Vec<ConfigMistake>,
}

impl ConfigReport {
    /// Makes the report about a file in which nothing is wrong.
    #[must_use]
    pub fn without_mistakes(file: &str) -> Self {
        Self { file: file.to_owned(), mistakes: Vec::new() }
    }
}

impl fmt::Display for ConfigReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{}:{}:{}: {}", self.file, mistake.line, mistake.column, mistake.what)?;
            if let Some(hint) = &mistake.hint {
                write!(f, "\n    hint: {hint}")?;
            }
        }
        Ok(())
    }
}

/// Collects mistakes while a file is looked at.
#[derive(Debug, Default)]
pub(crate) struct MistakeCollector(RefCell<Vec<CollectedMistake>>);

#[derive(Debug)]
struct CollectedMistake {
    at: usize,
    kind: MistakeKind,
    what: String,
    hint: Option<String>,
}

impl MistakeCollector {
    /// Records a mistake, with a hint how to correct it.
    pub(crate) fn add_with_hint(
        &self,
        at: usize,
        kind: MistakeKind,
        what: impl Into<String>,
        hint: impl Into<Option<String>>,
    ) {
        let fault = CollectedMistake { at, kind, what: what.into(), hint: hint.into() };
        self.0.borrow_mut().push(fault);
    }

    /// Takes down a mistake that explains itself.
    pub(crate) fn add_mistake(&self, at: usize, kind: MistakeKind, what: impl Into<String>) {
        self.add_with_hint(at, kind, what, None);
    }

    /// Says whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Makes the report, in the order of the text.
    pub(crate) fn into_report(self, file: &str, text: &str) -> ConfigReport {
        let mut faults = self.0.into_inner();
        faults.sort_by_key(|fault| fault.at);
        let mistakes = faults.into_iter().map(|CollectedMistake { at, kind, what, hint }| {
            let (line, column) = line_and_column(text, at);
            ConfigMistake { line, column, kind, what, hint }
        });
        ConfigReport { file: file.to_owned(), mistakes: mistakes.collect() }
    }
}
