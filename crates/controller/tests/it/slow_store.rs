//! A store that lets others come between any two of its calls, and counts the documents that are read and changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use singletree_durable::{
    BoxFuture, DocumentChange, DocumentKey, DocumentStore, Error, MemoryStore, Result, SessionKey,
    StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};
use tokio::sync::Notify;

/// Runs something beside the test.
#[expect(clippy::disallowed_methods, reason = "the runtime of the test runs it")]
pub(crate) fn start_task<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(work)
}

#[derive(Debug, Clone)]
pub(crate) struct SlowStore {
    inner: MemoryStore,
    read: Arc<AtomicU64>,
    changed: Arc<AtomicU64>,
    /// How many answers to changes are lost.
    lost: Arc<AtomicU64>,
    /// Whether the answer to the next change is held back, and the signal that releases it.
    held: Arc<(AtomicBool, Notify)>,
}

impl SlowStore {
    pub(crate) fn over(inner: MemoryStore) -> Self {
        Self {
            inner,
            read: Arc::default(),
            changed: Arc::default(),
            lost: Arc::default(),
            held: Arc::default(),
        }
    }

    /// Tells the next change as failed, after it has landed.
    pub(crate) fn lose_answer(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Holds the answer to the next change back, after it has landed.
    pub(crate) fn hold_answer(&self) {
        self.held.0.store(true, Ordering::Relaxed);
    }

    /// Lets the answer go that is held back.
    pub(crate) fn release_answer(&self) {
        self.held.1.notify_one();
    }

    /// Returns how many documents were read and changed since the last look.
    pub(crate) fn take_counts(&self) -> (u64, u64) {
        (self.read.swap(0, Ordering::Relaxed), self.changed.swap(0, Ordering::Relaxed))
    }
}

impl DocumentStore for SlowStore {
    fn read_document<'a>(&'a self, key: &'a DocumentKey) -> BoxFuture<'a, Result<Option<StoredDocument>>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.read.fetch_add(1, Ordering::Relaxed);
            let read = self.inner.read_document(key).await;
            tokio::task::yield_now().await;
            read
        })
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<StoredDocument>>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let read = self.inner.read_documents(tenant, kind, past, limit).await?;
            self.read.fetch_add(read.len() as u64, Ordering::Relaxed);
            Ok(read)
        })
    }

    fn change_documents(&self, changes: Vec<DocumentChange>) -> BoxFuture<'static, Result<()>> {
        let Self { inner, changed, lost, held, .. } = self.clone();
        // As a store with a writer of its own: it lands whether its caller waits or not.
        let writing = start_task(async move {
            tokio::task::yield_now().await;
            changed.fetch_add(changes.len() as u64, Ordering::Relaxed);
            inner.change_documents(changes).await?;
            if held.0.swap(false, Ordering::Relaxed) {
                held.1.notified().await;
            }
            let take = |lost: u64| lost.checked_sub(1);
            match lost.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
                Ok(_) => Err(Error::Unavailable { doing: "commit", source: "the answer was lost".into() }),
                Err(_) => Ok(()),
            }
        });
        Box::pin(async move { writing.await.unwrap_or(Err(Error::Closed)) })
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        self.inner.expire_documents(before, limit)
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        self.inner.keep_blob_for(key, blob, holder)
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

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<u64>> {
        self.inner.count_blob_bytes(key)
    }
}
