//! Whether a tool message tells of success.

use serde_json::Value;
use singletree_llm::ChatMessage;

/// What a tool message says of a call that was closed without being run to its end (D8).
const CLOSED: [&str; 4] = ["cancelled", "denied", "failed", "unknown"];

/// Tells whether a tool message tells of success: as its side record has it (D17); else as its content has it, where that is
/// an object which closes the call (D8) or says `success`; else it does.
pub(crate) fn success(message: &ChatMessage, side: Option<&Value>) -> bool {
    if let Some(success) = side.and_then(|side| side.get("success")).and_then(Value::as_bool) {
        return success;
    }
    let text = message.text();
    let content: Option<Value> = text.starts_with('{').then(|| serde_json::from_str(&text).ok()).flatten();
    let Some(Value::Object(content)) = content else { return true };
    let closes = content.keys().all(|it| it == "status" || it == "reason")
        && content.get("status").and_then(Value::as_str).is_some_and(|it| CLOSED.contains(&it));
    !closes && content.get("success").and_then(Value::as_bool).unwrap_or(true)
}
