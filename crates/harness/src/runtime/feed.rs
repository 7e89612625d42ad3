//! The live listeners of a session. The feed is only a hint: a listener reads missed events from the log.

use singletree_session::{ChatEvent, ChatEventKind, TurnId};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

/// The channel, and how far the durable events are that went through it.
#[derive(Debug, Default)]
struct BroadcastState {
    /// Made for the first listener.
    channel: Option<broadcast::Sender<Arc<ChatEvent>>>,
    /// The sequence number past the last durable event, also of those that nobody listened to.
    end: u64,
    acquired: AcquiredLog,
    /// The turn of the last piece of a message, and the number of the run that it is of.
    last_run: Option<(TurnId, u32)>,
}

/// How often this process has acquired the session where others may have written its log, and the sequence number past the
/// last event that the log had then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AcquiredLog {
    pub(crate) count: u64,
    pub(crate) end: u64,
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
        if let ChatEventKind::Delta { run, .. } | ChatEventKind::ThinkingDelta { run, .. } = &event.what {
            match &mut state.last_run {
                Some((turn, last)) if *turn == event.turn => *last = (*last).max(*run),
                other => *other = Some((event.turn.clone(), *run)),
            }
        }
        if let Some(channel) = &state.channel {
            // Nobody listening is no failure.
            drop(channel.send(Arc::new(event)));
        }
    }

    /// Returns the number of the last run of a turn of which a piece was published; 0 where another turn's was the last.
    pub(crate) fn last_run_of_turn(&self, turn: &TurnId) -> u32 {
        self.lock_state().last_run.as_ref().filter(|(of, _)| of == turn).map_or(0, |(_, run)| *run)
    }

    pub(crate) fn subscribe_to_events(&self) -> broadcast::Receiver<Arc<ChatEvent>> {
        self.lock_state().channel.get_or_insert_with(|| broadcast::Sender::new(self.backlog)).subscribe()
    }

    /// Returns the sequence number past the last durable event that was published by this process.
    pub(crate) fn published_end(&self) -> u64 {
        self.lock_state().end
    }

    /// Notes that the session is acquired, where others may have written its log up to this sequence number: every listener
    /// that has not come so far reads the log before it hands out another live event.
    pub(crate) fn note_acquisition(&self, end: u64) {
        let acquired = &mut self.lock_state().acquired;
        (acquired.count, acquired.end) = (acquired.count + 1, acquired.end.max(end));
    }

    /// Returns the acquisitions that were noted.
    pub(crate) fn acquired_log(&self) -> AcquiredLog {
        self.lock_state().acquired
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
