//! Who listens to a session right now. A hint, never the truth: what a listener misses it reads from the log.

use std::sync::{Arc, OnceLock};

use tokio::sync::broadcast;

use crate::event::ChatEvent;

/// Carries a session's events to those who listen in this process. Costs nothing until somebody does.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    backlog: usize,
    channel: Arc<OnceLock<broadcast::Sender<Arc<ChatEvent>>>>,
}

impl Feed {
    pub(crate) fn new(backlog: usize) -> Self {
        Self { backlog: backlog.max(1), channel: Arc::default() }
    }

    /// Tells whoever listens. Never waits; a listener that is too slow reads the log instead.
    pub(crate) fn publish(&self, event: ChatEvent) {
        if let Some(channel) = self.channel.get() {
            // Nobody listening is no failure.
            drop(channel.send(Arc::new(event)));
        }
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<Arc<ChatEvent>> {
        self.channel.get_or_init(|| broadcast::Sender::new(self.backlog)).subscribe()
    }

    pub(crate) fn has_listeners(&self) -> bool {
        self.channel.get().is_some_and(|it| it.receiver_count() > 0)
    }
}
