//! How far a running turn is: the events of this process that are never stored (D36).

use singletree_durable::Timestamp;
use singletree_session::{ChatEvent, ChatEventKind};

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
