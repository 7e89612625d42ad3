//! How far open turns are: a view of this process's memory, never stored (D36).

use singletree_session::{QueuedWork, TurnId};

use crate::api::chat::Chat;
use crate::runtime::loaded_session::LoadedSession;
use crate::turn::activity_events::{TurnActivity, TurnActivityState};
use crate::turn::stream::TurnStream;

impl Chat {
    /// Tells how far an open turn is, as far as this process knows: none for a turn that has ended or suspended, that
    /// another process runs, or whose session is not in memory. Nothing is read from the store. Every session in memory
    /// is looked at: [`Session::turn_info`](crate::Session::turn_info), which knows the session, is quicker where there are many.
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
