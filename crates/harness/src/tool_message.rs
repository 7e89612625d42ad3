//! Messages of the role tool that are sent to a session: they answer an open call, or are refused (harness-chat §10.4).

use std::sync::Arc;

use singletree_engine::{Item, PersistentList};
use singletree_llm::{ChatMessage, Role};

use crate::chat::Chat;
use crate::chat_inner::ServedAgent;
use crate::history::{HISTORY, Messages};
use crate::loaded_session::LoadedSession;
use crate::prepare::TurnPreparation;
use crate::runner::session_load_error;
use crate::{Error, Result, record, stored};

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
    let message = message.and_then(|message| record::decode_message(message).ok());
    let Some(answer) = message.filter(|message| message.role == Role::Tool) else { return };
    closed.retain(|item| {
        !record::decode_message(item).is_ok_and(|message| message.tool_call_id == answer.tool_call_id)
    });
}

impl Chat {
    /// Refuses a tool message that answers no open call, where nothing is under way that may still make one: such a
    /// message is looked at when its turn comes.
    pub(crate) async fn check_tool_message(
        &self,
        loaded: &Arc<LoadedSession>,
        served: &Arc<ServedAgent>,
        message: &ChatMessage,
    ) -> Result<()> {
        let is_idle = {
            let state = loaded.lock_state();
            state.running_turn().is_none() && !state.has_queued_turns()
        };
        if message.role != Role::Tool || !is_idle {
            return Ok(());
        }
        let stored = TurnPreparation { inner: &self.inner, loaded, served }
            .load_session_fields()
            .await
            .map_err(session_load_error)?;
        let history = stored::find_list_field(&stored, HISTORY).cloned().unwrap_or_default();
        check_answers_open_call(&history, message)
    }
}
