//! How far open turns are: a view of this process's memory, never stored (D36).

use singletree_durable::Timestamp;

use crate::chat::Chat;
use crate::event::{ChatEvent, ChatEventKind};
use crate::loaded_session::LoadedSession;
use crate::session::QueuedWork;
use crate::stream::TurnStream;
use crate::turn_id::TurnId;

/// How far an open turn is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnActivity {
    /// How far.
    pub state: TurnActivityState,
    /// Since when.
    pub since: Timestamp,
}

/// The states of an open turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnActivityState {
    /// It waits until the turns before it have ended.
    Queued,
    /// It runs.
    Running,
    /// A call of its model failed and is made again.
    Retrying {
        /// The number of the attempt that follows, counted from 1 within the call: the first retry is 2.
        attempt: u32,
        /// When it is made.
        until: Timestamp,
        /// The category of the failure.
        category: String,
    },
    /// It is parked until the wait of its session is answered (D1).
    Waiting,
}

impl TurnActivityState {
    /// Returns the state's name, as it is written on the wire.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Retrying { .. } => "retrying",
            Self::Waiting => "waiting",
        }
    }
}

/// The last events of a running turn's activity.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActivityEvents {
    /// That it was started or restarted.
    begun: Option<ChatEvent>,
    /// That it retries, until the next attempt begins.
    retrying: Option<ChatEvent>,
    /// When the attempt began that followed a retry.
    attempt_began: Option<Timestamp>,
}

impl ActivityEvents {
    pub(crate) fn note_event(&mut self, event: &ChatEvent) {
        let place = if matches!(event.what, ChatEventKind::TurnRetrying { .. }) {
            &mut self.retrying
        } else {
            &mut self.begun
        };
        *place = Some(event.clone());
    }

    /// Notes that the next attempt begins.
    pub(crate) fn note_attempt_begun(&mut self, now: Timestamp) {
        if self.retrying.take().is_some() {
            self.attempt_began = Some(now);
        }
    }

    /// Returns the event for a listener that comes now.
    pub(crate) fn last_event(&self) -> Option<&ChatEvent> {
        self.retrying.as_ref().or(self.begun.as_ref())
    }

    pub(crate) fn current_activity(&self) -> Option<TurnActivity> {
        let event = self.last_event()?;
        Some(match &event.what {
            ChatEventKind::TurnRetrying { attempt, until, category } => {
                let state = TurnActivityState::Retrying {
                    attempt: *attempt,
                    until: *until,
                    category: category.clone(),
                };
                TurnActivity { state, since: event.at }
            }
            _ => TurnActivity {
                state: TurnActivityState::Running,
                since: self.attempt_began.unwrap_or(event.at),
            },
        })
    }
}

impl Chat {
    /// Tells how far an open turn is, as far as this process knows: none for a turn that has ended or suspended, that
    /// another process runs, or whose session is not in memory. Nothing is read from the store. Every session in memory
    /// is looked at: [`Chat::turn_info`], which knows the session, is quicker where there are many.
    #[must_use]
    pub fn activity(&self, id: &TurnId) -> Option<TurnActivity> {
        let tenant = self.served_tenant().ok()?;
        let loaded = self.inner.loaded_sessions().into_iter().filter(|loaded| loaded.key.tenant == *tenant);
        loaded.into_iter().find_map(|loaded| loaded.find_turn_activity(id))
    }
}

impl LoadedSession {
    /// Tells how far a turn is that has not ended.
    pub(crate) fn find_turn_activity(&self, id: &TurnId) -> Option<TurnActivity> {
        let state = self.lock_state();
        if let Some(running) =
            state.running_turn().filter(|running| running.handle.assigned_turn_id().as_ref() == Some(id))
        {
            let announced = running.handle.turn_stream().as_ref().and_then(TurnStream::current_activity);
            let since = running.since.map(|since| TurnActivity { state: TurnActivityState::Running, since });
            return announced.or(since);
        }
        // A message that was handed to the running turn, to steer it, is still one that waits.
        let waiting = state.find_waiting_turn(id)?;
        let (row, may_be_parked) = match &waiting.work {
            QueuedWork::Message { row, .. } => (row, true),
            QueuedWork::Recover { row, .. } => (row, false),
            QueuedWork::Answer(_) => return None,
        };
        let is_parked = may_be_parked && state.pending_wait().is_some();
        let state = if is_parked { TurnActivityState::Waiting } else { TurnActivityState::Queued };
        Some(TurnActivity { state, since: row.accepted_at })
    }
}
