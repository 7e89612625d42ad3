//! Documents and blobs, beside the journal and through the same writer.

use singletree_durable::{
    BlobMetadata, BoxFuture, DocumentChange, DocumentKey, DocumentStore, Result, SessionKey, StoredBlob,
    StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};

use crate::format::{BLOB_ACCOUNTS, SHELF};
use crate::writer::{WriteOperation, WriteReply};
use crate::{SqliteStore, read};

impl SqliteStore {
    /// Tells whether the file had a place for documents and for the use of models when it was opened: one that is only
    /// read may be of a version that had none, and then there is none.
    pub(crate) fn has_document_tables(&self) -> bool {
        self.metadata().version >= SHELF
    }
}

/// Returns a future that has its answer.
fn ready_future<T: Send + 'static>(answer: T) -> BoxFuture<'static, Result<T>> {
    Box::pin(std::future::ready(Ok(answer)))
}

impl DocumentStore for SqliteStore {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        if !self.has_document_tables() {
            return ready_future(None);
        }
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::document::read_document(snapshot, &key))
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        if !self.has_document_tables() {
            return ready_future(Vec::new());
        }
        let (tenant, kind, past) = (tenant.clone(), kind.to_owned(), past.map(str::to_owned));
        self.query_in_snapshot(move |snapshot| {
            read::document::read_documents(snapshot, (&tenant, &kind), past.as_deref(), limit)
        })
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        let answer = self.submit_write(WriteOperation::Documents(changes));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        let answer = self.submit_write(WriteOperation::Expire { before, limit });
        Box::pin(async move {
            Ok(match answer.await? {
                WriteReply::Count(count) => count,
                WriteReply::Done | WriteReply::Paused(_) => 0,
            })
        })
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        let answer = self.submit_write(WriteOperation::Probe);
        Box::pin(async move { answer.await.map(drop) })
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        let (key, holder) = (key.clone(), holder.map(str::to_owned));
        let answer = self.submit_write(WriteOperation::Keep { key, blob, holder });
        Box::pin(async move { answer.await.map(drop) })
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        // A file that is only read may be of a version that counted nothing: nobody keeps anything there either.
        if self.metadata().version < BLOB_ACCOUNTS {
            return ready_future(TenantBlobTotals::default());
        }
        let (tenant, holder) = (tenant.clone(), holder.to_owned());
        self.query_in_snapshot(move |snapshot| read::document::read_blob_totals(snapshot, &tenant, &holder))
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        if !self.has_document_tables() {
            return ready_future(None);
        }
        let (key, digest) = (key.clone(), digest.to_owned());
        self.query_in_snapshot(move |snapshot| read::document::read_blob(snapshot, &key, &digest))
    }

    fn read_blob_metadata<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        if !self.has_document_tables() {
            return ready_future(None);
        }
        let (key, digest) = (key.clone(), digest.to_owned());
        self.query_in_snapshot(move |snapshot| read::document::read_blob_metadata(snapshot, &key, &digest))
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        if !self.has_document_tables() {
            return ready_future(0);
        }
        let key = key.clone();
        self.query_in_snapshot(move |snapshot| read::document::count_blob_bytes(snapshot, &key))
    }
}
