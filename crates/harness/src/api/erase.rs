//! Erasing everything that is kept for a person or for a tenant.

use std::collections::{HashMap, HashSet};

use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, SessionId, StoredDocument, SubjectId,
};

use crate::api::chat::Chat;
use crate::runtime::deed::AuditRecord;
use crate::{Error, Result};

/// How many rows are read at once.
const PAGE: u64 = 256;

/// Replaces an erased name in an audit entry.
const ERASED: &str = "(erased)";

/// For whom is erased, within the tenant of the chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureScope {
    /// For the tenant: all of its sessions.
    Tenant,
    /// For a subject: the sessions that were made on its behalf ([`Chat::on_behalf_of`]), and all forks of them.
    Subject(SubjectId),
}

impl Chat {
    /// Lists the sessions that [`Chat::erase`] deletes, each fork before its source.
    ///
    /// It goes through all sessions of the tenant and holds their ids.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn erasable_sessions(&self, scope: &ErasureScope) -> Result<Vec<SessionId>> {
        let mut chosen = Vec::new();
        let mut forks: HashMap<SessionId, Vec<SessionId>> = HashMap::new();
        let mut from: Option<SessionId> = None;
        loop {
            let page = self.inner.journal.read_session_page(self.served_tenant()?, from.as_ref(), PAGE);
            let page = self.inner.await_store_read(page).await?;
            for row in page.sessions {
                let session = row.key.session;
                let is_meant = match scope {
                    ErasureScope::Tenant => true,
                    ErasureScope::Subject(subject) => row.head.subject.as_ref() == Some(subject),
                };
                if is_meant {
                    chosen.push(session.clone());
                }
                if let Some(parent) = row.head.parent {
                    forks.entry(parent.session).or_default().push(session);
                }
            }
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        let mut known: HashSet<SessionId> = chosen.iter().cloned().collect();
        let mut next = 0;
        while let Some(session) = chosen.get(next) {
            let found = forks.remove(session).unwrap_or_default();
            chosen.extend(found.into_iter().filter(|item| known.insert(item.clone())));
            next += 1;
        }
        // A fork that is found only through its source goes first, so that erasing again finds the remaining sessions.
        chosen.reverse();
        Ok(chosen)
    }

    /// Deletes everything that is kept in sessions for a person or the tenant, and returns how many sessions that were.
    ///
    /// Each session goes as [`Session::delete`](crate::Session::delete) says, with its documents, blobs and narration. Before, the names
    /// of the sessions and of the subject are removed from the entries of the audit. Erasing again finishes an erasure
    /// that was interrupted, and changes nothing otherwise.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has erased a part; erasing again erases the rest.
    pub async fn erase(&self, scope: &ErasureScope, by: Option<&str>) -> Result<u64> {
        let sessions = self.erasable_sessions(scope).await?;
        self.redact_audit_entries(scope, &sessions).await?;
        for session in &sessions {
            self.with_reserved_sessions().session(session).delete(by).await?;
        }
        // The deletions are in the audit, too.
        self.redact_audit_entries(scope, &sessions).await?;
        Ok(sessions.len() as u64)
    }

    /// Removes names from the entries of the audit; where the tenant is erased, the entries.
    async fn redact_audit_entries(&self, scope: &ErasureScope, sessions: &[SessionId]) -> Result<()> {
        let Some(blobs) = &self.inner.blobs else { return Ok(()) };
        let names: HashSet<&str> = sessions.iter().map(SessionId::as_str).collect();
        let mut past: Option<String> = None;
        loop {
            let page = blobs.document_store().read_documents(
                self.served_tenant()?,
                AuditRecord::KIND,
                past.as_deref(),
                PAGE,
            );
            let page = self.inner.await_store_read(page).await?;
            let Some(last) = page.last() else { return Ok(()) };
            past = Some(last.key.id.clone());
            let mut changes = Vec::new();
            for document in &page {
                let hidden = match scope {
                    ErasureScope::Tenant => Some(None),
                    ErasureScope::Subject(subject) => {
                        redact_audit_entry(document, subject, &names)?.map(Some)
                    }
                };
                let Some(hidden) = hidden else { continue };
                let (key, expect) = (document.key.clone(), DocumentPrecondition::Version(document.version));
                changes.push(DocumentChange::Remove { key, expect });
                // The id of an entry is made of the session's: it gets another one.
                changes.extend(hidden.map(|deed| DocumentChange::Write {
                    key: DocumentKey::new(
                        document.key.tenant.clone(),
                        AuditRecord::KIND,
                        deed.document_id(&self.inner.env.ids.generate_uuid()),
                    ),
                    expect: DocumentPrecondition::Absent,
                    session: None,
                    body: deed.to_document_body(),
                    expires_at: document.expires_at,
                }));
            }
            if !changes.is_empty() {
                blobs.document_store().change_documents(changes).await.map_err(Error::from)?;
            }
        }
    }
}

/// Returns an entry without these names, if it has one of them.
fn redact_audit_entry(
    document: &StoredDocument,
    subject: &SubjectId,
    sessions: &HashSet<&str>,
) -> Result<Option<AuditRecord>> {
    let mut deed = AuditRecord::from_document(document)?;
    // A server marks the subjects of tokens.
    let is_hidden = |name: &str| {
        name.strip_prefix("token:").unwrap_or(name) == subject.as_str() || sessions.contains(name)
    };
    let mut has_name = false;
    if deed.who.as_deref().is_some_and(is_hidden) {
        deed.who = Some(ERASED.to_owned());
        has_name = true;
    }
    if is_hidden(&deed.subject)
        || deed.details.get("session").and_then(|detail| detail.as_str()).is_some_and(is_hidden)
    {
        deed.subject = ERASED.to_owned();
        deed.details.clear();
        has_name = true;
    }
    Ok(has_name.then_some(deed))
}
