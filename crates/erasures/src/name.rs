//! The data that can be erased, by name.

use singletree_durable::{Batch, RowMutation, SessionKey, SubjectId, TenantId, Timestamp};

/// Something that was erased, deleted or revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasedName {
    /// Everything of a tenant.
    Tenant(TenantId),
    /// Everything that was kept for a subject of a tenant.
    Subject(TenantId, SubjectId),
    /// A session.
    Session(SessionKey),
    /// An API key of a tenant, by its id.
    Key(TenantId, String),
}

impl ErasedName {
    /// Returns the session that a batch deletes, and when, by its entry in the audit; nothing for any other batch, and for one
    /// without such an entry: then there was no session.
    #[must_use]
    pub fn of_batch(batch: &Batch) -> Option<(Self, Timestamp)> {
        let deletes = batch.puts.iter().any(|put| matches!(put, RowMutation::Delete));
        let deleted_at = batch.puts.iter().find_map(|put| match put {
            RowMutation::Audit(row) => Some(row.at),
            _ => None,
        });
        deleted_at.filter(|_| deletes).map(|at| (Self::Session(batch.key.clone()), at))
    }
}
