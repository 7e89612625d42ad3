//! What a model is shown of a conversation: all of it, its end, or a summary and its end.

use std::sync::Arc;

use singletree_harness::Messages;
use singletree_llm::ChatMessage;

use crate::compaction::Compaction;
use crate::member::Member;
use crate::summary::Summary;

/// Returns the messages of the next request, without what steers. A pure function of the conversation, so that it is the same
/// from memory and after a restart (INV-11); messages are shared with the state, not copied.
pub(crate) fn shown(
    member: &Member,
    compaction: Option<&Compaction>,
    (messages, summary): (&Messages, Option<&Summary>),
) -> Vec<Arc<ChatMessage>> {
    let system = member.system.iter().cloned();
    match (compaction, member.window) {
        (Some(compaction), _) => {
            let stands_for = summary.map(|it| Arc::new(it.message()));
            system.chain(stands_for).chain(compaction.rest(messages, summary)).collect()
        }
        (None, Some(window)) => system.chain(messages.window(window)).collect(),
        (None, None) => system.chain(messages.iter()).collect(),
    }
}
