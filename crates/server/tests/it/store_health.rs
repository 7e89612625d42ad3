//! A server whose store cannot be written: readiness, one line in the log, and the answers to callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use singletree_durable::{
    Batch, BoxFuture, DocumentChange, DocumentKey, DocumentStore, Error, Journal, JournalLayer,
    MaintenanceLayer, Result, SessionKey, StoredBlob, StoredDocument, TenantBlobTotals, TenantId, Timestamp,
};
use singletree_test_store::TestStore;

use crate::operating::{logged, metric};
use crate::support::Client;
use crate::support::rig::within;

/// A store on a disk that can be full.
#[derive(Debug, Clone)]
struct SmallDisk {
    inner: TestStore,
    is_full: Arc<AtomicBool>,
    probes: Arc<AtomicU64>,
}

impl SmallDisk {
    fn new(inner: TestStore) -> Self {
        Self { inner, is_full: Arc::default(), probes: Arc::default() }
    }

    fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    fn probes(&self) -> u64 {
        self.probes.load(Ordering::SeqCst)
    }

    fn guard<T: Send + 'static>(
        &self,
        write: impl FnOnce() -> BoxFuture<'static, Result<T>>,
    ) -> BoxFuture<'static, Result<T>> {
        if self.is_full.load(Ordering::SeqCst) {
            let full = Error::Full { doing: "write", source: "no space left on /the/disk".into() };
            return Box::pin(std::future::ready(Err(full)));
        }
        write()
    }
}

impl JournalLayer for SmallDisk {
    type Journal = TestStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.inner
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        self.guard(|| self.inner.apply(batch))
    }
}

impl MaintenanceLayer for SmallDisk {
    type Maintenance = TestStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.inner
    }
}

impl DocumentStore for SmallDisk {
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
        self.guard(|| self.inner.change_documents(changes))
    }

    fn expire_documents(&self, before: Timestamp, limit: u64) -> BoxFuture<'static, Result<u64>> {
        self.guard(|| self.inner.expire_documents(before, limit))
    }

    fn probe_write(&self) -> BoxFuture<'static, Result<()>> {
        self.probes.fetch_add(1, Ordering::SeqCst);
        self.guard(|| self.inner.probe_write())
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, Result<()>> {
        self.guard(|| self.inner.keep_blob_for(key, blob, holder))
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

/// Waits until the readiness is answered with this status.
async fn until_readiness_is(client: &Client, status: u16) -> Value {
    within(async {
        loop {
            let answer = client.get("/readyz").await;
            if answer.status == status {
                return answer.json();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

// Finding S9
#[tokio::test]
async fn a_full_disk_makes_the_server_unready_with_one_line_and_tells_users_to_try_again() {
    let disk = SmallDisk::new(TestStore::new());
    let (rig, lines) = logged();
    let rig = rig.start_on(disk.clone()).await;
    let client = rig.client();
    until_readiness_is(&client, 200).await;
    disk.set_full(true);
    let unready = until_readiness_is(&client, 503).await;
    let error = &unready["error"];
    assert_eq!((&error["category"], &error["bucket"]), (&json!("store_full"), &json!("retryable_transient")));
    assert!(!unready.to_string().contains("/the/disk"), "{unready}");
    let asked = disk.probes();
    for _ in 0..20 {
        assert_eq!(client.get("/readyz").await.status, 503);
    }
    assert!(disk.probes() - asked <= 5, "asking is not probing: {}", disk.probes() - asked);
    assert_eq!(
        metric(&client.get("/metrics").await.text(), "singletree_store_writable").as_deref(),
        Some("0")
    );
    let refused = client.post("/v1/sessions/s/messages", &json!({ "content": "say hello" })).await;
    let error = refused.json()["error"].clone();
    assert_eq!((refused.status, &error["bucket"]), (503, &json!("retryable_transient")), "{error}");
    disk.set_full(false);
    until_readiness_is(&client, 200).await;
    let of = |line: &Value| (line["state"].clone(), line["category"].clone(), line["why"].clone());
    let told: Vec<_> = lines.of("store").iter().map(of).collect();
    let why = "the store has no space left while it should write: no space left on /the/disk";
    let failed = (json!("failed"), json!("store_full"), json!(why));
    assert_eq!(told, [failed, (json!("writable"), Value::Null, Value::Null)]);
    rig.stop().await;
}

// Finding C11
#[tokio::test]
async fn a_server_that_lost_its_store_to_another_writer_ends_and_says_why() {
    let store = TestStore::new();
    let (rig, lines) = logged();
    let rig = rig.start_on(store.clone()).await;
    until_readiness_is(&rig.client(), 200).await;
    let newer = store.reopen();
    let ended = rig.ended().await.unwrap_err();
    assert_eq!(ended.category(), "store_fenced");
    assert_eq!(lines.of("store").len(), 1, "{:?}", lines.all());
    assert_eq!(lines.of("store")[0]["category"], "store_fenced");
    drop(newer);
}
