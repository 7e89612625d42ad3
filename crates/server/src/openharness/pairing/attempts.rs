//! The number of wrong codes, counted in the store so that a restart keeps it.

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, Error as StoreError, JsonDocument, TenantId,
};

use super::CODE_TTL;
use crate::caller::operator_tenant;
use crate::shared::ServerState;

const KIND: &str = "pairing_attempts";

/// The maximum number of wrong codes of one tenant during the lifetime of a code.
const TENANT_MAX: u64 = 10;

/// The maximum number of wrong codes of all tenants together.
const ALL_MAX: u64 = 100;

/// The maximum number of attempts to write a count that others write, too.
const TRIES: u32 = 16;

#[derive(Debug, Default, Serialize, Deserialize)]
struct PairingAttemptCount {
    wrong: u64,
}

/// Checks whether a tenant may try another code.
pub(super) async fn can_try_code(shared: &ServerState, tenant: &TenantId) -> crate::Result<bool> {
    for (key, max) in attempt_limits(tenant) {
        let found = shared.documents.read_document(&key).await?;
        let found = found.filter(|found| found.expires_at.is_none_or(|expires_at| expires_at > shared.now()));
        let count: PairingAttemptCount = found.and_then(|found| found.body.decode().ok()).unwrap_or_default();
        if count.wrong >= max {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Counts a wrong code of a tenant.
pub(super) async fn count_wrong_code(shared: &ServerState, tenant: &TenantId) -> crate::Result<()> {
    for (key, _) in attempt_limits(tenant) {
        for _ in 0..TRIES {
            let found = shared.documents.read_document(&key).await?;
            let expect = found
                .as_ref()
                .map_or(DocumentPrecondition::Absent, |found| DocumentPrecondition::Version(found.version));
            let found =
                found.filter(|found| found.expires_at.is_none_or(|expires_at| expires_at > shared.now()));
            // The lifetime of a count begins with the first wrong code.
            let end = found
                .as_ref()
                .and_then(|found| found.expires_at)
                .unwrap_or_else(|| shared.now().saturating_add(CODE_TTL));
            let count: PairingAttemptCount =
                found.and_then(|found| found.body.decode().ok()).unwrap_or_default();
            let body = JsonDocument::from_serializable(&PairingAttemptCount { wrong: count.wrong + 1 })
                .expect("a number is JSON");
            let key = key.clone();
            let change = DocumentChange::Write { key, expect, session: None, body, expires_at: Some(end) };
            match shared.documents.change_documents(vec![change]).await {
                Ok(()) => break,
                Err(StoreError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn attempt_limits(tenant: &TenantId) -> [(DocumentKey, u64); 2] {
    let of_tenant = DocumentKey::new(tenant.clone(), KIND, "tenant");
    [(of_tenant, TENANT_MAX), (DocumentKey::new(operator_tenant(), KIND, "all"), ALL_MAX)]
}
