//! Documents and blobs: data that is stored beside the sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{MemoryStore, ready_future, refusal_error};
use crate::{
    BoxFuture, DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Result, SessionId,
    SessionKey, StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};

/// Data that is stored beside the sessions.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct AuxiliaryTables {
    documents: BTreeMap<DocumentKey, StoredDocument>,
    /// The documents that belong to a session, which need not exist.
    of_session: BTreeMap<SessionKey, BTreeSet<DocumentKey>>,
    /// The documents whose time ends, by when.
    ending: BTreeSet<(Timestamp, DocumentKey)>,
    /// Each with the number of sessions that use it.
    blobs: BTreeMap<(TenantId, String), (StoredBlob, u64)>,
    /// The holder that first kept a blob, if one was named.
    holders: BTreeMap<(TenantId, String), String>,
    /// The digests of the blobs that a session uses.
    uses: BTreeMap<SessionKey, BTreeSet<String>>,
}

impl AuxiliaryTables {
    /// Makes all changes or none.
    fn change_documents(&mut self, changes: Vec<DocumentChange>) -> Result<()> {
        for change in &changes {
            let (DocumentChange::Write { key, expect, .. } | DocumentChange::Remove { key, expect }) = change;
            let version = self.documents.get(key).map(|document| document.version);
            let holds = match expect {
                DocumentPrecondition::Any => true,
                DocumentPrecondition::Absent => version.is_none(),
                DocumentPrecondition::Version(expected) => version == Some(*expected),
            };
            if !holds {
                let (kind, id) = (&key.kind, &key.id);
                return Err(refusal_error(format!("{expect:?} of document {kind} {id} (found {version:?})")));
            }
        }
        for change in changes {
            match change {
                DocumentChange::Write { key, session, body, expires_at, .. } => {
                    self.write_document(StoredDocument { key, session, body, version: 0, expires_at });
                }
                DocumentChange::Remove { key, .. } => drop(self.remove_document(&key)),
            }
        }
        Ok(())
    }

    /// Writes a document, whatever stood there; its version is counted here.
    pub(super) fn write_document(&mut self, document: StoredDocument) {
        let version = self.remove_document(&document.key).map_or(0, |it| it.version) + 1;
        self.insert_document(StoredDocument { version, ..document });
    }

    fn insert_document(&mut self, document: StoredDocument) {
        let key = document.key.clone();
        if let Some(session) = &document.session {
            let owner = SessionKey::new(key.tenant.clone(), session.clone());
            self.of_session.entry(owner).or_default().insert(key.clone());
        }
        self.ending.extend(document.expires_at.map(|expires_at| (expires_at, key.clone())));
        self.documents.insert(key, document);
    }

    fn remove_document(&mut self, key: &DocumentKey) -> Option<StoredDocument> {
        let document = self.documents.remove(key)?;
        if let Some(session) = &document.session {
            let owner = SessionKey::new(key.tenant.clone(), session.clone());
            if let Some(owned) = self.of_session.get_mut(&owner) {
                owned.remove(key);
                if owned.is_empty() {
                    self.of_session.remove(&owner);
                }
            }
        }
        if let Some(at) = document.expires_at {
            self.ending.remove(&(at, key.clone()));
        }
        Some(document)
    }

    fn expire_documents(&mut self, before: Timestamp, limit: u64) -> u64 {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let over: Vec<DocumentKey> =
            self.ending.iter().take_while(|it| it.0 < before).take(limit).map(|it| it.1.clone()).collect();
        over.iter().filter_map(|it| self.remove_document(it)).count() as u64
    }

    fn keep_blob(&mut self, key: &SessionKey, blob: StoredBlob) {
        let digest = blob.digest.clone();
        if self.uses.entry(key.clone()).or_default().insert(digest.clone()) {
            self.blobs.entry((key.tenant.clone(), digest)).or_insert((blob, 0)).1 += 1;
        }
    }

    /// Keeps a blob. Its bytes count for the holder if the blob is new.
    fn keep_blob_for(&mut self, key: &SessionKey, blob: StoredBlob, holder: Option<String>) {
        let name = (key.tenant.clone(), blob.digest.clone());
        if let Some(holder) = holder.filter(|_| !self.blobs.contains_key(&name)) {
            self.holders.insert(name, holder);
        }
        self.keep_blob(key, blob);
    }

    fn sum_blob_totals(&self, tenant: &TenantId, holder: &str) -> TenantBlobTotals {
        let mut account = TenantBlobTotals::default();
        for (name, (blob, _)) in self.blobs.iter().filter(|(name, _)| name.0 == *tenant) {
            let bytes = blob.bytes.len() as u64;
            account.tenant_bytes += bytes;
            if self.holders.get(name).is_some_and(|holders| holders == holder) {
                account.holder_bytes += bytes;
            }
        }
        account
    }

    fn find_used_blob(&self, key: &SessionKey, digest: &str) -> Option<&StoredBlob> {
        let digest = self.uses.get(key)?.get(digest)?;
        self.blobs.get(&(key.tenant.clone(), digest.clone())).map(|blob| &blob.0)
    }

    fn count_blob_bytes(&self, key: &SessionKey) -> u64 {
        let used = self.uses.get(key).into_iter().flatten();
        used.filter_map(|it| self.find_used_blob(key, it)).map(|it| it.bytes.len() as u64).sum()
    }

    /// Returns the digests of the blobs that a session uses.
    pub(super) fn used_digests(&self, key: &SessionKey) -> impl Iterator<Item = &String> {
        self.uses.get(key).into_iter().flatten()
    }

    /// Lets a session use some of the blobs of another session of its tenant.
    pub(super) fn inherit_blobs(&mut self, key: &SessionKey, from: &SessionId, digests: &[String]) {
        let source = SessionKey::new(key.tenant.clone(), from.clone());
        for digest in digests {
            if let Some(blob) = self.find_used_blob(&source, digest).cloned() {
                self.keep_blob(key, blob);
            }
        }
    }

    /// Removes the documents and blob uses of a session.
    pub(super) fn remove_session_data(&mut self, key: &SessionKey) {
        for document in self.of_session.remove(key).unwrap_or_default() {
            self.remove_document(&document);
        }
        for digest in self.uses.remove(key).unwrap_or_default() {
            let name = (key.tenant.clone(), digest);
            if let Some((_, users)) = self.blobs.get_mut(&name) {
                *users -= 1;
                if *users == 0 {
                    self.holders.remove(&name);
                    self.blobs.remove(&name);
                }
            }
        }
    }
}

impl DocumentStore for MemoryStore {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        ready_future(Ok(self.lock_tables().shelf.documents.get(key).cloned()))
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        let named = |id: &str| DocumentKey::new(tenant.clone(), kind, id);
        let from = past.map_or_else(|| Bound::Included(named("")), |past| Bound::Excluded(named(past)));
        let state = self.lock_tables();
        let found = state.shelf.documents.range((from, Bound::Unbounded)).map(|(_, it)| it);
        let ours = found.take_while(|item| item.key.tenant == *tenant && item.key.kind == kind);
        ready_future(Ok(ours.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect()))
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        ready_future(self.lock_for_writing().and_then(|mut state| state.shelf.change_documents(changes)))
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        ready_future(self.lock_for_writing().map(|mut state| state.shelf.expire_documents(before, limit)))
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        ready_future(self.lock_for_writing().map(drop))
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        let holder = holder.map(str::to_owned);
        ready_future(self.lock_for_writing().map(|mut state| state.shelf.keep_blob_for(key, blob, holder)))
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        ready_future(Ok(self.lock_tables().shelf.sum_blob_totals(tenant, holder)))
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        ready_future(Ok(self.lock_tables().shelf.find_used_blob(key, digest).cloned()))
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        ready_future(Ok(self.lock_tables().shelf.count_blob_bytes(key)))
    }
}
