//! Pinned definitions of tools, as documents of the operator.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Error as StoreError, JsonDocument,
    StoredDocument, TenantId,
};
use singletree_llm::BoxFuture;
use singletree_tools::{DefinitionPins, Error as ToolError};

use crate::error::{Error, Result};

/// The tenant of documents that belong to the operator and to no tenant.
const OPERATOR: &str = "operator";
const KIND: &str = "tool_definition";
/// How many documents are read at a time.
const PAGE: u64 = 200;

/// Keeps pinned definitions in a store, for all tenants: servers belong to the configuration, which is the operator's.
pub struct DocumentPins {
    documents: Arc<dyn DocumentStore>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinnedDefinition {
    server: String,
    tool: String,
    digest: String,
}

impl DocumentPins {
    /// Keeps pins in a store.
    #[must_use]
    pub fn new(documents: Arc<dyn DocumentStore>) -> Self {
        Self { documents }
    }

    /// Removes the pins of a server, so that its definitions are pinned anew when they are seen next; returns how many.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has removed some of them, or all.
    pub async fn remove_pins(&self, server: &str) -> Result<u64> {
        let (mut removed, mut past) = (0, None);
        loop {
            let page =
                self.documents.read_documents(&operator_tenant()?, KIND, past.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(removed) };
            past = Some(last.key.id.clone());
            let mut changes = Vec::new();
            for document in &page {
                if decode_pin(document)?.server == server {
                    changes.push(DocumentChange::Remove {
                        key: document.key.clone(),
                        expect: DocumentPrecondition::Any,
                    });
                }
            }
            removed += changes.len() as u64;
            if !changes.is_empty() {
                self.documents.change_documents(changes).await?;
            }
        }
    }

    async fn pin_or_read_digest(&self, server: &str, tool: &str, digest: &str) -> Result<String> {
        let key = DocumentKey::new(operator_tenant()?, KIND, pin_document_id(server, tool));
        if let Some(known) = self.documents.read_document(&key).await? {
            return Ok(decode_pin(&known)?.digest);
        }
        let (server, tool) = (server.to_owned(), tool.to_owned());
        let pinned = PinnedDefinition { server, tool, digest: digest.to_owned() };
        let body = JsonDocument::from_serializable(&pinned)
            .map_err(|source| corrupt_document_error(&key, Some(source)))?;
        let write = DocumentChange::Write {
            key: key.clone(),
            expect: DocumentPrecondition::Absent,
            session: None,
            body,
            expires_at: None,
        };
        match self.documents.change_documents(vec![write]).await {
            Ok(()) => Ok(digest.to_owned()),
            // Another process was first.
            Err(StoreError::Refused { .. }) => match self.documents.read_document(&key).await? {
                Some(known) => Ok(decode_pin(&known)?.digest),
                None => Err(corrupt_document_error(&key, None)),
            },
            Err(error) => Err(error.into()),
        }
    }
}

impl DefinitionPins for DocumentPins {
    fn pin_definition<'a>(
        &'a self,
        server: &'a str,
        tool: &'a str,
        digest: &'a str,
    ) -> BoxFuture<'a, singletree_tools::Result<String>> {
        let failed =
            |error| ToolError::failed_with_source("the definition of the tool could not be pinned", error);
        async move { self.pin_or_read_digest(server, tool, digest).await.map_err(failed) }.boxed()
    }
}

impl fmt::Debug for DocumentPins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DocumentPins")
    }
}

fn operator_tenant() -> Result<TenantId> {
    let invalid = |it: singletree_durable::InvalidIdentifier| Error::Store {
        source: StoreError::Corrupt { what: it.to_string(), source: None },
    };
    TenantId::parse(OPERATOR).map_err(invalid)
}

/// Names the pin of a tool. Names of tools may be any text.
fn pin_document_id(server: &str, tool: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [server, tool] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode_pin(document: &StoredDocument) -> Result<PinnedDefinition> {
    document.body.decode().map_err(|source| corrupt_document_error(&document.key, Some(source)))
}

fn corrupt_document_error(key: &DocumentKey, source: Option<serde_json::Error>) -> Error {
    let what = format!("the document '{}' of kind {}", key.id, key.kind);
    Error::Store { source: StoreError::Corrupt { what, source: source.map(Into::into) } }
}
