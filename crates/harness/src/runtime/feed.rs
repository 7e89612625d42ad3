//! The live listeners of a session. The feed is only a hint: a listener reads missed events from the log.

use singletree_session::ChatEvent;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

/// The channel, and how far the durable events are that went through it.
#[derive(Debug, Default)]
struct BroadcastState {
    /// Made for the first listener.
    channel: Option<broadcast::Sender<Arc<ChatEvent>>>,
    /// The sequence number past the last durable event, also of those that nobody listened to.
    end: u64,
    /// How often this process has acquired the session after others may have written its log.
    acquisitions: u64,
}

/// Carries a session's events to those who listen in this process. Costs nothing until somebody does.
#[derive(Debug, Clone)]
pub(crate) struct EventBroadcast {
    backlog: usize,
    /// Held for a moment, never across an await.
    state: Arc<Mutex<BroadcastState>>,
}

impl EventBroadcast {
    pub(crate) fn new(backlog: usize) -> Self {
        Self { backlog: backlog.max(1), state: Arc::default() }
    }

    fn lock_state(&self) -> MutexGuard<'_, BroadcastState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever listens. Never waits; a listener that is too slow reads the log instead.
    pub(crate) fn publish_event(&self, event: ChatEvent) {
        let mut state = self.lock_state();
        if let Some(id) = &event.id {
            state.end = state.end.max(id.seq.saturating_add(1));
        }
        if let Some(channel) = &state.channel {
            // Nobody listening is no failure.
            drop(channel.send(Arc::new(event)));
        }
    }

    pub(crate) fn subscribe_to_events(&self) -> broadcast::Receiver<Arc<ChatEvent>> {
        self.lock_state().channel.get_or_insert_with(|| broadcast::Sender::new(self.backlog)).subscribe()
    }

    /// Returns the sequence number past the last durable event that was published by this process.
    pub(crate) fn published_end(&self) -> u64 {
        self.lock_state().end
    }

    /// Notes that the session is acquired, and that others may have written its log before: every listener reads the log
    /// before it hands out another live event.
    pub(crate) fn note_acquisition(&self) {
        self.lock_state().acquisitions += 1;
    }

    /// Returns how many acquisitions were noted.
    pub(crate) fn acquisition_count(&self) -> u64 {
        self.lock_state().acquisitions
    }

    /// Signals to all listeners, after all earlier events, that the log has ended.
    pub(crate) fn close_channel(&self) {
        self.lock_state().channel = None;
    }

    pub(crate) fn listener_count(&self) -> usize {
        self.lock_state().channel.as_ref().map_or(0, broadcast::Sender::receiver_count)
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.lock_state().channel.as_ref().is_some_and(|channel| channel.receiver_count() > 0)
    }
}
