//! Subscribing to a session: its events, and the outcomes of turns that resume (D5, D9, harness-chat §8.2).

use singletree_session::{ChatEvent, ChatEventId, ChatEventKind, ChatTurnOutcome};

use std::sync::Arc;

use futures_core::Stream;
use futures_util::StreamExt;

use crate::api::chat_session::Session;
use crate::api::listen::EventListener;
use crate::api::listen_scope::ListenPosition;
use crate::runtime::loaded_session::{LoadedSession, OutcomeListener};
use crate::{Error, Result};

/// A subscription to the outcomes of resumed turns; ends when it is dropped.
#[must_use]
pub struct OutcomeSubscription {
    loaded: Arc<LoadedSession>,
    id: u64,
}

impl std::fmt::Debug for OutcomeSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OutcomeSubscription({})", self.loaded.key.session)
    }
}

impl Drop for OutcomeSubscription {
    fn drop(&mut self) {
        self.loaded.lock_outcome_listeners().all.retain(|(id, _)| *id != self.id);
    }
}

impl Session {
    /// Returns the events of a session, first the stored ones and then new ones (D9): all after the event that was seen
    /// last; without one, all from the oldest that is kept. No gap, no repeat, across restarts. Deltas and tool
    /// activity come only while they happen; a listener that comes late gets the text so far.
    ///
    /// Events that a stream has not handed out yet are kept for it, whatever the retention. When the session is
    /// deleted, the stream ends with `chat_session_unknown`, after the events of before.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`; `chat_events_expired`, with the oldest id, when something after `after` is not
    /// kept any more, or it is of another log; `chat_event_unknown` when this log has never come so far;
    /// `chat_subscriptions_full`, `chat_sessions_full`, `store_unavailable` and its kin. In the stream the store's
    /// errors, as the last item.
    ///
    /// # Cancellation
    /// Dropping call or stream changes nothing.
    pub(crate) async fn open_event_stream(
        &self,
        after: Option<ChatEventId>,
    ) -> Result<impl Stream<Item = Result<ChatEvent>> + Send + use<>> {
        let loaded = self.chat.inner.session_in_memory(&self.chat.session_key(&self.id)?)?;
        if after.as_ref().is_some_and(|after| *after.epoch != *self.chat.inner.epoch) {
            let oldest = self.chat.find_oldest_event(&loaded).await?;
            return Err(Error::EventsExpired { oldest: oldest.to_string() });
        }
        let begin = after.map_or(ListenPosition::Oldest, |after| ListenPosition::After(after.seq));
        let mut events = EventListener::open_at_position(self.chat.clone(), loaded, begin, None)?;
        events.ensure_no_gap().await?;
        Ok(events.into_stream())
    }

    /// Counts who follows a session in this process: open streams of its events or of one of its turns, and calls that
    /// wait for the outcome of a turn. Subscriptions do not count.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `chat_tenant_foreign`.
    pub fn followers(&self) -> Result<usize> {
        let Some(loaded) = self.chat.inner.find_loaded_session(&self.chat.session_key(&self.id)?) else {
            return Ok(0);
        };
        Ok(loaded.readers.reader_count() + Arc::strong_count(&loaded.waiting).saturating_sub(1))
    }

    /// Returns the outcomes, completed or errored, of the turns that resume or close a suspended one, each with the id
    /// of its event: those that were missed since the event that was seen last, then those to come (D5). Once each in
    /// one stream; a caller that asks again with the last id gets the missed ones, also after a crash.
    ///
    /// # Errors
    /// As [`Session::events`].
    ///
    /// # Cancellation
    /// As [`Session::events`].
    pub async fn resumed(
        &self,
        after: Option<ChatEventId>,
    ) -> Result<impl Stream<Item = Result<(ChatEventId, Arc<ChatTurnOutcome>)>> + Send + use<>> {
        let events = self.open_event_stream(after).await?;
        let resumed = events.filter_map(|event| {
            let resumed = event.map(|event| {
                let is_end = !matches!(event.what, ChatEventKind::TurnSuspended { .. });
                let outcome = event.what.outcome().filter(|_| event.turn.ordinal > 0 && is_end).cloned();
                event.id.zip(outcome)
            });
            std::future::ready(resumed.transpose())
        });
        Ok(Box::pin(resumed))
    }

    /// Calls back with the outcome of each turn that resumes a suspended one, completed or errored, exactly once each,
    /// until the subscription is dropped (harness-chat §8.2, D5). A turn that suspends is not told, nor is one that
    /// resumes and suspends again.
    ///
    /// The callback runs in the task of the session and delays its next turn; let it hand over and return. Where several
    /// processes write the store, it is told of turns that this process ends; [`Session::resumed`] has those of all.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `chat_subscriptions_full`, `chat_sessions_full`.
    pub fn subscribe(
        &self,
        callback: impl Fn(Arc<ChatTurnOutcome>) + Send + Sync + 'static,
    ) -> Result<OutcomeSubscription> {
        let loaded = self.chat.inner.session_in_memory(&self.chat.session_key(&self.id)?)?;
        let callback: OutcomeListener = Arc::new(callback);
        let id = {
            let mut listeners = loaded.lock_outcome_listeners();
            let max = self.chat.inner.limits.subscriptions;
            if listeners.all.len() >= max {
                return Err(Error::SubscriptionsFull { max });
            }
            let id = listeners.next;
            listeners.next += 1;
            listeners.all.push((id, callback));
            id
        };
        Ok(OutcomeSubscription { loaded, id })
    }
}
