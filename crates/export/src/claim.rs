//! Which of several processes on one database exports the turns of a tenant.
//!
//! A claim is a document of the tenant with a time at which it ends. It only keeps two processes from sending the same turns
//! for nothing: where clocks differ, or a process stands still, both may send them, with the same ids.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, JsonDocument, Result, TenantId,
    Timestamp,
};

/// How long a claim lasts that is not made again, as it is before each page of turns. It is longer than an attempt to send, so
/// that two processes do not send the same turns to a receiver that does not answer.
const CLAIM: Duration = Duration::from_secs(45);

const KIND: &str = "trace_export";
const ID: &str = "claim";

#[derive(Debug, Serialize, Deserialize)]
struct ClaimDocument {
    holder: String,
    until: Timestamp,
}

/// The claims of one process.
#[derive(Debug)]
pub(crate) struct ExportClaims {
    /// The name of the process, drawn when it began.
    holder: String,
    /// The tenants that it may have claimed.
    held: Mutex<BTreeSet<TenantId>>,
}

impl ExportClaims {
    pub(crate) fn new(holder: String) -> Self {
        Self { holder, held: Mutex::default() }
    }

    /// Claims a tenant, or claims it for longer; false when another process has it.
    pub(crate) async fn claim_tenant(
        &self,
        documents: &dyn DocumentStore,
        tenant: &TenantId,
        now: Timestamp,
    ) -> Result<bool> {
        let key = DocumentKey::new(tenant.clone(), KIND, ID);
        let stored = documents.read_document(&key).await?;
        let expect = match &stored {
            None => DocumentPrecondition::Absent,
            Some(stored) => {
                // One that cannot be read is of another version of the program, and is replaced.
                let claim = stored.body.decode::<ClaimDocument>().ok();
                if claim.is_some_and(|claim| claim.holder != self.holder && claim.until > now) {
                    return Ok(false);
                }
                DocumentPrecondition::Version(stored.version)
            }
        };
        let until = now.saturating_add(CLAIM);
        let claim = ClaimDocument { holder: self.holder.clone(), until };
        let Ok(body) = JsonDocument::from_serializable(&claim) else { return Ok(false) };
        let write = DocumentChange::Write { key, expect, session: None, body, expires_at: Some(until) };
        // Before it is made: whoever is stopped meanwhile releases it, too.
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(tenant.clone());
        match documents.change_documents(vec![write]).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_refusal() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets another process claim the tenant.
    pub(crate) async fn release_tenant(&self, documents: &dyn DocumentStore, tenant: &TenantId) {
        self.remove_claim(documents, tenant).await;
        // Afterwards: whoever is stopped meanwhile releases it again.
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }

    async fn remove_claim(&self, documents: &dyn DocumentStore, tenant: &TenantId) {
        let key = DocumentKey::new(tenant.clone(), KIND, ID);
        let Ok(Some(stored)) = documents.read_document(&key).await else { return };
        let is_own = stored.body.decode::<ClaimDocument>().is_ok_and(|claim| claim.holder == self.holder);
        if is_own {
            let expect = DocumentPrecondition::Version(stored.version);
            // One that stays ends by itself.
            drop(documents.change_documents(vec![DocumentChange::Remove { key, expect }]).await);
        }
    }

    /// Lets other processes claim the tenants that this one had when it was stopped.
    pub(crate) async fn release_all(&self, documents: &dyn DocumentStore) {
        let held = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        for tenant in held {
            self.remove_claim(documents, &tenant).await;
        }
    }
}
