//! The part of a conversation that a model is shown: all of it, its end, or a summary and its end.

use std::sync::Arc;

use singletree_harness::Messages;
use singletree_llm::{ChatMessage, Role};

use crate::compaction::Compaction;
use crate::member::AgentMember;
use crate::summary::ConversationSummary;

/// Returns the messages of the next request, without steering messages. A pure function of the conversation, so that
/// the result is the same from memory and after a restart (INV-11); messages are shared with the state, not copied.
pub(crate) fn build_session_prompt(
    member: &AgentMember,
    compaction: Option<&Compaction>,
    (messages, summary): (&Messages, Option<&ConversationSummary>),
) -> Vec<Arc<ChatMessage>> {
    let system = member.system.iter().cloned();
    match (compaction, member.window) {
        (Some(compaction), _) => {
            let stands_for = summary.map(|summary| Arc::new(summary.to_user_message()));
            system.chain(stands_for).chain(compaction.unsummarised_messages(messages, summary)).collect()
        }
        (None, Some(window)) => system.chain(messages.iter_window(window)).collect(),
        (None, None) => system.chain(messages.iter()).collect(),
    }
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
