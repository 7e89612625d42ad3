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

use serde_json::{Map, Value};
use singletree_durable::{EarlySignalRow, RowMutation, Timestamp, TurnRow, WaitRow};
use singletree_graph::PausedRun;

use crate::apply::claim::is_wait_due;
use crate::batch::BatchBuilder;
use crate::codec::record::TurnRowExt;
use crate::codec::stored::store_corrupt_error;
use crate::limit::Limits;
use crate::queue::CallerHandle;
use crate::state::SessionState;
use crate::turn_id::TurnId;
use crate::{Error, Result, payload};

/// An early signal that a wait takes as it begins.
#[derive(Debug)]
pub(crate) struct ConsumedSignal {
    /// The sender, when known.
    pub from: Option<String>,
    /// Its payload, or why it cannot end the wait.
    pub payload: Result<Map<String, Value>>,
}

/// The state of the session that a transition sees beside its own turn: the early signals, and whether other work is
/// left.
#[derive(Debug, Default)]
pub struct SignalMailbox {
    mail: Vec<EarlySignalRow>,
    age: std::time::Duration,
    /// The turn that runs; none where nothing or an end of a wait does.
    running: Option<TurnId>,
    waiting: Option<u64>,
    queued: bool,
}

impl SignalMailbox {
    /// Takes what a transition sees of a session.
    pub fn from_state<H: CallerHandle>(state: &SessionState<H>, limits: &Limits) -> Self {
        if state.early_signals().is_empty() {
            return Self::default();
        }
        Self {
            mail: state.early_signals().to_vec(),
            age: limits.mail_age,
            running: state.running_turn().and_then(|running| running.handle.turn_id()),
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
                    fits.map_err(|fault| Error::Payload { why: fault.to_string() })
                });
                accepted.map(|()| payload)
            }
        };
        Ok(Some(ConsumedSignal { from: mail.from, payload: fits }))
    }
}

/// Tells whether a signal is too old to be taken.
pub fn is_signal_expired(mail: &EarlySignalRow, now: Timestamp, age: std::time::Duration) -> bool {
    now.duration_since(mail.at) > age
}

/// Reads the payload of a signal.
///
/// # Errors
/// `store_corrupt`.
pub fn decode_payload(mail: &EarlySignalRow) -> Result<Map<String, Value>> {
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
