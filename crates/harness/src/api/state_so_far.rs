//! The state of a turn that runs, for a listener that comes late.

use singletree_session::ChatEvent;

use crate::runtime::feed::EventBroadcast;
use crate::turn::stream::TurnStream;

/// How far a turn is, and the text and the thinking that it shows, as far as no durable event holds them.
///
/// It belongs behind the durable events that were published before it was taken: its text may answer a message that is one
/// of them, and the turn itself may have been accepted by one.
#[derive(Debug)]
pub(crate) struct StateSoFar {
    /// How far the turn is.
    pub(crate) activity: Option<ChatEvent>,
    /// The messages that steer it, which it has taken and which are not recorded.
    pub(crate) taken: Vec<ChatEvent>,
    pub(crate) thinking: Option<ChatEvent>,
    pub(crate) text: Option<ChatEvent>,
    /// The sequence number past the last durable event that was published before.
    pub(crate) after: u64,
}

impl StateSoFar {
    /// Takes the state of a turn, between two durable events of its session.
    pub(crate) fn take(feed: &EventBroadcast, stream: &TurnStream) -> Self {
        loop {
            let state = Self {
                after: feed.published_end(),
                activity: stream.last_activity_event(),
                taken: stream.taken_message_events(),
                thinking: stream.thinking_so_far_event(),
                text: stream.text_so_far_event(),
            };
            if feed.published_end() == state.after {
                return state;
            }
        }
    }
}
