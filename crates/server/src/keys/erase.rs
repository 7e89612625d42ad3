//! Erases the documents of a tenant that belong to no session.

use std::collections::BTreeSet;

use serde_json::Value;
use singletree_agent::ToolDocuments;
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, StoredDocument, TenantId,
};

use super::{keyring, page_session};
use crate::Result;
use crate::caller::operator_tenant;

/// How many documents are read at once.
const PAGE: u64 = 256;

/// The kinds of documents that belong to a tenant and to none of its sessions. Those of sessions go with their session.
const KINDS: [&str; 7] =
    [keyring::KIND, "audit", "warned", "openharness_reply", "continuation", "ui_branch", "pairing_attempts"];

/// Removes the documents that a server keeps for a tenant: keys, sign-ins of the page, the audit, stored answers, notes
/// and messages of tools, also those of deleted sessions.
///
/// Call [`Chat::erase`](singletree_harness::Chat::erase) first: it erases the sessions, which this does not. No server
/// may have the store open: it would still have the keys in memory. A repeated call changes nothing.
///
/// # Errors
/// `store_unavailable` and its kin.
///
/// # Cancellation
/// Dropping the future leaves a part of the documents; another call removes the rest.
pub async fn erase_tenant(documents: &dyn DocumentStore, tenant: &TenantId) -> Result<()> {
    remove_sign_ins(documents, tenant).await?;
    for kind in KINDS.into_iter().chain(ToolDocuments::KINDS) {
        let mut past: Option<String> = None;
        loop {
            let page = documents.read_documents(tenant, kind, past.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            past = Some(last.key.id.clone());
            let mut changes = Vec::new();
            for document in page {
                if kind == keyring::KIND {
                    let owner = DocumentKey::new(operator_tenant(), keyring::OWNER, document.key.id.clone());
                    changes.push(build_removal(owner));
                }
                changes.push(build_removal(document.key));
            }
            documents.change_documents(changes).await?;
        }
    }
    Ok(())
}

/// Removes the sign-ins with a key of the tenant.
async fn remove_sign_ins(documents: &dyn DocumentStore, tenant: &TenantId) -> Result<()> {
    let mut past: Option<String> = None;
    loop {
        let page =
            documents.read_documents(&operator_tenant(), page_session::KIND, past.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        past = Some(last.key.id.clone());
        let mut changes = Vec::new();
        for document in page {
            let Some(key) = read_signed_in_key(&document) else { continue };
            let key = DocumentKey::new(tenant.clone(), keyring::KIND, key);
            if documents.read_document(&key).await?.is_some() {
                changes.push(build_removal(document.key));
            }
        }
        if !changes.is_empty() {
            documents.change_documents(changes).await?;
        }
    }
}

/// Lists the tenants that have keys, each once.
///
/// # Errors
/// `store_unavailable` and its kin.
///
/// # Cancellation
/// Dropping the future leaves nothing behind.
pub async fn tenants_with_keys(documents: &dyn DocumentStore) -> Result<Vec<TenantId>> {
    let mut tenants = BTreeSet::new();
    let mut past: Option<String> = None;
    loop {
        let page =
            documents.read_documents(&operator_tenant(), keyring::OWNER, past.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(tenants.into_iter().collect()) };
        past = Some(last.key.id.clone());
        for document in &page {
            let body: Option<Value> = document.body.decode().ok();
            let named = body.as_ref().and_then(|body| body.get("tenant")?.as_str());
            tenants.extend(named.and_then(|named| TenantId::parse(named).ok()));
        }
    }
}

fn read_signed_in_key(document: &StoredDocument) -> Option<String> {
    let body: Value = document.body.decode().ok()?;
    body.get("key")?.as_str().map(str::to_owned)
}

fn build_removal(key: DocumentKey) -> DocumentChange {
    DocumentChange::Remove { key, expect: DocumentPrecondition::Any }
}
