//! The canonical history field: `messages`, a list of chat messages under `append` (harness-chat §4).

use singletree_graph::{Item, SharedList};
use singletree_llm::{ChatMessage, Role, ToolCall, find_open_calls};

/// The name of the history field (harness-chat §4).
pub const HISTORY: &str = "messages";

/// The name by which the message type is declared in a schema.
pub const MESSAGE_SHAPE: &str = "ChatMessage";

/// Makes an item of a message.
#[must_use]
pub(crate) fn item_from_message(message: ChatMessage) -> Item {
    Item::from_typed(message)
}

/// Finds the tool calls of the last assistant message that no tool message after it answers (INV-6): the position of
/// the message, and each call with its index in it.
#[must_use]
pub fn locate_open_calls(history: &SharedList<ChatMessage>) -> Option<(u64, Vec<(u64, ToolCall)>)> {
    let mut after = Vec::new();
    for message in history.iter().rev() {
        match message.role {
            Role::Assistant => {
                let position = history.len() - 1 - after.len() as u64;
                after.reverse();
                let open = find_open_calls(&message, &after);
                let is_open = |call: &ToolCall| open.iter().any(|item| std::ptr::eq(*item, call));
                let calls = (0..).zip(&message.tool_calls).filter(|(_, it)| is_open(it));
                return Some((position, calls.map(|(at, it)| (at, it.clone())).collect()));
            }
            Role::System | Role::User | Role::Tool => after.push(message),
        }
    }
    None
}
