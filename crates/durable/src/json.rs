//! JSON text that is passed through, not looked into.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON document kept as text, so that a store neither parses nor re-orders it.
///
/// Two documents are equal when their texts are.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<str>);

impl Json {
    /// Serialises a value.
    ///
    /// # Errors
    /// Whatever `serde_json` finds unrepresentable: NaN, infinities, maps with keys that are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        serde_json::to_string(value).map(|text| Self(text.into_boxed_str()))
    }

    /// Takes text that is known to be JSON, as a store reads it back.
    #[must_use]
    pub fn from_text(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as its own.
    #[must_use]
    pub fn into_text(self) -> Box<str> {
        self.0
    }

    /// Decodes the document.
    ///
    /// # Errors
    /// When the text is not JSON, or not of this shape.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into_boxed_str())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
