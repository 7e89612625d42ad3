//! The audit: records actions that cannot be undone and actions that grant access, with the actor of each.
//!
//! The chat records answers and deletions in the commits that make them. This module records the actions of the server
//! in the same form and, where an action changes documents, in the same transaction.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, StoredDocument, TenantId, Timestamp,
};
use singletree_engine::{Clock, IdGenerator};
use singletree_protocol::native::{AuditEntry, AuditList};

use crate::native::convert_time;
use crate::{Error, Result};

/// Something that is being done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeyAuditEntry(singletree_harness::AuditRecord);

impl KeyAuditEntry {
    /// Makes an entry of an actor, an action and its subject.
    pub(crate) fn new(who: &str, action: &str, subject: &str) -> Self {
        Self(singletree_harness::AuditRecord::new(Timestamp::from_millis(0), Some(who), action, subject))
    }

    /// Adds a detail. It must hold no content of a conversation and no secret.
    pub(crate) fn with_detail(self, name: &str, value: impl Into<Value>) -> Self {
        Self(self.0.with_detail(name, value))
    }
}

/// Keeps deeds, each tenant's for itself, for as long as it is told to.
#[derive(Debug)]
pub(crate) struct TenantAuditLog {
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    kept: Duration,
}

impl TenantAuditLog {
    pub(crate) fn new(
        documents: Arc<dyn DocumentStore>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGenerator>,
        kept: Duration,
    ) -> Self {
        Self { documents, clock, ids, kept }
    }

    /// Returns the change that records an entry. Commit it together with the action that it records.
    pub(crate) fn build_entry_change(&self, tenant: &TenantId, deed: KeyAuditEntry) -> DocumentChange {
        let deed = singletree_harness::AuditRecord { at: self.clock.now(), ..deed.0 };
        DocumentChange::Write {
            key: DocumentKey::new(
                tenant.clone(),
                singletree_harness::AuditRecord::KIND,
                deed.document_id(&self.ids.generate_uuid()),
            ),
            expect: DocumentPrecondition::Absent,
            session: None,
            body: deed.to_document_body(),
            expires_at: Some(deed.at.saturating_add(self.kept)),
        }
    }

    /// Lists a tenant's deeds, the last one first.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub(super) async fn list_entries(
        &self,
        tenant: &TenantId,
        from: Option<&str>,
        limit: u64,
    ) -> Result<AuditList> {
        let kind = singletree_harness::AuditRecord::KIND;
        let found = self.documents.read_documents(tenant, kind, from, limit + 1).await?;
        let (found, next) = truncate_to_page(found, limit);
        Ok(AuditList { items: found.iter().map(decode_audit_entry).collect::<Result<_>>()?, next })
    }
}

/// Cuts the result of a query for `limit + 1` documents to one page; returns the id at which the page ends if there are
/// more.
pub(super) fn truncate_to_page(
    mut found: Vec<StoredDocument>,
    limit: u64,
) -> (Vec<StoredDocument>, Option<String>) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| more).map(|item| item.key.id.clone());
    (found, next)
}

fn decode_audit_entry(document: &StoredDocument) -> Result<AuditEntry> {
    let deed = singletree_harness::AuditRecord::from_document(document).map_err(|error| {
        Error::Store(singletree_durable::Error::Corrupt {
            what: format!("audit entry {}", document.key.id),
            source: Some(error.into()),
        })
    })?;
    let singletree_harness::AuditRecord { at, who, action, subject, details } = deed;
    Ok(AuditEntry { id: document.key.id.clone(), at: convert_time(at), who, action, subject, details })
}
