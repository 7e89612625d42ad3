//! JSON text that is passed through, not looked into.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON document kept as text, so that a store neither parses nor re-orders it.
///
/// Two documents are equal when their texts are.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonDocument(Box<str>);

impl JsonDocument {
    /// Serialises a value.
    ///
    /// # Errors
    /// Whatever `serde_json` finds unrepresentable: NaN, infinities, maps with keys that are not strings.
    pub fn from_serializable<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
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

    /// Returns the depth of nested arrays and objects in a JSON text, in one pass: 0 for a number or a text.
    /// `serde_json` reads 127 levels and refuses more, so stored values must stay below.
    #[must_use]
    pub fn nesting_depth(text: &str) -> usize {
        let (mut level, mut deepest) = (0_usize, 0);
        let (mut is_text, mut is_escaped) = (false, false);
        for byte in text.bytes() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_text => is_escaped = true,
                b'"' => is_text = !is_text,
                b'[' | b'{' if !is_text => {
                    level += 1;
                    deepest = deepest.max(level);
                }
                b']' | b'}' if !is_text => level = level.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// Decodes the document.
    ///
    /// # Errors
    /// When the text is not JSON, or not of this shape.
    pub fn decode<'a, T: Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_str(&self.0)
    }
}

impl From<&Value> for JsonDocument {
    fn from(value: &Value) -> Self {
        Self(value.to_string().into_boxed_str())
    }
}

impl fmt::Debug for JsonDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_outside_of_texts_only() {
        let cases = [
            ("1", 0),
            (r#""[{""#, 0),
            ("[]", 1),
            (r#"{"a":[1,{"b":2}],"c":{}}"#, 3),
            (r#"["\\",["\"[[",[0]]]"#, 3),
            (r#"[{"[":"]]]"},[]]"#, 2),
        ];
        for (text, levels) in cases {
            assert_eq!(JsonDocument::nesting_depth(text), levels, "{text}");
        }
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(JsonDocument::from_text(deep(127)).decode::<Value>().is_ok());
        assert!(JsonDocument::from_text(deep(128)).decode::<Value>().is_err());
    }
}
