//! What a call gives back to the model.

use serde::Serialize;

use crate::error::{Error, Result};

/// The result of a call. The text goes into the tool message; the rest stands beside it (D17).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// Whether the call did what it was asked.
    pub success: bool,
    /// The category of the error that this is the result of.
    pub category: Option<&'static str>,
}

impl Output {
    /// Makes a successful output of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), success: true, category: None }
    }

    /// Makes a successful output of JSON.
    ///
    /// # Errors
    ///
    /// `tool_failed` when the value cannot be written as JSON.
    pub fn json<T: Serialize>(value: &T) -> Result<Self> {
        serde_json::to_string(value)
            .map(Self::text)
            .map_err(|it| Error::failed_by("the result cannot be written as JSON", it))
    }

    /// Makes the output of a call that failed.
    #[must_use]
    pub fn failed(error: &Error) -> Self {
        Self { text: format!("error: {error}"), success: false, category: Some(error.category()) }
    }

    /// Cuts the text to at most this many bytes, with a note of what is missing, if there is room.
    #[must_use]
    pub(crate) fn capped(mut self, bytes_max: usize) -> Self {
        let bytes = self.text.len();
        if bytes <= bytes_max {
            return self;
        }
        let note = format!("\n[cut: the whole output has {bytes} bytes]");
        let (kept, note) = match bytes_max.checked_sub(note.len()) {
            Some(kept) => (kept, note.as_str()),
            None => (bytes_max, ""),
        };
        self.text.truncate(self.text.floor_char_boundary(kept));
        self.text.push_str(note);
        self
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
