//! A turn that was accepted: its name, its events, its end.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use futures_util::future::{pending, ready};
use futures_util::stream::{once, unfold};
use serde_json::Value;
use singletree_durable::{SessionKey, TurnRow, TurnRowQuery};
use singletree_llm::ChatMessage;
use singletree_session::{
    ChatEvent, ChatTurnOutcome, ModelTokenUsage, StoredOutcome, TurnId, TurnRowExt, WhileSuspended,
};
use tokio::sync::watch;

use crate::api::chat::Chat;
use crate::api::listen::{EventListener, LOOK_EVERY, LiveEvents};
use crate::api::listen_scope::{ListenPosition, ListenedTurn};
use crate::api::replay::EventReplay;
use crate::runtime::loaded_session::{LoadedSession, OutcomeReceiver};
use crate::runtime::outcome_reads::read_outcome;
use crate::{Error, Result};

/// A turn that was accepted. Dropping it cancels nothing.
#[derive(Debug, Clone)]
pub struct Turn {
    chat: Chat,
    key: SessionKey,
    id: TurnId,
    end: OutcomeSource,
    /// The turn's number, by which its events are found.
    no: Option<u64>,
    /// Where its events begin in the log.
    from: ListenPosition,
    /// The events heard since before the turn began; the first listener takes them.
    live: Option<Arc<Mutex<Option<LiveEvents>>>>,
}

#[derive(Debug, Clone)]
enum OutcomeSource {
    Waiting(OutcomeReceiver),
    Known(Arc<ChatTurnOutcome>),
}

impl Turn {
    pub(crate) fn with_outcome_receiver(
        chat: Chat,
        key: SessionKey,
        id: TurnId,
        told: OutcomeReceiver,
    ) -> Self {
        Self {
            chat,
            key,
            id,
            end: OutcomeSource::Waiting(told),
            no: None,
            from: ListenPosition::Oldest,
            live: None,
        }
    }

    /// Sets where in the log the turn begins, and the receiver that listens to it already.
    pub(crate) fn with_log_start(mut self, no: u64, from: u64, live: Option<LiveEvents>) -> Self {
        (self.no, self.from) = (Some(no), ListenPosition::At(from));
        self.live = live.map(|live| Arc::new(Mutex::new(Some(live))));
        self
    }

    /// Returns the turn's name.
    #[must_use]
    pub fn id(&self) -> &TurnId {
        &self.id
    }

    pub(crate) fn chat(&self) -> &Chat {
        &self.chat
    }

    pub(crate) fn session_key(&self) -> &SessionKey {
        &self.key
    }

    /// Returns the session that it is in.
    #[must_use]
    pub fn session(&self) -> &str {
        self.key.session.as_str()
    }

    /// Tells whether the call that returned this accepted the turn; else it was there before (D3).
    #[must_use]
    pub fn is_new(&self) -> bool {
        matches!(self.from, ListenPosition::At(_))
    }

    /// Tells whether it waits until the session's wait ends, as its agent wants messages to (D1): somebody has to
    /// answer that first.
    #[must_use]
    pub fn is_parked(&self) -> bool {
        let Ok(loaded) = self.chat.inner.session_in_memory(&self.key) else { return false };
        let state = loaded.lock_state();
        let agent = state.session_head().and_then(|head| self.chat.inner.agents.get(&head.agent));
        let queues = agent.is_some_and(|agent| agent.agent.while_suspended == WhileSuspended::Queue);
        queues
            && !self.is_over()
            && state.pending_wait().is_some_and(|wait| wait.invocation != self.id.invocation)
    }

    /// Waits for the outcome. It is recorded before it is told (INV-3). Over a store that other processes write, one of
    /// them may go on with the turn: then its outcome is looked for once a second.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing; it may be asked for again.
    pub async fn outcome(&self) -> Arc<ChatTurnOutcome> {
        match &self.end {
            OutcomeSource::Known(outcome) => outcome.clone(),
            OutcomeSource::Waiting(told) => {
                let _counted =
                    self.chat.inner.session_in_memory(&self.key).map(|loaded| loaded.waiting.clone());
                let (mut told, mut given_up) = (told.clone(), self.chat.inner.given_up.subscribe());
                let is_shared = self.chat.inner.journal.has_other_writers();
                let told = async {
                    let known = told.wait_for(Option::is_some).await.is_ok();
                    if !known && is_shared {
                        // Another process goes on with it.
                        return pending().await;
                    }
                    told.borrow().clone()
                };
                let known = tokio::select! {
                    biased;
                    outcome = told => outcome,
                    outcome = self.read_outcome_of_others() => Some(outcome),
                    _ = given_up.wait_for(|given_up| *given_up) => None,
                };
                if let Some(outcome) = known {
                    return outcome;
                }
                // The harness has shut down: a recorded outcome can still be read; other turns are taken over by the
                // next process.
                self.chat.unfinished_outcome(&self.id, &Error::ShuttingDown)
            }
        }
    }

    /// Looks for the outcome in the store, where another process may have recorded it; never returns in a store of one
    /// process.
    async fn read_outcome_of_others(&self) -> Arc<ChatTurnOutcome> {
        let inner = &self.chat.inner;
        if !inner.journal.has_other_writers() {
            return pending().await;
        }
        loop {
            inner.env.timer.sleep_for(LOOK_EVERY).await;
            let found = match self.read_turn_row().await {
                Ok(row) => self.chat.read_ended_outcome(&self.key, &row).await,
                Err(error) => Err(error),
            };
            let outcome = match found {
                Ok(Some(outcome)) => outcome,
                Err(error @ Error::TurnUnknown { .. }) => self.chat.unfinished_outcome(&self.id, &error),
                // It has not ended, or the store is asked again.
                Ok(None) | Err(_) => continue,
            };
            // A turn of this process tells more than the store does, and does so at once.
            inner.env.timer.sleep_for(LOOK_EVERY).await;
            return outcome;
        }
    }

    /// Reads the message that the turn answers, and its side record; none for a turn that answers a signal, closes a
    /// wait or retries another one over the history. Also of a turn that failed, whose message is no part of the
    /// history.
    ///
    /// # Errors
    /// `chat_turn_unknown` when its record is not kept any more; `store_unavailable` and its kin.
    pub async fn message(&self) -> Result<Option<(Arc<ChatMessage>, Option<Value>)>> {
        match self.read_turn_row().await?.message {
            Some(no) => EventReplay::new(&self.chat, &self.key).read_message_item(no).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads the turn's model usage, by model; nothing as long as it has not ended.
    ///
    /// # Errors
    /// As [`Turn::message`].
    pub async fn usage(&self) -> Result<Vec<ModelTokenUsage>> {
        let ended = StoredOutcome::from_turn_row(&self.read_turn_row().await?)?;
        Ok(ended.map(|ended| ended.used.to_token_usages()).unwrap_or_default())
    }

    async fn read_turn_row(&self) -> Result<TurnRow> {
        let inner = &self.chat.inner;
        let query = TurnRowQuery::Invocation(self.id.invocation.clone());
        let rows = inner.await_store_read(inner.journal.read_turns(&self.key, &query)).await?;
        let row = rows.into_iter().find(|row| row.ordinal == self.id.ordinal);
        row.ok_or_else(|| Error::TurnUnknown { turn: self.id.to_string() })
    }

    fn is_over(&self) -> bool {
        match &self.end {
            OutcomeSource::Known(_) => true,
            OutcomeSource::Waiting(told) => told.borrow().is_some(),
        }
    }

    /// Returns the events of this turn, those that happened before first; the last one tells the outcome (D9).
    ///
    /// # Errors
    /// The last item of the stream is an error when the log cannot be read, when it does not hold the whole turn any
    /// more (`chat_events_expired`), or when the session is deleted (`chat_session_unknown`); the only one, when too
    /// many listen (`chat_subscriptions_full`).
    ///
    /// # Cancellation
    /// Dropping the stream changes nothing.
    pub fn events(&self) -> impl futures_core::Stream<Item = Result<ChatEvent>> + Send + use<> {
        let live =
            self.live.as_ref().and_then(|live| live.lock().unwrap_or_else(PoisonError::into_inner).take());
        let only = ListenedTurn::new(self.id.clone(), self.no, self.is_over());
        let chat = self.chat.clone();
        let ours = self.chat.inner.session_in_memory(&self.key).and_then(|loaded| match live {
            Some(live) => EventListener::resume_with_events(chat, loaded, (self.from, live), only),
            None => EventListener::open_at_position(chat, loaded, self.from, Some(only)),
        });
        let ours = match ours {
            Ok(events) => events.into_stream().left_stream(),
            Err(error) => once(ready(Err(error))).right_stream(),
        };
        // It ends with the outcome itself: nothing of the turn comes after it that one could wait for.
        Box::pin(unfold(Some(ours), |ours| async {
            let mut ours = ours?;
            let event = ours.next().await?;
            let over = event.as_ref().map_or(true, |event| event.what.outcome().is_some());
            Some((event, (!over).then_some(ours)))
        }))
    }
}

impl Chat {
    /// Finds a turn by its name, running or ended. One that another process runs, which shares the store, can be followed
    /// here, too: its events are those of the log, up to a second later, and without the pieces of an answer.
    ///
    /// # Errors
    /// `chat_turn_unknown`, `store_unavailable` and its kin.
    pub async fn turn(&self, id: &TurnId) -> Result<Turn> {
        let unknown = || Error::TurnUnknown { turn: id.to_string() };
        let journal = &self.inner.journal;
        let key = self
            .inner
            .await_store_read(journal.find_session_of_invocation(self.served_tenant()?, &id.invocation))
            .await?;
        let key = key.ok_or_else(unknown)?;
        let query = TurnRowQuery::Invocation(id.invocation.clone());
        let rows = self.inner.await_store_read(journal.read_turns(&key, &query)).await?;
        let row = rows.into_iter().find(|row| row.ordinal == id.ordinal).ok_or_else(unknown)?;
        self.turn_from_row(key, row).await
    }

    pub(crate) async fn turn_from_row(&self, key: SessionKey, row: TurnRow) -> Result<Turn> {
        let id = row.turn_id();
        let reading = read_outcome(self.inner.journal.as_ref(), &key, &row);
        let outcome = self.inner.await_read_sequence(reading).await?;
        let end = match outcome {
            Some(outcome) => OutcomeSource::Known(Arc::new(outcome)),
            None => {
                let loaded = self.inner.session_in_memory(&key)?;
                match self.inner.ensure_session_ready(&loaded).await {
                    Ok(_) => self.resolve_outcome_source(&loaded, &row).await?,
                    // Its end and its events are read from the store.
                    Err(Error::Store { source: singletree_durable::Error::HeldElsewhere { .. } }) => {
                        OutcomeSource::Waiting(watch::Sender::new(None).subscribe())
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(Turn {
            chat: self.clone(),
            key,
            id,
            end,
            no: Some(row.no),
            from: ListenPosition::Oldest,
            live: None,
        })
    }

    /// Finds out how a turn ends that had no outcome just now.
    async fn resolve_outcome_source(&self, loaded: &LoadedSession, row: &TurnRow) -> Result<OutcomeSource> {
        let id = row.turn_id();
        loop {
            let freed = loaded.freed.notified();
            let (handle, runs) = {
                let state = loaded.lock_state();
                (state.find_turn(&id), state.running_turn().is_some())
            };
            if let Some(handle) = handle {
                return Ok(OutcomeSource::Waiting(handle.subscribe_outcome()));
            }
            // It ended between the two looks.
            if let Some(outcome) = self.read_ended_outcome(&loaded.key, row).await? {
                return Ok(OutcomeSource::Known(outcome));
            }
            if !runs || self.inner.is_closing() {
                return Ok(OutcomeSource::Known(self.unfinished_outcome(&id, &Error::ShuttingDown)));
            }
            // A turn that suspends where its signal has come already has started this one in its commit, and queues it
            // next.
            freed.await;
        }
    }

    async fn read_ended_outcome(
        &self,
        key: &SessionKey,
        row: &TurnRow,
    ) -> Result<Option<Arc<ChatTurnOutcome>>> {
        let rows = self
            .inner
            .await_store_read(self.inner.journal.read_turns(key, &TurnRowQuery::No(row.no)))
            .await?;
        let row = rows.into_iter().next().unwrap_or_else(|| row.clone());
        let reading = read_outcome(self.inner.journal.as_ref(), key, &row);
        match self.inner.await_read_sequence(reading).await? {
            // It waits for a process that has its agent (D28).
            None if !self.inner.agents.contains_key(&row.agent) => {
                Err(Error::AgentUnknown { agent: row.agent })
            }
            outcome => Ok(outcome.map(Arc::new)),
        }
    }

    fn unfinished_outcome(&self, id: &TurnId, error: &Error) -> Arc<ChatTurnOutcome> {
        let mut errored =
            self.inner.default_served_agent().make_errored_turn(&self.inner.limits, Some(id.clone()), error);
        errored.recorded = false;
        Arc::new(ChatTurnOutcome::Errored(errored))
    }
}
