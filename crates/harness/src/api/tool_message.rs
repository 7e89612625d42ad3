//! Checks a message of the role tool before it is accepted (harness-chat §10.4).

use std::sync::Arc;

use singletree_llm::{ChatMessage, Role};
use singletree_session::{HISTORY, find_list_field};

use crate::Result;
use crate::api::chat::Chat;
use crate::runtime::chat_inner::ServedAgent;
use crate::runtime::loaded_session::LoadedSession;
use crate::turn::prepare::TurnPreparation;
use crate::turn::tool_message::check_answers_open_call;

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
        let read = TurnPreparation { inner: &self.inner, loaded, served }.load_session_fields().await;
        let stored = self.inner.translate_load_error(read)?;
        let history = find_list_field(&stored, HISTORY).cloned().unwrap_or_default();
        check_answers_open_call(&history, message)
    }
}
