//! Documents and blobs, beside the journal and through the same writer.

use singletree_durable::{
    BlobMetadata, BoxFuture, DocumentChange, DocumentKey, DocumentStore, Error, Result, SessionKey,
    StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};

use crate::format::{BLOB_ACCOUNTS, SHELF};
use crate::writer::{WriteOperation, WriteReply};
use crate::{SqliteStore, read};

impl SqliteStore {
    /// Tells whether the file had a place for documents and for the use of models when it was opened: one that is only
    /// read may be of a version that had none, and then there is none.
    pub(crate) fn has_shelf(&self) -> bool {
        self.meta().version >= SHELF
    }
}

/// Returns a future that has its answer.
fn nothing<T: Send + 'static>(answer: T) -> BoxFuture<'static, Result<T>> {
    Box::pin(std::future::ready(Ok(answer)))
}

impl DocumentStore for SqliteStore {
    fn document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        if !self.has_shelf() {
            return nothing(None);
        }
        let key = key.clone();
        self.query(move |snapshot| read::document::one(snapshot, &key))
    }

    fn documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        if !self.has_shelf() {
            return nothing(Vec::new());
        }
        let (tenant, kind, past) = (tenant.clone(), kind.to_owned(), past.map(str::to_owned));
        self.query(move |snapshot| read::document::page(snapshot, (&tenant, &kind), past.as_deref(), limit))
    }

    fn change(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        let answer = self.hand_over(WriteOperation::Documents(changes));
        Box::pin(async move { answer.await.map(drop) })
    }

    fn expire(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        let answer = self.hand_over(WriteOperation::Expire { before, limit });
        Box::pin(async move {
            Ok(match answer.await? {
                WriteReply::Count(count) => count,
                WriteReply::Done | WriteReply::Paused(_) | WriteReply::Fenced(_) => 0,
            })
        })
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        let held = self.meta().fence;
        let answer = self.hand_over(WriteOperation::Probe { held });
        Box::pin(async move {
            match answer.await? {
                WriteReply::Fenced(found) => Err(Error::Fenced { held, found }),
                WriteReply::Done | WriteReply::Paused(_) | WriteReply::Count(_) => Ok(()),
            }
        })
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        let (key, holder) = (key.clone(), holder.map(str::to_owned));
        let answer = self.hand_over(WriteOperation::Keep { key, blob, holder });
        Box::pin(async move { answer.await.map(drop) })
    }

    fn blob_account<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, Result<TenantBlobTotals>> {
        // A file that is only read may be of a version that counted nothing: nobody keeps anything there either.
        if self.meta().version < BLOB_ACCOUNTS {
            return nothing(TenantBlobTotals::default());
        }
        let (tenant, holder) = (tenant.clone(), holder.to_owned());
        self.query(move |snapshot| read::document::account(snapshot, &tenant, &holder))
    }

    fn blob<'a>(&'a self, key: &'a SessionKey, digest: &'a str) -> BoxFuture<'a, Result<Option<StoredBlob>>> {
        if !self.has_shelf() {
            return nothing(None);
        }
        let (key, digest) = (key.clone(), digest.to_owned());
        self.query(move |snapshot| read::document::blob(snapshot, &key, &digest))
    }

    fn blob_info<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, Result<Option<BlobMetadata>>> {
        if !self.has_shelf() {
            return nothing(None);
        }
        let (key, digest) = (key.clone(), digest.to_owned());
        self.query(move |snapshot| read::document::blob_info(snapshot, &key, &digest))
    }

    fn blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        if !self.has_shelf() {
            return nothing(0);
        }
        let key = key.clone();
        self.query(move |snapshot| read::document::bytes(snapshot, &key))
    }
}
