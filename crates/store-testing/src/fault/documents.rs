//! A document store that fails from the n-th write on.

use singletree_durable::{
    BlobMetadata, BoxFuture, DocumentChange, DocumentKey, DocumentStore, Result, SessionKey, StoredBlob,
    StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};

use super::FaultInjectingStore;

impl<S: DocumentStore + ?Sized> DocumentStore for FaultInjectingStore<S> {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        self.inner.read_document(key)
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        self.inner.read_documents(tenant, kind, past, limit)
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        self.fuse.guard_write(|| self.inner.change_documents(changes))
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        self.fuse.guard_write(|| self.inner.expire_documents(before, limit))
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        // A probe is not counted: it is no write of the code under test.
        match self.fuse.has_fired() {
            false => self.inner.probe_write(),
            true => Box::pin(std::future::ready(Err(super::fuse::dead_process_error()))),
        }
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        self.fuse.guard_write(|| self.inner.keep_blob_for(key, blob, holder))
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        self.inner.read_blob_totals(tenant, holder)
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        self.inner.read_blob(key, digest)
    }

    fn read_blob_metadata<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        self.inner.read_blob_metadata(key, digest)
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        self.inner.count_blob_bytes(key)
    }
}
