//! A document store that breaks one promise.

use std::sync::Arc;

use singletree_durable::{
    BoxFuture, DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Result, SessionKey,
    StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};

use super::{ClauseFault, ContractClause, sabotage_error};

#[derive(Debug)]
pub(super) struct FaultyDocumentStore {
    pub(super) inner: Arc<dyn DocumentStore>,
    pub(super) trick: ClauseFault,
}

impl FaultyDocumentStore {
    /// Returns the changes that a store with the broken clause would apply.
    fn twist_changes(&self, changes: Vec<DocumentChange>) -> Result<Vec<DocumentChange>> {
        let is_single = changes.len() == 1;
        let mut twisted = Vec::with_capacity(changes.len());
        for change in changes {
            twisted.push(match change {
                DocumentChange::Write { .. } => self.twist_write(change, is_single),
                DocumentChange::Remove { key, expect } => {
                    let is_new = self.trick.lock_history().removed.insert(key.clone());
                    let picky =
                        self.trick.breaks_clause(ContractClause::DocumentRemoved) && is_single && !is_new;
                    if picky && expect == DocumentPrecondition::Any {
                        return Err(sabotage_error());
                    }
                    let is_rival = self.trick.lock_history().in_flight > 1;
                    let blind = self.trick.breaks_clause(ContractClause::ChangesDecidedOnce) && is_rival;
                    DocumentChange::Remove {
                        key,
                        expect: if blind { DocumentPrecondition::Any } else { expect },
                    }
                }
            });
        }
        Ok(twisted)
    }

    fn twist_write(&self, change: DocumentChange, is_single: bool) -> DocumentChange {
        let DocumentChange::Write { key, mut expect, mut session, body, mut expires_at } = change else {
            return change;
        };
        let mut memo = self.trick.lock_history();
        memo.removed.remove(&key);
        let before = memo.documents.insert(key.clone(), (session.clone(), expires_at));
        match self.trick.broken {
            Some(ContractClause::DocumentWritten) if key.id.contains('\n') => session = None,
            Some(ContractClause::DocumentReplaced) => {
                expires_at = expires_at.or(before.and_then(|before| before.1))
            }
            Some(ContractClause::DocumentExpected) if is_single => expect = DocumentPrecondition::Any,
            // A read of the document adds the session again.
            Some(ContractClause::DocumentsOfSession) => session = None,
            _ => {}
        }
        DocumentChange::Write { key, expect, session, body, expires_at }
    }
}

impl DocumentStore for FaultyDocumentStore {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        Box::pin(async move {
            let mut found = self.inner.read_document(key).await?;
            let (said, other) = {
                let memo = self.trick.lock_history();
                let is_other =
                    |it: &&DocumentKey| it.tenant != key.tenant && (&it.kind, &it.id) == (&key.kind, &key.id);
                (memo.documents.get(key).cloned(), memo.documents.keys().find(is_other).cloned())
            };
            match (&mut found, said, other) {
                (Some(found), Some((session, _)), _)
                    if self.trick.breaks_clause(ContractClause::DocumentsOfSession) =>
                {
                    found.session = session;
                }
                (None, _, Some(other)) if self.trick.breaks_clause(ContractClause::DocumentsTenantsApart) => {
                    return self.inner.read_document(&other).await;
                }
                _ => {}
            }
            Ok(found)
        })
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        let more = u64::from(self.trick.breaks_clause(ContractClause::DocumentsPaged));
        self.inner.read_documents(tenant, kind, past, limit + more)
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        let in_flight = self.trick.begin_call();
        let twisted = self.twist_changes(changes);
        let inner = self.inner.clone();
        if self.trick.breaks_clause(ContractClause::ChangesNeverDropped) {
            return Box::pin(async move { inner.change_documents(twisted?).await });
        }
        let apart = self.trick.breaks_clause(ContractClause::ChangesWhole);
        let answers: Result<Vec<_>> = twisted.map(|twisted| match apart {
            true => twisted.into_iter().map(|one| inner.change_documents(vec![one])).collect(),
            false => vec![inner.change_documents(twisted)],
        });
        Box::pin(async move {
            let _in_flight = in_flight;
            for answer in answers? {
                answer.await?;
            }
            Ok(())
        })
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        let limit = if self.trick.breaks_clause(ContractClause::DocumentsExpired) { u64::MAX } else { limit };
        self.inner.expire_documents(before, limit)
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        self.inner.probe_write()
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        self.trick.lock_history().blobs.push((key.clone(), blob.clone()));
        self.inner.keep_blob_for(key, blob, holder)
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        if self.trick.breaks_clause(ContractClause::BlobAccounts) {
            let kept: u64 = {
                let memo = self.trick.lock_history();
                memo.blobs.iter().map(|(_, blob)| blob.bytes.len() as u64).sum()
            };
            let account = TenantBlobTotals { tenant_bytes: kept, holder_bytes: kept };
            return Box::pin(std::future::ready(Ok(account)));
        }
        self.inner.read_blob_totals(tenant, holder)
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        Box::pin(async move {
            let found = self.inner.read_blob(key, digest).await?;
            let memo = self.trick.lock_history();
            let (last, own) = {
                let kept = |of: Option<&SessionKey>| {
                    let mut all = memo.blobs.iter().rev();
                    all.find(|item| item.1.digest == digest && of.is_none_or(|of| *of == item.0))
                };
                (kept(None).map(|kept| kept.1.clone()), kept(Some(key)).map(|kept| kept.1.clone()))
            };
            Ok(match (self.trick.broken, found) {
                (Some(ContractClause::BlobKept), found) => found.filter(|found| !found.bytes.is_empty()),
                (Some(ContractClause::BlobOnce), Some(found)) => {
                    let media_type = last.map_or_else(String::new, |last| last.media_type);
                    Some(StoredBlob { media_type, ..found })
                }
                (Some(ContractClause::BlobOfSession), None) => own,
                (Some(ContractClause::BlobInherited), found) => found.filter(|_| own.is_some()),
                (_, found) => found,
            })
        })
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        if self.trick.breaks_clause(ContractClause::BlobBytes) {
            let all: u64 = {
                let memo = self.trick.lock_history();
                let own = memo.blobs.iter().filter(|blob| blob.0 == *key);
                own.map(|own| own.1.bytes.len() as u64).sum()
            };
            return Box::pin(std::future::ready(Ok(all)));
        }
        self.inner.count_blob_bytes(key)
    }
}
