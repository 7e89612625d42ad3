//! How tool calls end, by the messages that answer them.

use serde::Serialize;
use serde_json::Value;

/// How the result of a tool that failed begins.
const FAILED: &str = "error: ";

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It gave a result.
    Done,
    /// It gave an error.
    Error,
    /// A person said no, or nobody answered in time.
    Denied,
    /// It was closed because its turn was cancelled.
    Cancelled,
    /// It was closed because its turn failed.
    Failed,
    /// It had begun, and whether it took effect is not known.
    Unknown,
}

impl CallStatus {
    /// Returns the word that JSON has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// Returns how a call ended (D8): by the side record of its answer, or without one by the answer's text.
pub(crate) fn classify_call_status(text: &str, side: Option<&Value>) -> CallStatus {
    let success = side.and_then(|side| side.get("success")).and_then(Value::as_bool);
    if success == Some(true) {
        return CallStatus::Done;
    }
    if success == Some(false) || text.starts_with(FAILED) {
        return CallStatus::Error;
    }
    let closed: Option<serde_json::Map<String, Value>> = serde_json::from_str(text).ok();
    let closed = closed.filter(|closed| closed.len() == 2 && closed.contains_key("reason"));
    match closed.as_ref().and_then(|closed| closed.get("status")).and_then(Value::as_str) {
        Some("denied") => CallStatus::Denied,
        Some("cancelled") => CallStatus::Cancelled,
        Some("failed") => CallStatus::Failed,
        Some("unknown") => CallStatus::Unknown,
        Some(_) | None => CallStatus::Done,
    }
}
