//! A document store that fails from the n-th write on.

use singletree_durable::{
    BlobMetadata, BoxFuture, DocumentChange, DocumentKey, DocumentStore, Result, SessionKey, StoredBlob,
    StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};

use super::FaultInjectingStore;

impl<S: DocumentStore + ?Sized> DocumentStore for FaultInjectingStore<S> {
    fn document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        self.inner.document(key)
    }

    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        self.inner.documents(tenant, kind, past, limit)
    }

    fn change(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        self.fuse.guard(|| self.inner.change(changes))
    }

    fn expire(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        self.fuse.guard(|| self.inner.expire(before, limit))
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        // A probe is not counted: it is no write of the code under test.
        match self.fuse.fired() {
            false => self.inner.probe_write(),
            true => Box::pin(std::future::ready(Err(super::fuse::dead()))),
        }
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        self.fuse.guard(|| self.inner.keep_blob_for(key, blob, holder))
    }

    fn blob_account<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        self.inner.blob_account(tenant, holder)
    }

    fn blob<'a>(&'a self, key: &'a SessionKey, digest: &'a str) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        self.inner.blob(key, digest)
    }

    fn blob_info<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        self.inner.blob_info(key, digest)
    }

    fn blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        self.inner.blob_bytes(key)
    }
}
