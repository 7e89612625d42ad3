//! Messages of the role tool that are sent to a session: they answer an open call, or are refused (harness-chat §10.4).

use singletree_engine::{Item, PersistentList};
use singletree_llm::{ChatMessage, Role};
use singletree_session::decode_message;

use crate::agents::history::Messages;
use crate::{Error, Result};

/// Checks that a tool message answers an open call of the history (harness-chat §10.4); any other message may come.
pub(crate) fn check_answers_open_call(history: &PersistentList, message: &ChatMessage) -> Result<()> {
    let id = message.tool_call_id.as_deref();
    if message.role != Role::Tool || Messages::from_list(history).has_open_call(id) {
        return Ok(());
    }
    let why = format!("tool_call_id: {:?} is no open call of the conversation", id.unwrap_or_default());
    Err(Error::MessageShape { why })
}

/// Leaves out of the messages that close open calls the one whose call a tool message answers itself.
pub(crate) fn leave_out_answered(closed: &mut Vec<Item>, message: Option<&Item>) {
    let message = message.and_then(|message| decode_message(message).ok());
    let Some(answer) = message.filter(|message| message.role == Role::Tool) else { return };
    closed.retain(|item| {
        !decode_message(item).is_ok_and(|message| message.tool_call_id == answer.tool_call_id)
    });
}
