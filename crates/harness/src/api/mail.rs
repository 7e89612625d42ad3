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
use singletree_durable::{SessionKey, Timestamp};
use singletree_session::{KeepRefusal, SignalToKeep, apply, decode_payload, is_signal_expired};

use crate::api::answer::{Answer, SignalAddress, correlation_error};
use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::api::turn::Turn;
use crate::runtime::commit::PendingCommit;
use crate::runtime::loaded_session::{LoadedSession, LoadedState};
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

impl From<KeepRefusal> for NotKept {
    fn from(refusal: KeepRefusal) -> Self {
        match refusal {
            KeepRefusal::Again => Self::Again,
            KeepRefusal::Later => Self::Later,
            KeepRefusal::Refused(error) => Self::Refused(error.into()),
        }
    }
}

enum SignalPlacement {
    Sent(Box<PendingCommit>, Timestamp),
    Again,
    /// A suspension is being committed; the pending wait is known when the session stops running.
    Later,
}

impl Session {
    /// Lists the early signals that a session keeps, those that are too old left out.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn mailbox(&self) -> Result<Vec<EarlySignal>> {
        let key = self.chat.session_key(&self.id)?;
        let rows = self.chat.inner.await_store_read(self.chat.inner.journal.read_early_signals(&key)).await?;
        let (now, age) = (self.chat.inner.current_time(), self.chat.inner.limits.mail_age);
        let kept = rows.into_iter().filter(|row| !is_signal_expired(row, now, age)).map(|row| {
            let payload = decode_payload(&row)?;
            Ok(EarlySignal { signal: row.signal, payload, from: row.from, at: row.at })
        });
        kept.collect()
    }
}

impl Chat {
    /// Delivers a signal: to the wait that it ends, as [`Chat::answer`] does, or, where its agent declares it as
    /// possibly early ([`GraphAgent::early_signals`](crate::GraphAgent::early_signals)) and it is addressed by session and
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
    pub async fn signal(&self, address: SignalAddress, answer: Answer) -> Result<SignalDelivery> {
        let delivered = self.deliver_signal(address, answer, true).await;
        delivered.map_err(|error| self.report_refused_answer(&error))
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
        let early = SignalToKeep {
            signal,
            payload: &answer.payload,
            from: answer.from.as_deref(),
            names_action: answer.names_action(),
            waits_seen: seen,
        };
        let placed = self.inner.commit_decision(loaded, |state, writing| {
            self.check_signal_is_expected(state, signal).map_err(NotKept::Refused)?;
            Ok(apply::keep_signal::keep_signal(state, writing, early, &self.inner.limits)?)
        });
        match placed {
            Ok((until, commit)) => Ok(SignalPlacement::Sent(commit.into(), until)),
            Err(NotKept::Again) => Ok(SignalPlacement::Again),
            Err(NotKept::Later) => Ok(SignalPlacement::Later),
            Err(NotKept::Refused(error)) => Err(error),
        }
    }

    /// Checks that there is a session whose agent expects the signal early.
    fn check_signal_is_expected(&self, state: &LoadedState, signal: &str) -> Result<()> {
        let head = state.session_head().ok_or_else(|| correlation_error("there is no such session"))?;
        if !self.inner.find_served_agent(&head.agent)?.agent.expects_early_signal(signal) {
            return Err(correlation_error("nothing has waited for it, and it is not expected early"));
        }
        Ok(())
    }
}
