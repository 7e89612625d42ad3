//! The end of a run: faults are over, and everything that was accepted has to end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use singletree_campaign::CampaignStore;
use singletree_durable::{
    DocumentStore, Journal, MemoryStore, SessionId, SessionKey, StoredTurnKind, TenantId, TurnRowQuery,
    WaitRowQuery,
};
use singletree_harness::Notice;

use super::SimulatedWorld;
use crate::oracle::is_campaign_under_way;

/// How long everything may take to end once faults are over. Longer than a turn may run, with all its attempts.
const BOUND: Duration = Duration::from_secs(30 * 60);

/// For how many looks at a quiet store calls may still be open: longer than reads may take, one after the other.
const CALLS_PATIENCE: u32 = 150;

/// How often it looks.
const TICK: Duration = Duration::from_secs(2);

impl SimulatedWorld {
    /// Waits until nothing is open but what waits for a person, or the bound is reached: then the audit finds it.
    pub(crate) async fn settle(self: &Arc<Self>) {
        let until = self.executor.now() + BOUND;
        let (mut quiet, mut calls_over) = (0, 0);
        while self.executor.now() < until {
            self.executor.sleep_for(TICK).await;
            quiet = if self.is_quiet() { quiet + 1 } else { 0 };
            // A call may still read; one that waits behind a wait for good is left.
            // Who has read a campaign may still say something about it.
            let are_idle = self.campaigns.as_ref().is_none_or(|campaigns| campaigns.is_idle());
            // Whoever was told that it is not known whether a message is accepted is told so before it is known: the message is
            // looked up once more, a second later.
            calls_over = if are_idle && self.open_count() == 0 { calls_over + 1 } else { 0 };
            if quiet > CALLS_PATIENCE || (quiet > 2 && calls_over > 1) {
                return;
            }
        }
        self.executor.trace_event(format_args!("not everything has ended"));
    }

    fn is_quiet(&self) -> bool {
        let Some(_) = self.current_process() else { return false };
        let data = self.store.data();
        let notices = data.read_documents(&TenantId::single(), Notice::KIND, None, 1).now_or_never();
        let are_delivered = notices.and_then(Result::ok).is_none_or(|left| left.is_empty());
        are_delivered
            && !self.has_open_campaigns(&data)
            && !self.session_keys().iter().any(|key| is_under_way(&data, key))
    }

    /// Tells whether a campaign goes on by itself, or a cycle of one is not over.
    fn has_open_campaigns(&self, data: &MemoryStore) -> bool {
        let Some(campaigns) = &self.campaigns else { return false };
        let (store, (_, now)) = (CampaignStore::new(Arc::new(data.clone())), self.times_of_day());
        campaigns.names().into_iter().any(|name| {
            // The data itself answers at once.
            let head = store.load_head(&name.tenant, &name.id).now_or_never().and_then(Result::ok).flatten();
            head.is_some_and(|board| is_campaign_under_way(&board, now))
                || name.session_key().is_some_and(|key| is_under_way(data, &key))
        })
    }

    /// Returns the keys of all sessions, those of campaigns included.
    pub(crate) fn all_session_keys(&self) -> Vec<SessionKey> {
        let names = self.campaigns.iter().flat_map(|campaigns| campaigns.names());
        let of_campaigns = names.filter_map(|name| name.session_key());
        self.session_keys().into_iter().chain(of_campaigns).collect()
    }

    /// Returns the keys of the sessions that clients asked for.
    pub(crate) fn session_keys(&self) -> Vec<SessionKey> {
        let sessions = self.sessions.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = |(tenant, session): &(String, String)| {
            Some(SessionKey::new(TenantId::parse(tenant).ok()?, SessionId::parse(session).ok()?))
        };
        sessions.iter().filter_map(key).collect()
    }
}

/// Tells whether a turn has no outcome, but for those that wait behind a wait.
fn is_under_way(data: &MemoryStore, key: &SessionKey) -> bool {
    // The data itself answers at once.
    let open =
        data.read_turns(key, &TurnRowQuery::Open).now_or_never().and_then(Result::ok).unwrap_or_default();
    let query = WaitRowQuery::Pending(key.clone());
    let waits = data.read_waits(&query).now_or_never().and_then(Result::ok).unwrap_or_default();
    let runs = open.iter().any(|turn| turn.kind != StoredTurnKind::Message);
    runs || (!open.is_empty() && waits.is_empty()) || waits.iter().any(|(_, wait)| wait.deadline.is_some())
}
