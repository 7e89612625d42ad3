//! Signals that come before anything waits for them (D2).
//!
//! A session keeps an early signal when its agent declares the signal's id as possibly early, one for each id. The
//! suspension that it is meant for takes it in its own commit: wait, answer and the turn that resumes are there
//! together, so that no crash leaves a wait beside the signal that ends it (INV-3, INV-8).
//!
//! A kept signal goes when it is taken; when the wait of its id cannot take it (it does not fit, or it would be an
//! approval); when the session's work is over, in the commit that ends the last of it; with its session. One that is
//! older than [`Limits::mail_age`](crate::Limits::mail_age) is never taken, and goes when next the session keeps or
//! takes one.

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::{
    BatchPrecondition, EarlySignalRow, JsonDocument, RowMutation, SessionKey, Timestamp, TurnRow, WaitRow,
};
use singletree_engine::{Error as RunError, PausedRun};

use crate::answer::{Answer, SignalAddress, correlation_error};
use crate::chat::Chat;
use crate::commit::PendingCommit;
use crate::limit::Limits;
use crate::loaded_session::{LoadedSession, LoadedState};
use crate::outcome::ErroredTurn;
use crate::payload;
use crate::record::TurnRowExt;
use crate::session::apply::claim::is_wait_due;
use crate::session::batch::BatchBuilder;
use crate::stored::store_corrupt_error;
use crate::turn::Turn;
use crate::turn_id::TurnId;
use crate::{Error, Result};

/// The result of delivering a signal.
#[derive(Debug, Clone)]
pub enum SignalDelivery {
    /// It ended a wait, now or before: this turn resumes.
    Resumed(Turn),
    /// Nothing waits for it yet: it is kept, until then at the latest.
    Kept {
        /// When it is too old to be taken.
        until: Timestamp,
    },
}

/// A signal that is kept until something waits for it.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlySignal {
    /// The signal's id.
    pub signal: String,
    /// Its payload.
    pub payload: Map<String, Value>,
    /// Who sent it, when known.
    pub from: Option<String>,
    /// When it came.
    pub at: Timestamp,
}

/// An early signal that a wait takes as it begins.
pub(crate) struct ConsumedSignal {
    pub(crate) from: Option<String>,
    /// Its payload, or why it cannot end the wait.
    pub(crate) payload: Result<Map<String, Value>>,
}

/// The state of the session that a transition sees beside its own turn: the early signals, and whether other work is
/// left.
#[derive(Debug, Default)]
pub(crate) struct SignalMailbox {
    mail: Vec<EarlySignalRow>,
    age: std::time::Duration,
    /// The turn that runs; none where nothing or an end of a wait does.
    running: Option<TurnId>,
    waiting: Option<u64>,
    queued: bool,
}

impl SignalMailbox {
    pub(crate) fn from_state(state: &LoadedState, limits: &Limits) -> Self {
        if state.early_signals().is_empty() {
            return Self::default();
        }
        Self {
            mail: state.early_signals().to_vec(),
            age: limits.mail_age,
            running: state.running_turn().and_then(|running| running.handle.assigned_turn_id()),
            waiting: state.pending_wait().map(|wait| wait.no),
            queued: state.has_more_work(),
        }
    }

    /// Tells whether the end of this turn, whose invocation ends with it, is the end of the session's work.
    fn ends_session_work(&self, row: &TurnRow) -> bool {
        let waits = self.waiting.is_some_and(|waiting| row.wait != Some(waiting));
        let runs = self.running.as_ref().is_some_and(|running| *running != row.turn_id());
        !(self.queued || waits || runs)
    }

    /// Empties the mailbox when the session's work is over: the kept signals were meant for that work.
    pub(crate) fn clear_if_work_ended(writing: &mut BatchBuilder, row: &TurnRow) {
        if !writing.mailbox.mail.is_empty() && writing.mailbox.ends_session_work(row) {
            for mail in std::mem::take(&mut writing.mailbox.mail) {
                writing.add_mutation(RowMutation::DropMail(mail.signal));
            }
        }
    }

    /// Takes the early signal of a wait that begins, if it can end it. Returns why it cannot with one that does not
    /// fit.
    pub(crate) fn take_for_wait(
        writing: &mut BatchBuilder,
        wait: &WaitRow,
        paused: &PausedRun,
    ) -> Result<Option<ConsumedSignal>> {
        let at = writing.mailbox.mail.iter().position(|it| it.signal == wait.signal);
        let Some(mail) = at.map(|it| writing.mailbox.mail.swap_remove(it)) else { return Ok(None) };
        writing.add_mutation(RowMutation::DropMail(mail.signal.clone()));
        if is_signal_expired(&mail, writing.now, writing.mailbox.age) {
            return Ok(None);
        }
        let payload = decode_payload(&mail)?;
        let fits = match wait.action {
            // The sender of an early signal cannot have known the action that is to be approved (D2).
            Some(_) => Err(Error::SignalMismatch { why: "an approval is not given in advance".into() }),
            // The deadline had passed when the wait began: a late signal is not taken (D37).
            None if is_wait_due(wait, writing.now) => {
                Err(Error::SignalExpired { signal: wait.signal.clone() })
            }
            None => {
                let accepted = payload::check_against_schema(wait, &payload).and_then(|()| {
                    let fits = paused.check_payload(&payload);
                    fits.map_err(|source| RunError::SuspensionPayload { source }.into())
                });
                accepted.map(|()| payload)
            }
        };
        Ok(Some(ConsumedSignal { from: mail.from, payload: fits }))
    }
}

fn is_signal_expired(mail: &EarlySignalRow, now: Timestamp, age: std::time::Duration) -> bool {
    now.duration_since(mail.at) > age
}

fn decode_payload(mail: &EarlySignalRow) -> Result<Map<String, Value>> {
    let decoded = mail.payload.decode();
    decoded.map_err(|error| {
        store_corrupt_error(format!("the early signal '{}'", mail.signal), Some(error.into()))
    })
}

/// Applies a put to the in-memory list of kept signals.
pub(crate) fn apply_mail_mutation(kept: &mut Vec<EarlySignalRow>, put: &RowMutation) {
    match put {
        RowMutation::Mail(row) => {
            kept.retain(|item| item.signal != row.signal);
            kept.push(row.clone());
        }
        RowMutation::DropMail(signal) => kept.retain(|item| item.signal != *signal),
        RowMutation::Delete => kept.clear(),
        _ => {}
    }
}

/// The outcome of an attempt to keep a signal.
pub(crate) enum KeepSignalOutcome {
    Kept(Timestamp),
    /// Something began to wait in the meantime: look again.
    Again,
}

/// Why a signal is not kept.
enum NotKept {
    Again,
    Later,
    Refused(Error),
}

enum SignalPlacement {
    Sent(Box<PendingCommit>, Timestamp),
    Again,
    /// A suspension is being committed; the pending wait is known when the session stops running.
    Later,
}

impl Chat {
    /// Delivers a signal: to the wait that it ends, as [`Chat::answer`] does, or, where its agent declares it as
    /// possibly early ([`Agent::early_signals`](crate::Agent::early_signals)) and it is addressed by session and
    /// signal, to the session's mailbox. There it stays until the session suspends on it, which then resumes at once.
    /// The same signal again gets the same answer.
    ///
    /// An approval is never given in advance. A kept signal goes untaken when the session's work is over (no turn is
    /// left without outcome and nothing waits), when it turns out not to fit its wait, and by age.
    ///
    /// # Errors
    /// Those of [`Chat::answer`]; with nothing kept `chat_mailbox_full`, `chat_signal_conflict` when another payload is
    /// kept, `chat_signal_mismatch` when it names an action, `suspension_resume_payload_invalid`,
    /// `harness_signal_correlation_failed` when there is no such session or the signal is not expected early.
    ///
    /// # Cancellation
    /// A dropped call has delivered the signal or has not.
    pub async fn signal(
        &self,
        address: SignalAddress,
        answer: Answer,
    ) -> Result<SignalDelivery, Box<ErroredTurn>> {
        let delivered = self.deliver_signal(address, answer, true).await;
        delivered.map_err(|error| self.report_refused_answer(&error))
    }

    /// Lists the early signals that a session keeps, those that are too old left out.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn mailbox(&self, session_id: &str) -> Result<Vec<EarlySignal>> {
        let key = self.session_key(session_id)?;
        let rows = self.inner.await_store_read(self.inner.journal.read_early_signals(&key)).await?;
        let (now, age) = (self.inner.current_time(), self.inner.limits.mail_age);
        let kept = rows.into_iter().filter(|row| !is_signal_expired(row, now, age)).map(|row| {
            let payload = decode_payload(&row)?;
            Ok(EarlySignal { signal: row.signal, payload, from: row.from, at: row.at })
        });
        kept.collect()
    }

    /// Keeps a signal that nothing waits for. `seen` is how many waits the session had had when that was found.
    pub(crate) async fn keep_early_signal(
        &self,
        key: &SessionKey,
        signal: &str,
        answer: &Answer,
        seen: u64,
    ) -> Result<KeepSignalOutcome> {
        let loaded = self.inner.session_in_memory(key)?;
        self.inner.ensure_session_ready(&loaded).await?;
        let freed = loaded.freed.notified();
        match self.put_early_signal(&loaded, signal, answer, seen)? {
            SignalPlacement::Again => Ok(KeepSignalOutcome::Again),
            SignalPlacement::Later => {
                freed.await;
                Ok(KeepSignalOutcome::Again)
            }
            SignalPlacement::Sent(commit, until) => {
                self.inner.await_commit_in_task(&loaded, *commit).await?;
                Ok(KeepSignalOutcome::Kept(until))
            }
        }
    }

    /// Puts a signal into the mailbox, under the same lock as the check that no wait has the signal.
    fn put_early_signal(
        &self,
        loaded: &Arc<LoadedSession>,
        signal: &str,
        answer: &Answer,
        seen: u64,
    ) -> Result<SignalPlacement> {
        let placed = self.inner.commit_decision(loaded, |state, writing| {
            self.check_early_signal(state, signal, answer).map_err(NotKept::Refused)?;
            if state.is_suspending() {
                return Err(NotKept::Later);
            }
            let waits = state.pending_wait().is_some_and(|wait| wait.signal == signal);
            if !state.is_known() || state.next_numbers().waits != seen || waits {
                return Err(NotKept::Again);
            }
            writing.landed.invalidates = true;
            self.write_early_signal(writing, state.early_signals(), signal, answer).map_err(NotKept::Refused)
        });
        match placed {
            Ok((until, commit)) => Ok(SignalPlacement::Sent(commit.into(), until)),
            Err(NotKept::Again) => Ok(SignalPlacement::Again),
            Err(NotKept::Later) => Ok(SignalPlacement::Later),
            Err(NotKept::Refused(error)) => Err(error),
        }
    }

    fn check_early_signal(&self, state: &LoadedState, signal: &str, answer: &Answer) -> Result<()> {
        let head = state.session_head().ok_or_else(|| correlation_error("there is no such session"))?;
        if !self.inner.find_served_agent(&head.agent)?.agent.expects_early_signal(signal) {
            return Err(correlation_error("nothing has waited for it, and it is not expected early"));
        }
        if signal.len() > self.inner.limits.key_bytes {
            return Err(correlation_error("its id is too long to be kept"));
        }
        if answer.names_action() {
            let why = "nothing waits for it yet, and an approval is not given in advance".into();
            return Err(Error::SignalMismatch { why });
        }
        payload::check_payload(&answer.payload, &self.inner.limits)
    }

    /// Adds the row of an early signal to the batch, and returns the time at which the signal expires.
    fn write_early_signal(
        &self,
        writing: &mut BatchBuilder,
        kept: &[EarlySignalRow],
        signal: &str,
        answer: &Answer,
    ) -> Result<Timestamp> {
        let limits = &self.inner.limits;
        let now = writing.now;
        let (old, fresh): (Vec<_>, Vec<_>) =
            kept.iter().partition(|row| is_signal_expired(row, now, limits.mail_age));
        for it in old {
            writing.add_mutation(RowMutation::DropMail(it.signal.clone()));
        }
        let row = match fresh.iter().find(|it| it.signal == signal) {
            Some(kept) if decode_payload(kept)? == answer.payload => (*kept).clone(),
            Some(_) => return Err(Error::SignalConflict { signal: signal.to_owned() }),
            None => {
                let payload = JsonDocument::from(&Value::Object(answer.payload.clone()));
                let bytes: usize = fresh.iter().map(|it| it.payload.as_str().len()).sum();
                if fresh.len() >= limits.mail {
                    return Err(Error::MailboxFull { limit: "mail", max: limits.mail });
                }
                if bytes + payload.as_str().len() > limits.mail_bytes {
                    return Err(Error::MailboxFull { limit: "mail_bytes", max: limits.mail_bytes });
                }
                // This batch itself drops an expired signal of the same id, after the store has checked the batch's
                // requirements.
                if kept.iter().all(|row| row.signal != signal) {
                    writing.require(BatchPrecondition::MailAbsent(signal.to_owned()));
                }
                EarlySignalRow { signal: signal.to_owned(), payload, from: answer.from.clone(), at: now }
            }
        };
        let until = row.at.saturating_add(limits.mail_age);
        // Written again when it is kept already: who sent it again is answered when it is durable, too.
        writing.add_mutation(RowMutation::Mail(row));
        Ok(until)
    }
}
