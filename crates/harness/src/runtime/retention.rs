//! How long data of the past is kept, and which sessions are looked at next (INV-12).

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use singletree_durable::SessionKey;
use tokio::sync::Notify;

/// How much is kept of a session beside its state and history. `None` keeps everything.
///
/// Never forgotten: messages of a history; all data of an invocation that is not over, so that each wait, answer,
/// recovery and duplicate still finds it; and events that a stream of this process has not handed out yet. A request
/// for data that is no longer kept gets an error: `chat_events_expired`, `chat_turn_unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// The number of a session's last turns whose records are kept. With a record go the turn's idempotency key (D3: a
    /// later send under it is a new one), its waits, its items that did not become history, and its events.
    pub turns: Option<u64>,
    /// How many of a session's last events are kept. They go in order, oldest first: an event that has to stay keeps
    /// those after it.
    pub events: Option<u64>,
    /// How old the end of a turn, or an event, may be. Whichever bound is narrower counts.
    pub age: Option<Duration>,
}

/// How much was forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionReport {
    /// Sessions of which something was forgotten.
    pub sessions: u64,
    /// Records of turns.
    pub turns: u64,
    /// Events.
    pub events: u64,
}

impl RetentionReport {
    pub(crate) fn add_session_report(&mut self, one: Self) {
        self.sessions += u64::from(one.turns + one.events > 0);
        self.turns += one.turns;
        self.events += one.events;
    }
}

/// The background work of a retention.
#[derive(Debug)]
pub(crate) struct RetentionWorker {
    pub(crate) retention: Option<Retention>,
    pub(crate) watching: AtomicBool,
    /// Sessions in which enough has happened that it is worth a look. Held for a moment.
    pub(crate) due: Mutex<BTreeSet<SessionKey>>,
    /// Rung when one is due, and at shutdown.
    pub(crate) bell: Arc<Notify>,
}

impl RetentionWorker {
    pub(crate) fn new(retention: Option<Retention>) -> Self {
        let (due, bell) = Default::default();
        Self { retention, watching: AtomicBool::new(false), due, bell }
    }

    pub(crate) fn take_due_sessions(&self) -> BTreeSet<SessionKey> {
        std::mem::take(&mut *self.due.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
