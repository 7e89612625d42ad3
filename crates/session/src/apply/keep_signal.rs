//! A signal comes before anything waits for it, and is kept (D2).

use serde_json::{Map, Value};
use singletree_durable::{BatchPrecondition, EarlySignalRow, JsonDocument, RowMutation, Timestamp};

use crate::Error;
use crate::batch::BatchBuilder;
use crate::early_signals::{decode_payload, is_signal_expired};
use crate::limit::Limits;
use crate::payload::check_payload;
use crate::queue::CallerHandle;
use crate::state::SessionState;

/// A signal to keep.
#[derive(Debug, Clone, Copy)]
pub struct SignalToKeep<'a> {
    /// Its id.
    pub signal: &'a str,
    /// Its payload.
    pub payload: &'a Map<String, Value>,
    /// The sender, when known.
    pub from: Option<&'a str>,
    /// Whether it names the action that it approves.
    pub names_action: bool,
    /// The number of waits that the session had had when nothing was found that waits for it.
    pub waits_seen: u64,
}

/// Why a signal is not kept now.
#[derive(Debug)]
pub enum KeepRefusal {
    /// Something began to wait in the meantime: look again.
    Again,
    /// A suspension is being committed: look again when the session stops running.
    Later,
    /// It is not kept.
    Refused(Error),
}

impl From<Error> for KeepRefusal {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Keeps a signal, under the same lock as the check that no wait has it. Returns the time until which it is kept. The
/// caller has checked that the session's agent expects it early.
///
/// # Errors
/// `chat_signal_mismatch`, `suspension_resume_payload_invalid`, `chat_mailbox_full`, `chat_signal_conflict`,
/// `harness_signal_correlation_failed`; or that it is to be looked at again.
pub fn keep_signal<H: CallerHandle>(
    state: &SessionState<H>,
    writing: &mut BatchBuilder,
    early: SignalToKeep<'_>,
    limits: &Limits,
) -> Result<Timestamp, KeepRefusal> {
    check_signal(early, limits)?;
    if state.is_suspending() {
        return Err(KeepRefusal::Later);
    }
    let is_awaited = state.pending_wait().is_some_and(|wait| wait.signal == early.signal);
    if !state.is_known() || state.next_numbers().waits != early.waits_seen || is_awaited {
        return Err(KeepRefusal::Again);
    }
    writing.landed.invalidates = true;
    Ok(write_signal(writing, state.early_signals(), early, limits)?)
}

fn check_signal(early: SignalToKeep<'_>, limits: &Limits) -> Result<(), Error> {
    if early.signal.len() > limits.key_bytes {
        return Err(Error::Correlation { why: "its id is too long to be kept".into() });
    }
    if early.names_action {
        let why = "nothing waits for it yet, and an approval is not given in advance".into();
        return Err(Error::SignalMismatch { why });
    }
    check_payload(early.payload, limits)
}

/// Adds the row of an early signal to the batch, and returns the time at which the signal expires.
fn write_signal(
    writing: &mut BatchBuilder,
    kept: &[EarlySignalRow],
    early: SignalToKeep<'_>,
    limits: &Limits,
) -> Result<Timestamp, Error> {
    let now = writing.now;
    let (old, fresh): (Vec<_>, Vec<_>) =
        kept.iter().partition(|row| is_signal_expired(row, now, limits.mail_age));
    for row in old {
        writing.add_mutation(RowMutation::DropMail(row.signal.clone()));
    }
    let row = match fresh.iter().find(|row| row.signal == early.signal) {
        Some(kept) if decode_payload(kept)? == *early.payload => (*kept).clone(),
        Some(_) => return Err(Error::SignalConflict { signal: early.signal.to_owned() }),
        None => {
            let payload = JsonDocument::from(&Value::Object(early.payload.clone()));
            let bytes: usize = fresh.iter().map(|row| row.payload.as_str().len()).sum();
            if fresh.len() >= limits.mail {
                return Err(Error::MailboxFull { limit: "mail", max: limits.mail });
            }
            if bytes + payload.as_str().len() > limits.mail_bytes {
                return Err(Error::MailboxFull { limit: "mail_bytes", max: limits.mail_bytes });
            }
            // This batch itself drops an expired signal of the same id, after the store has checked the batch's
            // requirements.
            if kept.iter().all(|row| row.signal != early.signal) {
                writing.require(BatchPrecondition::MailAbsent(early.signal.to_owned()));
            }
            let from = early.from.map(str::to_owned);
            EarlySignalRow { signal: early.signal.to_owned(), payload, from, at: now }
        }
    };
    let until = row.at.saturating_add(limits.mail_age);
    // Written again when it is kept already: a sender who sends it again is answered when it is durable, too.
    writing.add_mutation(RowMutation::Mail(row));
    Ok(until)
}
