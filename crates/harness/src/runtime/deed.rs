//! The audit: records of actions that cannot be undone or that permit an effect.
//!
//! A chat that keeps an audit ([`ChatBuilder::audit`](crate::ChatBuilder::audit)) writes a document in the very commit
//! that answers a wait or deletes a session: no crash can separate a decision from its record. The document outlives
//! the session. A server that adds audit entries of its own writes them in the same form.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use singletree_durable::{
    AuditRow, Batch, JsonDocument, RowMutation, SessionKey, StoredDocument, StoredWaitStatus, Timestamp,
    WaitRow,
};

use crate::Result;
use crate::error::store_corrupt_error;

/// Larger than every time in milliseconds: ids count down from it, so that later entries sort first.
const END: i64 = 10_000_000_000_000;

/// An audit entry. Contains names and numbers, and no content of the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When.
    pub at: Timestamp,
    /// Who did it, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The action, such as `signal.answered`, `session.deleted`.
    pub action: String,
    /// The id of the object of the action.
    pub subject: String,
    /// Further details.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl AuditRecord {
    /// The kind of the documents that hold deeds.
    pub const KIND: &str = "audit";

    /// Creates an audit entry without details.
    #[must_use]
    pub fn new(at: Timestamp, who: Option<&str>, action: &str, subject: &str) -> Self {
        let (action, subject) = (action.to_owned(), subject.to_owned());
        Self { at, who: who.map(str::to_owned), action, subject, details: Map::new() }
    }

    /// Adds a detail. It must not contain content of a conversation or a secret.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Returns the id of the document that holds the entry; later entries sort first. `unique` distinguishes entries of
    /// the same millisecond.
    #[must_use]
    pub fn document_id(&self, unique: &str) -> String {
        format!("{:013}-{unique}", END.saturating_sub(self.at.as_millis()).max(0))
    }

    /// Writes it as the body of its document.
    #[must_use]
    pub fn to_document_body(&self) -> JsonDocument {
        // A deed is texts, numbers and values of JSON: it can always be written.
        JsonDocument::from_serializable(self).unwrap_or_else(|_| JsonDocument::from_text("null"))
    }

    /// Reads its document.
    ///
    /// # Errors
    /// `store_corrupt`.
    pub fn from_document(document: &StoredDocument) -> Result<Self> {
        let what = || format!("the document {} {}", document.key.kind, document.key.id);
        document.body.decode().map_err(|error| store_corrupt_error(what(), Some(error.into())))
    }

    fn from_answered_wait(key: &SessionKey, wait: &WaitRow, now: Timestamp) -> Option<Self> {
        if wait.status != StoredWaitStatus::Consumed {
            return None;
        }
        let at = wait.ended_at.unwrap_or(now);
        let deed = Self::new(at, wait.answered_by.as_deref(), "signal.answered", &wait.signal)
            .with_detail("session", key.session.as_str())
            .with_detail("wait", wait.no);
        let answer = wait.answer.as_ref().and_then(|answer| answer.decode::<Map<String, Value>>().ok());
        let deed = match answer.as_ref().and_then(|answer| answer.get("approved")).and_then(Value::as_bool) {
            Some(approved) => deed.with_detail("approved", approved),
            None => deed,
        };
        Some(match &wait.action {
            Some(action) => deed.with_detail("action_digest", action.as_str()),
            None => deed,
        })
    }

    fn from_audit_row(row: &AuditRow) -> Self {
        Self::new(row.at, row.by.as_deref(), &row.action, row.key.session.as_str())
    }
}

/// Whether deeds are written, and for how long they are kept.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AuditSettings {
    kept: Option<Duration>,
}

impl AuditSettings {
    pub(crate) fn with_retention_time(kept: Duration) -> Self {
        Self { kept: Some(kept) }
    }

    /// Returns the audit documents to write with a batch, derived from its changes.
    pub(crate) fn documents_for_batch(&self, batch: &Batch, now: Timestamp) -> Vec<RowMutation> {
        if self.kept.is_none() {
            return Vec::new();
        }
        let deed = |put: &RowMutation| match put {
            RowMutation::Wait(wait) => AuditRecord::from_answered_wait(&batch.key, wait, now)
                .map(|answer| (answer, wait.no.to_string())),
            RowMutation::Audit(row) => Some((AuditRecord::from_audit_row(row), "deleted".to_owned())),
            _ => None,
        };
        let deeds = batch.puts.iter().filter_map(deed);
        deeds.filter_map(|(deed, number)| self.document_for_record(&batch.key, &deed, &number)).collect()
    }

    /// Returns the document of an entry about a session; none when no audit is kept. `number` distinguishes entries
    /// about one session in one millisecond.
    pub(crate) fn document_for_record(
        &self,
        key: &SessionKey,
        record: &AuditRecord,
        number: &str,
    ) -> Option<RowMutation> {
        Some(RowMutation::Document {
            kind: AuditRecord::KIND.to_owned(),
            id: record.document_id(&unique_id_suffix(key, number)),
            body: record.to_document_body(),
            expires_at: Some(record.at.saturating_add(self.kept?)),
            outlives: true,
        })
    }
}

/// Tells deeds of one millisecond apart: by session and by number in it.
fn unique_id_suffix(key: &SessionKey, number: &str) -> String {
    let mut hash = Sha256::new();
    for part in [key.session.as_str(), number] {
        // With its length, so that no two lists of parts run into the same bytes.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
