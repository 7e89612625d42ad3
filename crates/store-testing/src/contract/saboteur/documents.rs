//! A document store that breaks one promise.

use std::sync::Arc;

use singletree_durable::{
    BoxFuture, DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Result, SessionKey,
    StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};

use super::{ClauseFault, ContractClause, sabotage};

#[derive(Debug)]
pub(super) struct FaultyDocumentStore {
    pub(super) inner: Arc<dyn DocumentStore>,
    pub(super) trick: ClauseFault,
}

impl FaultyDocumentStore {
    /// Returns the changes that a store with the broken clause would apply.
    fn twist(&self, changes: Vec<DocumentChange>) -> Result<Vec<DocumentChange>> {
        let is_single = changes.len() == 1;
        let mut twisted = Vec::with_capacity(changes.len());
        for change in changes {
            twisted.push(match change {
                DocumentChange::Write { .. } => self.twist_write(change, is_single),
                DocumentChange::Remove { key, expect } => {
                    let is_new = self.trick.memo().removed.insert(key.clone());
                    let picky = self.trick.breaks(ContractClause::DocumentRemoved) && is_single && !is_new;
                    if picky && expect == DocumentPrecondition::Any {
                        return Err(sabotage());
                    }
                    let is_rival = self.trick.memo().in_flight > 1;
                    let blind = self.trick.breaks(ContractClause::ChangesDecidedOnce) && is_rival;
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
        let mut memo = self.trick.memo();
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
    fn document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        Box::pin(async move {
            let mut found = self.inner.document(key).await?;
            let (said, other) = {
                let memo = self.trick.memo();
                let is_other =
                    |it: &&DocumentKey| it.tenant != key.tenant && (&it.kind, &it.id) == (&key.kind, &key.id);
                (memo.documents.get(key).cloned(), memo.documents.keys().find(is_other).cloned())
            };
            match (&mut found, said, other) {
                (Some(found), Some((session, _)), _)
                    if self.trick.breaks(ContractClause::DocumentsOfSession) =>
                {
                    found.session = session;
                }
                (None, _, Some(other)) if self.trick.breaks(ContractClause::DocumentsTenantsApart) => {
                    return self.inner.document(&other).await;
                }
                _ => {}
            }
            Ok(found)
        })
    }

    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        let more = u64::from(self.trick.breaks(ContractClause::DocumentsPaged));
        self.inner.documents(tenant, kind, past, limit + more)
    }

    fn change(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        let in_flight = self.trick.enter();
        let twisted = self.twist(changes);
        let inner = self.inner.clone();
        if self.trick.breaks(ContractClause::ChangesNeverDropped) {
            return Box::pin(async move { inner.change(twisted?).await });
        }
        let apart = self.trick.breaks(ContractClause::ChangesWhole);
        let answers: Result<Vec<_>> = twisted.map(|twisted| match apart {
            true => twisted.into_iter().map(|one| inner.change(vec![one])).collect(),
            false => vec![inner.change(twisted)],
        });
        Box::pin(async move {
            let _in_flight = in_flight;
            for answer in answers? {
                answer.await?;
            }
            Ok(())
        })
    }

    fn expire(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        let limit = if self.trick.breaks(ContractClause::DocumentsExpired) { u64::MAX } else { limit };
        self.inner.expire(before, limit)
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
        self.trick.memo().blobs.push((key.clone(), blob.clone()));
        self.inner.keep_blob_for(key, blob, holder)
    }

    fn blob_account<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        if self.trick.breaks(ContractClause::BlobAccounts) {
            let kept: u64 = {
                let memo = self.trick.memo();
                memo.blobs.iter().map(|(_, blob)| blob.bytes.len() as u64).sum()
            };
            let account = TenantBlobTotals { tenant_bytes: kept, holder_bytes: kept };
            return Box::pin(std::future::ready(Ok(account)));
        }
        self.inner.blob_account(tenant, holder)
    }

    fn blob<'a>(&'a self, key: &'a SessionKey, digest: &'a str) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        Box::pin(async move {
            let found = self.inner.blob(key, digest).await?;
            let memo = self.trick.memo();
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

    fn blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        if self.trick.breaks(ContractClause::BlobBytes) {
            let all: u64 = {
                let memo = self.trick.memo();
                let own = memo.blobs.iter().filter(|blob| blob.0 == *key);
                own.map(|own| own.1.bytes.len() as u64).sum()
            };
            return Box::pin(std::future::ready(Ok(all)));
        }
        self.inner.blob_bytes(key)
    }
}
