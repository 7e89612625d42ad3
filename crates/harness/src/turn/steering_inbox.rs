//! The inbox by which a node of a running turn takes messages that steer it.

use std::sync::Arc;

use singletree_llm::ChatMessage;
use singletree_session::find_offered_places;

use crate::agents::history::Messages;
use crate::runtime::loaded_session::LoadedSession;
use crate::turn::stream::TurnStream;

/// Hands the running turn the messages that steer it. Nodes of the outermost graph get it from their
/// [`TurnContext`](crate::TurnContext).
#[derive(Debug, Clone)]
pub struct SteeringInbox {
    loaded: Arc<LoadedSession>,
    agent: String,
    stream: TurnStream,
}

impl SteeringInbox {
    pub(crate) fn new(loaded: Arc<LoadedSession>, agent: String, stream: TurnStream) -> Self {
        Self { loaded, agent, stream }
    }

    /// Returns the messages that have come to steer this turn, in the order of acceptance, and are not part of this
    /// history yet. Whoever asks appends them to `messages`, unchanged, in the update of the same node: in the commit
    /// of that they count as taken. Asked again before, as a node does that is tried again, it returns them again.
    ///
    /// Messages behind one that does not steer, or that is another agent's, keep their places.
    #[must_use]
    pub fn take_messages(&self, history: &Messages) -> Vec<ChatMessage> {
        let (offered, after) = self.loaded.lock_state().offer_steering(&self.agent);
        let places = find_offered_places(
            history.as_persistent_list(),
            self.stream.reply_boundary().max(after),
            &offered,
        );
        let new = offered.into_iter().zip(places).filter(|(_, place)| place.is_none());
        let new: Vec<_> = new.map(|(it, _)| it).collect();
        self.stream.show_taken_messages(history.len(), &new);
        new.iter().map(|it| it.message.as_ref().clone()).collect()
    }
}
