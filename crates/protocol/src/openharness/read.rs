//! Reading messages so that a mistake is told with its place, and without what stands there.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::given::Object;
use super::request::RequestMessage;
use super::response::ResponseMessage;

/// Why a text is no message.
///
/// It names fields of the protocol and what is expected there, never anything that the message holds: it may be told to
/// anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Where: `context.user_intent`, below `request` or `response`; none when it is not JSON at all.
    pub field: Option<String>,
    /// What is wrong.
    pub why: String,
}

impl Malformed {
    /// Puts the parts together.
    #[must_use]
    pub fn at_field(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self { field: Some(field.into()), why: why.into() }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for Malformed {}

impl RequestMessage {
    /// Reads a request.
    ///
    /// # Errors
    /// Where it is none, and what would be expected there.
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        parse_json_object(bytes)
    }
}

impl ResponseMessage {
    /// Reads a response.
    ///
    /// # Errors
    /// As [`RequestMessage::from_json_bytes`].
    pub fn from_json_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        parse_json_object(bytes)
    }
}

/// Reads a shape of this protocol from an object.
///
/// # Errors
/// As [`RequestMessage::from_json_bytes`].
pub fn parse_json_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Malformed> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut reader);
    let Object(value) = read.map_err(|error| malformed_at(&error.path().to_string(), error.inner()))?;
    reader
        .end()
        .map_err(|_| Malformed { field: None, why: "the text goes on behind its JSON".to_owned() })?;
    Ok(value)
}

fn malformed_at(path: &str, error: &serde_json::Error) -> Malformed {
    if error.classify() != Category::Data {
        return Malformed { field: None, why: "the text is not JSON".to_owned() };
    }
    let place = if path == "." { "" } else { path };
    let text = error.to_string();
    // What serde says of a value quotes it; what it says of a field that is not there, or of what it expected, is ours.
    if let Some(name) = quoted_after(&text, "missing field `") {
        return Malformed { field: shown_field_path(&join_path(place, name)), why: "is missing".to_owned() };
    }
    if let Some(name) = quoted_after(&text, "duplicate field `") {
        return Malformed {
            field: shown_field_path(&join_path(place, name)),
            why: "is there twice".to_owned(),
        };
    }
    let why = match text.rsplit_once(", expected ") {
        Some((_, expected)) => {
            let expected = expected.split_once(" at line ").map_or(expected, |(it, _)| it);
            format!("expected {expected}")
        }
        None => "is not what is expected there".to_owned(),
    };
    Malformed { field: shown_field_path(place), why }
}

fn quoted_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split_once('`').map(|(name, _)| name)
}

fn join_path(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

/// Names a place below the payload as the protocol's own texts do.
fn shown_field_path(path: &str) -> Option<String> {
    let inner = path.strip_prefix("request.").or_else(|| path.strip_prefix("response."));
    Some(inner.unwrap_or(path).to_owned()).filter(|value| !value.is_empty())
}
