//! Reads from a tool message whether its call succeeded.

use serde_json::Value;
use singletree_llm::ChatMessage;

/// The statuses in the tool message of a call that was closed without being run to its end (D8).
const CLOSED: [&str; 4] = ["cancelled", "denied", "failed", "unknown"];

/// Returns whether the call of a tool message succeeded. The side record decides (D17); without one, the content, if
/// it is an object that closes the call (D8) or has `success`; otherwise the call succeeded.
pub(crate) fn has_call_succeeded(message: &ChatMessage, side: Option<&Value>) -> bool {
    if let Some(success) = side.and_then(|side| side.get("success")).and_then(Value::as_bool) {
        return success;
    }
    let text = message.text();
    let content: Option<Value> = text.starts_with('{').then(|| serde_json::from_str(&text).ok()).flatten();
    let Some(Value::Object(content)) = content else { return true };
    let closes = content.keys().all(|it| it == "status" || it == "reason")
        && content.get("status").and_then(Value::as_str).is_some_and(|value| CLOSED.contains(&value));
    !closes && content.get("success").and_then(Value::as_bool).unwrap_or(true)
}
