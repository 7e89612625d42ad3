//! The effects of tools, counted outside of all processes.

use std::sync::{Arc, Mutex, PoisonError};

use singletree_audit::{HistoryEvent, HistoryRecorder};

/// One request that reached the service behind a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EffectRecord {
    /// The idempotency key of the call (D7).
    pub(crate) key: String,
    /// The tool.
    pub(crate) tool: String,
    /// The text of the message that led to it, which is unique in its session.
    pub(crate) text: String,
    /// The session, with its tenant.
    pub(crate) session: String,
    /// Whether it had an effect: a repeated request of an idempotent service has none.
    pub(crate) took_effect: bool,
}

/// All requests to services, in the order in which they arrived. A clone is the same ledger.
#[derive(Debug, Clone)]
pub(crate) struct EffectLedger {
    history: Arc<HistoryRecorder>,
    records: Arc<Mutex<Vec<EffectRecord>>>,
}

impl EffectLedger {
    pub(crate) fn new(history: Arc<HistoryRecorder>) -> Self {
        Self { history, records: Arc::default() }
    }

    /// Takes a request. An idempotent service does the same thing once for a key.
    pub(crate) fn take_request(&self, request: EffectRecord, is_idempotent: bool) -> bool {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let is_repeated = is_idempotent && records.iter().any(|record| record.key == request.key);
        if !is_repeated {
            self.history.record_event(&request.session, HistoryEvent::Effect { key: request.key.clone() });
        }
        records.push(EffectRecord { took_effect: !is_repeated, ..request });
        !is_repeated
    }

    /// Returns all requests.
    pub(crate) fn records(&self) -> Vec<EffectRecord> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
