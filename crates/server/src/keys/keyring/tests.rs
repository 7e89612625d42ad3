//! Keys that several servers over one store may change.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use singletree_durable::{BoxFuture, MemoryStore, SessionKey, StoredBlob, TenantBlobTotals};
use singletree_env::{RandomIds, SystemRandomSource};

use super::cached::{FRESH_FOR, STALE_FOR};
use super::*;

#[derive(Debug, Default)]
struct ManualClock(AtomicI64);

impl ManualClock {
    fn pass(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_millis()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + self.0.load(Ordering::Relaxed))
    }
}

/// A store whose reads fail when it is told so.
#[derive(Debug)]
struct FailingDocuments {
    data: MemoryStore,
    fails: AtomicBool,
}

impl DocumentStore for FailingDocuments {
    fn read_document<'a>(
        &'a self,
        key: &'a DocumentKey,
    ) -> BoxFuture<'a, singletree_durable::Result<Option<StoredDocument>>> {
        if self.fails.load(Ordering::Relaxed) {
            let error = singletree_durable::Error::Unavailable { doing: "read", source: "away".into() };
            return Box::pin(std::future::ready(Err(error)));
        }
        self.data.read_document(key)
    }

    fn read_documents<'a>(
        &'a self,
        tenant: &'a TenantId,
        kind: &'a str,
        past: Option<&'a str>,
        limit: u64,
    ) -> BoxFuture<'a, singletree_durable::Result<Vec<StoredDocument>>> {
        self.data.read_documents(tenant, kind, past, limit)
    }

    fn change_documents(
        &self,
        changes: Vec<DocumentChange>,
    ) -> BoxFuture<'static, singletree_durable::Result<()>> {
        self.data.change_documents(changes)
    }

    fn expire_documents(
        &self,
        before: Timestamp,
        limit: u64,
    ) -> BoxFuture<'static, singletree_durable::Result<u64>> {
        self.data.expire_documents(before, limit)
    }

    fn keep_blob_for(
        &self,
        key: &SessionKey,
        blob: StoredBlob,
        holder: Option<&str>,
    ) -> BoxFuture<'static, singletree_durable::Result<()>> {
        self.data.keep_blob_for(key, blob, holder)
    }

    fn read_blob_totals<'a>(
        &'a self,
        tenant: &'a TenantId,
        holder: &'a str,
    ) -> BoxFuture<'a, singletree_durable::Result<TenantBlobTotals>> {
        self.data.read_blob_totals(tenant, holder)
    }

    fn read_blob<'a>(
        &'a self,
        key: &'a SessionKey,
        digest: &'a str,
    ) -> BoxFuture<'a, singletree_durable::Result<Option<StoredBlob>>> {
        self.data.read_blob(key, digest)
    }

    fn count_blob_bytes<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, singletree_durable::Result<u64>> {
        self.data.count_blob_bytes(key)
    }
}

fn open_keyring(
    documents: Arc<dyn DocumentStore>,
    clock: &Arc<ManualClock>,
    is_shared: bool,
) -> Arc<Keyring> {
    let (ids, entropy) = (Arc::new(RandomIds), Arc::new(SystemRandomSource));
    let kept = Duration::from_hours(24);
    let keyring = Keyring::open_offline(documents, clock.clone(), ids, entropy, kept);
    Arc::new(keyring.sharing_store(is_shared))
}

fn new_key() -> NewKey {
    NewKey { name: "ci".to_owned(), scopes: vec![KeyScope::Read], expires_in: None }
}

/// Returns the status with which a key is refused; none when it is good.
async fn refusal(keyring: &Arc<Keyring>, text: &Secret) -> Option<u16> {
    keyring.authenticate_key(text.expose()).await.err().map(|problem| problem.status.as_u16())
}

// S4: a key is good on no server a second after one has taken it back.
#[tokio::test]
async fn a_key_that_another_server_takes_back_is_refused_within_a_second() {
    let (data, clock) = (Arc::new(MemoryStore::new()), Arc::new(ManualClock::default()));
    let tenant = TenantId::single();
    for is_shared in [true, false] {
        let [one, other] = [0, 1].map(|_| open_keyring(data.clone(), &clock, is_shared));
        let (key, text) = one.create_key(&tenant, new_key(), "ann").await.unwrap();
        assert_eq!(refusal(&other, &text).await, None);
        one.revoke_key(&tenant, &key.id, "ann").await.unwrap();
        clock.pass(FRESH_FOR);
        // Who has the store alone reads nothing again.
        assert_eq!(refusal(&other, &text).await, is_shared.then_some(401));
        assert_eq!(refusal(&one, &text).await, Some(401));
    }
}

#[tokio::test]
async fn keys_are_refused_when_a_shared_store_cannot_be_asked_for_five_seconds() {
    let clock = Arc::new(ManualClock::default());
    let documents = Arc::new(FailingDocuments { data: MemoryStore::new(), fails: AtomicBool::new(false) });
    let keyring = open_keyring(documents.clone(), &clock, true);
    let (_, text) = keyring.create_key(&TenantId::single(), new_key(), "ann").await.unwrap();
    assert_eq!(refusal(&keyring, &text).await, None);
    documents.fails.store(true, Ordering::Relaxed);
    clock.pass(STALE_FOR - Duration::from_millis(1));
    assert_eq!(refusal(&keyring, &text).await, None);
    clock.pass(Duration::from_millis(1));
    assert_eq!(refusal(&keyring, &text).await, Some(503));
    documents.fails.store(false, Ordering::Relaxed);
    assert_eq!(refusal(&keyring, &text).await, None);
}
