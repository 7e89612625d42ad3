//! Where the events of a run go: to the port that keeps the run, at once, and to observers, through their queue.

use std::sync::Arc;

use super::event::GraphEvent;
use super::observe::Subscription;
use super::port::PersistencePort;
use super::queue::EventQueue;

/// The ways out of a run for its events. A run has none when nobody wants them; then no event is made.
pub(crate) struct EventOutlet {
    /// The queue to the observers, where there are any.
    queue: Option<EventQueue>,
    /// The port, where it notes events.
    port: Option<Arc<dyn PersistencePort>>,
}

impl EventOutlet {
    /// Makes the outlet of a run; nothing where neither an observer nor the port wants events.
    pub(crate) fn new(queue: Option<EventQueue>, port: &Arc<dyn PersistencePort>) -> Option<Self> {
        let port = port.notes_events().then(|| port.clone());
        (queue.is_some() || port.is_some()).then_some(Self { queue, port })
    }

    /// Hands an event to the port, and puts it in the queue of the observers. Never waits.
    pub(crate) fn dispatch_event(&self, event: GraphEvent, observers: Arc<[Subscription]>) {
        if let Some(port) = self.port.as_ref().filter(|_| !matches!(event, GraphEvent::LlmToken(_))) {
            port.note_event(&event);
        }
        if let Some(queue) = &self.queue {
            queue.dispatch_event(event, observers);
        }
    }

    /// Tells whether the port notes events.
    pub(crate) fn reaches_port(&self) -> bool {
        self.port.is_some()
    }

    /// Returns the queue of the observers.
    pub(crate) fn observer_queue(&self) -> Option<&EventQueue> {
        self.queue.as_ref()
    }
}
