//! The part of a conversation that a model is shown: all of it, its end, or a summary and its end.

use std::sync::Arc;

use singletree_harness::Messages;
use singletree_llm::{ChatMessage, Role};

use crate::compaction::Compaction;
use crate::member::AgentMember;
use crate::summary::ConversationSummary;

/// The messages that a model is shown, without steering messages.
pub(crate) struct ShownMessages {
    pub(crate) messages: Vec<Arc<ChatMessage>>,
    /// How many of them come before those of the conversation, whose end the others are.
    pub(crate) skipped: usize,
}

/// Returns the messages of the next request. A pure function of the conversation, so that
/// the result is the same from memory and after a restart (INV-11); messages are shared with the state, not copied.
pub(crate) fn build_session_prompt(
    member: &AgentMember,
    compaction: Option<&Compaction>,
    (messages, summary): (&Messages, Option<&ConversationSummary>),
) -> ShownMessages {
    let mut shown: Vec<_> = member.system.iter().cloned().collect();
    if compaction.is_some() {
        shown.extend(summary.map(|summary| Arc::new(summary.to_user_message())));
    }
    let skipped = shown.len();
    match (compaction, member.window) {
        (Some(compaction), _) => shown.extend(compaction.unsummarised_messages(messages, summary)),
        (None, Some(window)) => shown.extend(messages.iter_window(window)),
        (None, None) => shown.extend(messages.iter()),
    }
    ShownMessages { messages: shown, skipped }
}

/// Returns the messages of a request that belongs to no session: all given messages. A system message at their
/// beginning is appended to the agent's own, since a model takes one system message.
pub(crate) fn build_stateless_prompt(member: &AgentMember, messages: &Messages) -> Vec<Arc<ChatMessage>> {
    let mut given: Vec<_> = messages.iter().collect();
    let Some(system) = &member.system else { return given };
    match given.first_mut().filter(|item| item.role == Role::System) {
        Some(first) => {
            *first = Arc::new(ChatMessage::system(format!("{}\n\n{}", system.text(), first.text())));
        }
        None => given.insert(0, system.clone()),
    }
    given
}
