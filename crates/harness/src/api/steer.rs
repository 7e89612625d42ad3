//! The call that sends a message to the running turn.

use singletree_llm::ChatMessage;

use crate::Result;
use crate::api::chat_session::Session;
use crate::api::send_options::SendOptions;
use crate::api::turn::Turn;

impl Session {
    /// Accepts a message that steers: the turn that runs takes it before it asks its model the next time, if its graph
    /// looks for such messages ([`take_messages`](crate::SteeringInbox::take_messages); the loop of an agent does). If the turn ends before, or if none
    /// runs, the message has its own turn, as one that was sent. It is accepted durably, and reaches exactly one
    /// outcome, whatever dies when (INV-2).
    ///
    /// The outcome of a message that was taken comes with that of the turn that took it: completed with the messages
    /// after it, also where that turn suspends; errored as that turn. To cancel it is to cancel that turn. Which turn
    /// that was stands beside the message, in its side record: `{"taken_by": TURN}`, told by its
    /// [`MessageAppended`](crate::ChatEventKind::MessageAppended), which is an event of that turn, and by
    /// [`Session::history`].
    ///
    /// Messages are taken in the order of acceptance: one that waits behind a message that was sent waits its turn.
    ///
    /// # Errors
    /// As [`Session::submit`].
    ///
    /// # Cancellation
    /// A dropped call has accepted the message or has not.
    pub async fn steer(&self, message: impl Into<ChatMessage>, options: SendOptions) -> Result<Turn> {
        self.submit(message.into(), options.with_steering()).await
    }
}
