//! Answering signals and cancelling turns (D2, D10, INV-7).

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::{
    BoxFuture, InvocationId, JsonDocument, SessionKey, StoredWaitStatus, TurnRowQuery, WaitRow, WaitRowQuery,
};
use singletree_session::{
    PendingAnswer, QueuedTurn, QueuedWork, TurnId, check_against_schema, check_answerer_name, check_payload,
};

use crate::api::chat::Chat;
use crate::api::chat_session::{Session, SessionWait};
use crate::api::mail::{KeepSignalOutcome, SignalDelivery};
use crate::api::turn::Turn;
use crate::dispatch::waits;
use crate::error::store_corrupt_error;
use crate::runtime::loaded_session::{LoadedSession, TurnHandle};
use crate::runtime::pending_wait::{PendingWait, to_pending_wait};
use crate::{Error, Result};

/// Which wait a signal is for (D2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignalAddress {
    /// The signal of this id in this session.
    Session {
        /// The session.
        session: String,
        /// The signal's id.
        signal: String,
    },
    /// The wait of this invocation.
    Invocation(InvocationId),
    /// The signal of this id, where exactly one pending wait of the tenant has it.
    Signal(String),
}

/// An answer to a wait.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub(crate) payload: Map<String, Value>,
    pub(crate) from: Option<String>,
    wait: Option<u64>,
    action: Option<String>,
}

impl Answer {
    /// Answers with fields that overwrite those of the graph's state (suspension §6). The history is not among them.
    #[must_use]
    pub fn new(payload: Map<String, Value>) -> Self {
        Self { payload, ..Self::default() }
    }

    /// Says who answers; it is recorded.
    #[must_use]
    pub fn from(mut self, who: impl Into<String>) -> Self {
        self.from = Some(who.into());
        self
    }

    /// Names the wait and the digest of the action that is approved or rejected. An approval is taken with both only.
    #[must_use]
    pub fn to(mut self, wait: u64, action: impl Into<String>) -> Self {
        self.wait = Some(wait);
        self.action = Some(action.into());
        self
    }
}

impl Answer {
    /// Tells whether it is about one wait or action.
    pub(crate) fn names_action(&self) -> bool {
        self.wait.is_some() || self.action.is_some()
    }
}

impl PendingWait {
    /// Returns the address of exactly this session's wait, however many others wait for a signal of the same id.
    #[must_use]
    pub fn address(&self) -> SignalAddress {
        SignalAddress::Session { session: self.session.clone(), signal: self.descriptor.signal_id.clone() }
    }

    /// Makes an answer that names this wait and, if it is an approval, the digest of its action.
    #[must_use]
    pub fn answer<K: Into<String>, V: Into<Value>>(
        &self,
        fields: impl IntoIterator<Item = (K, V)>,
    ) -> Answer {
        let payload = fields.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Answer { payload, from: None, wait: Some(self.wait.no), action: self.wait.action.clone() }
    }
}

impl Session {
    /// Returns the waits of this session that nobody has ended yet: one at most.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn pending(&self) -> Result<Vec<SessionWait>> {
        self.chat.read_pending_waits(&WaitRowQuery::Pending(self.chat.session_key(&self.id)?)).await
    }
}

impl Chat {
    /// Answers a wait: it is consumed, and the turn that resumes is accepted, in one commit; then the turn runs
    /// (INV-7).
    ///
    /// The first answer wins. The same answer again returns the turn that it started; another one is a conflict.
    ///
    /// # Errors
    /// With nothing consumed: `harness_signal_correlation_failed`, `chat_signal_mismatch`, `chat_signal_conflict`,
    /// `chat_signal_expired`, `suspension_resume_payload_invalid`, `suspension_record_invalid`,
    /// `session_write_conflict`, `chat_shutting_down`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has answered or has not.
    pub async fn answer(&self, address: SignalAddress, answer: Answer) -> Result<Turn> {
        let answered = self.try_answer_wait(address, answer).await;
        answered.map_err(|error| self.report_refused_answer(&error))
    }

    /// Reports an answer or a signal that was not taken.
    pub(crate) fn report_refused_answer(&self, error: &Error) -> Error {
        Error::Refused(Box::new(self.inner.default_served_agent().make_errored_turn(
            &self.inner.limits,
            None,
            error,
        )))
    }

    async fn try_answer_wait(&self, address: SignalAddress, answer: Answer) -> Result<Turn> {
        match self.deliver_signal(address, answer, false).await? {
            SignalDelivery::Resumed(turn) => Ok(turn),
            SignalDelivery::Kept { .. } => Err(correlation_error("nothing has waited for it")),
        }
    }

    /// Delivers a signal to its wait, or keeps it where nothing has waited for it and it may be kept.
    pub(crate) fn deliver_signal(
        &self,
        address: SignalAddress,
        answer: Answer,
        may_keep: bool,
    ) -> BoxFuture<'_, Result<SignalDelivery>> {
        Box::pin(async move {
            if self.inner.is_closing() {
                return Err(Error::ShuttingDown);
            }
            check_answerer_name(answer.from.as_deref(), &self.inner.limits)?;
            loop {
                let seen = match &address {
                    SignalAddress::Session { session, .. } if may_keep => {
                        self.load_landed_waits(session).await?
                    }
                    SignalAddress::Session { .. }
                    | SignalAddress::Invocation(_)
                    | SignalAddress::Signal(_) => 0,
                };
                let delivered = match (self.find_addressed_wait(&address, &answer).await?, &address) {
                    (Some((key, wait)), _) => self.answer_found_wait(key, wait, &answer).await?,
                    (None, SignalAddress::Session { session, signal }) if may_keep => {
                        match self
                            .keep_early_signal(&self.session_key(session)?, signal, &answer, seen)
                            .await?
                        {
                            KeepSignalOutcome::Kept(until) => Some(SignalDelivery::Kept { until }),
                            KeepSignalOutcome::Again => None,
                        }
                    }
                    (None, _) => return Err(correlation_error("nothing has waited for it")),
                };
                match delivered {
                    Some(delivered) => return Ok(delivered),
                    None if self.inner.is_closing() => return Err(Error::ShuttingDown),
                    None => {}
                }
            }
        })
    }

    /// Returns how many waits a session has had that the store knows of: one that is on its way is not found by who
    /// looks for it now, so it does not count as seen.
    async fn load_landed_waits(&self, session: &str) -> Result<u64> {
        let loaded = self.inner.session_in_memory(&self.session_key(session)?)?;
        self.inner.ensure_session_ready(&loaded).await?;
        Ok(loaded.lock_state().landed_waits())
    }

    /// Answers a wait, pending or ended; returns none when another answer or event ended it in the meantime: then the
    /// store has the reason.
    async fn answer_found_wait(
        &self,
        key: SessionKey,
        wait: WaitRow,
        answer: &Answer,
    ) -> Result<Option<SignalDelivery>> {
        let loaded = self.inner.session_in_memory(&key)?;
        self.inner.ensure_session_ready(&loaded).await?;
        if matches!(wait.status, StoredWaitStatus::Pending | StoredWaitStatus::Consumed) {
            check_approval(&wait, answer)?;
        }
        if wait.status != StoredWaitStatus::Pending {
            return self
                .find_answered_turn(key, &wait, answer)
                .await
                .map(|duplicate| Some(SignalDelivery::Resumed(duplicate)));
        }
        check_payload(&answer.payload, &self.inner.limits)?;
        check_against_schema(&wait, &answer.payload)?;
        let (handle, told) = TurnHandle::for_pending_answer();
        handle.set_admission(self.admission.as_ref());
        let answering = PendingAnswer {
            wait: wait.no,
            payload: answer.payload.clone(),
            from: answer.from.clone(),
            expired: false,
        };
        let outcome = handle.subscribe_outcome();
        // Only the queue holds the handle from here on: if the queue is given up, `told` ends.
        let earlier = loaded.lock_state().queue_answer(handle, answering);
        if let Some(earlier) = earlier {
            // Whether it is a duplicate is known once the first one is taken, or is not.
            earlier.wait_for_acceptance().await;
            return Ok(None);
        }
        self.inner.wake_queue(&loaded);
        match told.await {
            Ok(Err(Error::Correlation { .. })) => Ok(None),
            Ok(Ok(id)) => {
                let turn = Turn::with_outcome_receiver(self.clone(), key, id, outcome);
                Ok(Some(SignalDelivery::Resumed(turn)))
            }
            Ok(Err(error)) => Err(error),
            Err(_) if self.inner.is_closing() => Err(Error::ShuttingDown),
            // Another process took the session while the answer waited for the turn that ran: the store has the wait.
            Err(_) => Ok(None),
        }
    }

    /// Finds the wait that a signal is for; none when nothing has waited for it.
    async fn find_addressed_wait(
        &self,
        address: &SignalAddress,
        answer: &Answer,
    ) -> Result<Option<(SessionKey, WaitRow)>> {
        let tenant = self.served_tenant()?.clone();
        let query = match address.clone() {
            SignalAddress::Session { session, signal } => {
                let key = self.session_key(&session)?;
                // The answer needs the loaded session anyway, and its state contains the pending wait.
                let loaded = self.inner.session_in_memory(&key)?;
                self.inner.ensure_session_ready(&loaded).await?;
                let waits = loaded.lock_state().pending_wait().filter(|wait| wait.signal == signal).cloned();
                if let Some(wait) = waits {
                    return Ok(Some((key, wait)));
                }
                WaitRowQuery::Signal(key, signal)
            }
            SignalAddress::Invocation(invocation) => WaitRowQuery::Invocation(tenant, invocation),
            SignalAddress::Signal(signal) => {
                let waits = self
                    .inner
                    .await_store_read(
                        self.inner.journal.read_waits(&WaitRowQuery::SignalOf(tenant, signal, 2)),
                    )
                    .await?;
                let why = match waits.len() {
                    0 => "nothing waits for it",
                    1 => return Ok(waits.into_iter().next()),
                    _ => "more than one session waits for it; name the session",
                };
                return Err(correlation_error(why));
            }
        };
        let mut waits = self.inner.await_store_read(self.inner.journal.read_waits(&query)).await?;
        // The pending one; else the last one that this very answer ended, whatever came after it; else the last.
        let pending = waits.iter().position(|(_, it)| it.status == StoredWaitStatus::Pending);
        let answered = |(_, it): &(SessionKey, WaitRow)| {
            it.status == StoredWaitStatus::Consumed
                && answer.wait.is_none_or(|no| no == it.no)
                && decode_stored_answer(it)
                    .is_ok_and(|stored_answer| stored_answer.as_ref() == Some(&answer.payload))
        };
        let found = pending.or_else(|| waits.iter().rposition(answered));
        Ok(match found {
            Some(at) => Some(waits.swap_remove(at)),
            None => waits.pop(),
        })
    }

    /// A wait that has ended already: the same answer gets the turn that it started.
    async fn find_answered_turn(&self, key: SessionKey, wait: &WaitRow, answer: &Answer) -> Result<Turn> {
        let conflict = || Error::SignalConflict { signal: wait.signal.clone() };
        match wait.status {
            StoredWaitStatus::Expired => Err(Error::SignalExpired { signal: wait.signal.clone() }),
            StoredWaitStatus::Cancelled => Err(correlation_error("the wait was cancelled")),
            StoredWaitStatus::Pending | StoredWaitStatus::Consumed => {
                let stored = decode_stored_answer(wait)?;
                let no = wait
                    .ended_by
                    .filter(|_| stored.as_ref() == Some(&answer.payload))
                    .ok_or_else(conflict)?;
                let rows = self
                    .inner
                    .await_store_read(self.inner.journal.read_turns(&key, &TurnRowQuery::No(no)))
                    .await?;
                let row = rows.into_iter().next().ok_or_else(conflict)?;
                self.turn_from_row(key, row).await
            }
        }
    }

    /// Cancels a turn (D10). A queued turn does not run. A running turn ends at its next await, and the text that was
    /// shown of it is kept. The wait of a suspended turn is closed. Returns the turn with the cancelled outcome: the
    /// same one, or the one that closed the wait.
    ///
    /// A turn that has ended otherwise is returned as it ended: of cancel and completion exactly one wins.
    ///
    /// # Errors
    /// `chat_turn_unknown`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing of it: the turn is cancelled all the same.
    pub async fn cancel(&self, id: &TurnId) -> Result<Turn> {
        let (chat, id) = (self.clone(), id.clone());
        self.inner.run_call_in_task(async move { chat.cancel_turn(&id).await }).await
    }

    async fn cancel_turn(&self, id: &TurnId) -> Result<Turn> {
        let turn = self.turn(id).await?;
        let loaded = self.inner.session_in_memory(turn.session_key())?;
        self.inner.ensure_session_ready(&loaded).await?;
        let held = loop {
            if let Some(queued) = take_queued_turn(&loaded, id) {
                self.cancel_queued_turn(&loaded, queued).await?;
                return self.turn(id).await;
            }
            let running = loaded.lock_state().find_cancellable_turn(id);
            if let Some(handle) = running {
                handle.cancel.notify_one();
                return Ok(turn);
            }
            let freed = loaded.freed.notified();
            let waits_for_it =
                loaded.lock_state().pending_wait().is_some_and(|wait| wait.invocation == id.invocation);
            if !waits_for_it {
                return self.turn(id).await;
            }
            if let Some(held) = loaded.try_hold_turn() {
                break held;
            }
            // Something else ends a wait right now, or is about to resume it: of several, one wins.
            freed.await;
        };
        let closed = waits::close_wait(&self.inner, &loaded, waits::WaitEndReason::Cancelled).await;
        drop(held);
        // A turn has ended, and the state was read for it.
        self.inner.trim_loaded_sessions();
        self.inner.wake_queue(&loaded);
        match closed? {
            Some(outcome) => match outcome.turn_id() {
                Some(closing) => self.turn(closing).await,
                None => Ok(turn),
            },
            None => self.turn(id).await,
        }
    }

    /// Ends a turn that was taken out of the queue; when that cannot be recorded, it goes back there.
    pub(crate) async fn cancel_queued_turn(
        &self,
        loaded: &Arc<LoadedSession>,
        queued: QueuedTurn<Arc<TurnHandle>>,
    ) -> Result<()> {
        let ended = match &queued.work {
            QueuedWork::Message { row, .. } | QueuedWork::Recover { row, .. } => {
                self.inner.try_end_abandoned_turn(loaded, row.clone(), &Error::Cancelled).await
            }
            QueuedWork::Answer(_) => return Ok(()),
        };
        let ended = {
            let (handle, mut state) = (queued.handle.clone(), loaded.lock_state());
            match ended {
                Ok(outcome) => {
                    state.record_cancel_end(&handle, None);
                    handle.publish_outcome(outcome);
                    Ok(())
                }
                Err(error) => {
                    state.record_cancel_end(&handle, Some(queued));
                    Err(error)
                }
            }
        };
        loaded.freed.notify_waiters();
        self.inner.trim_loaded_sessions();
        self.inner.wake_queue(loaded);
        ended
    }

    /// Lists the pending waits of all sessions of the tenant, at most `limit`.
    ///
    /// # Errors
    /// `chat_tenant_foreign`, `store_unavailable` and its kin.
    pub async fn pending(&self, limit: u64) -> Result<Vec<SessionWait>> {
        self.read_pending_waits(&WaitRowQuery::PendingOf(self.served_tenant()?.clone(), limit)).await
    }

    async fn read_pending_waits(&self, query: &WaitRowQuery) -> Result<Vec<SessionWait>> {
        let waits = self.inner.await_store_read(self.inner.journal.read_waits(query)).await?;
        waits.iter().map(|(key, wait)| Ok(SessionWait::new(self, to_pending_wait(key, wait)?))).collect()
    }
}

fn decode_stored_answer(wait: &WaitRow) -> Result<Option<Map<String, Value>>> {
    let stored = wait.answer.as_ref().map(JsonDocument::decode).transpose();
    stored.map_err(|error| store_corrupt_error("a stored answer".into(), Some(error.into())))
}

pub(crate) fn correlation_error(why: &str) -> Error {
    Error::Correlation { why: why.to_owned() }
}

/// An approval is taken only with the number of the wait and the digest of the action (D2).
fn check_approval(wait: &WaitRow, answer: &Answer) -> Result<()> {
    let mismatch = |why: &str| Err(Error::SignalMismatch { why: why.to_owned() });
    if answer.wait.is_some_and(|it| it != wait.no) {
        return mismatch("it answers another wait");
    }
    match (&wait.action, &answer.action) {
        (None, _) => Ok(()),
        (Some(_), None) => mismatch("it does not name the action that it is about"),
        (Some(wanted), Some(named)) if wanted != named => mismatch("it is about another action"),
        (Some(_), Some(_)) if answer.wait.is_none() => mismatch("it does not name the wait"),
        (Some(_), Some(_)) => Ok(()),
    }
}

/// Takes a turn that waits out of the queue, to be cancelled.
fn take_queued_turn(loaded: &LoadedSession, id: &TurnId) -> Option<QueuedTurn<Arc<TurnHandle>>> {
    let queued = loaded.lock_state().take_queued_turn(id)?;
    // Its row was read: it is accepted, whether or not whoever waits for that has been told.
    if let QueuedWork::Message { .. } = queued.work {
        queued.handle.settle_acceptance(true);
    }
    Some(queued)
}
