//! The live listeners of a session. The feed is only a hint: a listener reads missed events from the log.

use singletree_session::ChatEvent;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

type EventSender = Option<broadcast::Sender<Arc<ChatEvent>>>;

/// Carries a session's events to those who listen in this process. Costs nothing until somebody does.
#[derive(Debug, Clone)]
pub(crate) struct EventBroadcast {
    backlog: usize,
    /// Made for the first listener. Held for a moment, never across an await.
    channel: Arc<Mutex<EventSender>>,
}

impl EventBroadcast {
    pub(crate) fn new(backlog: usize) -> Self {
        Self { backlog: backlog.max(1), channel: Arc::default() }
    }

    fn lock_channel(&self) -> MutexGuard<'_, EventSender> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever listens. Never waits; a listener that is too slow reads the log instead.
    pub(crate) fn publish_event(&self, event: ChatEvent) {
        if let Some(channel) = self.lock_channel().as_ref() {
            // Nobody listening is no failure.
            drop(channel.send(Arc::new(event)));
        }
    }

    pub(crate) fn subscribe_to_events(&self) -> broadcast::Receiver<Arc<ChatEvent>> {
        self.lock_channel().get_or_insert_with(|| broadcast::Sender::new(self.backlog)).subscribe()
    }

    /// Signals to all listeners, after all earlier events, that the log has ended.
    pub(crate) fn close_channel(&self) {
        *self.lock_channel() = None;
    }

    pub(crate) fn listener_count(&self) -> usize {
        self.lock_channel().as_ref().map_or(0, broadcast::Sender::receiver_count)
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.lock_channel().as_ref().is_some_and(|channel| channel.receiver_count() > 0)
    }
}
