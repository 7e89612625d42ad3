//! The calls of clients and the answers they received, in the order in which they happened.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::end::AuditedOutcome;

/// The operation of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "snake_case")]
pub enum ClientOperation {
    /// Sends a message. Its text is how the message is found again: use each text once in a session, except to send the
    /// same again under the same key.
    Send {
        /// The message.
        text: String,
        /// The idempotency key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Answers a signal.
    Answer {
        /// The signal's id.
        signal: String,
        /// The payload.
        payload: Value,
    },
    /// Cancels a turn.
    Cancel {
        /// The turn's name.
        turn: String,
    },
    /// Deletes the session.
    Delete,
}

/// The event of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum HistoryEvent {
    /// A call is about to be made. Written before it is made.
    Call {
        /// The call's number, unique in the log.
        call: u64,
        /// The operation.
        #[serde(flatten)]
        deed: ClientOperation,
    },
    /// A call was given the name of its turn: the turn is accepted. Written after it came; may be left out.
    Given {
        /// The call.
        call: u64,
        /// The turn's name.
        turn: String,
    },
    /// A call was answered. Without a turn it was refused, and nothing of it may be stored.
    Told {
        /// The call.
        call: u64,
        /// The turn that the outcome is of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<String>,
        /// The outcome.
        #[serde(flatten)]
        end: AuditedOutcome,
    },
    /// A call without an outcome has succeeded: a delete, or a signal that is kept until something waits for it.
    Done {
        /// The call.
        call: u64,
    },
    /// The answer to a call will never come: the connection broke, or the process died.
    Gone {
        /// The call.
        call: u64,
    },
    /// A durable event was seen.
    Event {
        /// Its sequence number.
        seq: u64,
        /// The turn that it tells of.
        turn: String,
        /// Its type.
        kind: String,
    },
    /// A tool had its effect, under this idempotency key (D7).
    Effect {
        /// The key.
        key: String,
    },
    /// The process that served died here. The session of such a record means nothing.
    Died,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRecord {
    /// When: any measure in which an answer that came before a call was made has the smaller number.
    pub at: u64,
    /// In which session.
    pub session: String,
    /// The event.
    #[serde(flatten)]
    pub what: HistoryEvent,
}

/// Keeps the log of many clients of one process; its order is real.
#[derive(Debug, Default)]
pub struct HistoryRecorder {
    /// Guards the log; held for the moment of a line.
    log: Mutex<RecordedHistory>,
}

#[derive(Debug, Default)]
struct RecordedHistory {
    records: Vec<HistoryRecord>,
    calls: u64,
}

impl HistoryRecorder {
    /// Makes an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a call is about to be made; returns its number.
    pub fn record_call(&self, session: &str, deed: ClientOperation) -> u64 {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let call = log.calls;
        log.calls += 1;
        log.push_record(session, HistoryEvent::Call { call, deed });
        call
    }

    /// Adds an event to the log.
    pub fn record_event(&self, session: &str, what: HistoryEvent) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push_record(session, what);
    }

    /// Returns the log so far.
    #[must_use]
    pub fn records(&self) -> Vec<HistoryRecord> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).records.clone()
    }
}

impl RecordedHistory {
    fn push_record(&mut self, session: &str, what: HistoryEvent) {
        let at = self.records.len() as u64;
        self.records.push(HistoryRecord { at, session: session.to_owned(), what });
    }
}
