//! The fault injector: every write of every trait, before and after it lands.

use std::sync::Arc;

use singletree_durable::{
    Batch, DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Error, ExpectedVersion,
    InvocationId, Journal, JsonDocument, MemoryStore, PausedRecord, PausedStatus, PausedStore, Result,
    RowMutation, SessionHead, SessionId, SessionKey, SessionRecord, SessionStore, StoredBlob, TenantId,
    Timestamp,
};
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore, acquire_blocking};

fn key() -> SessionKey {
    SessionKey::new(TenantId::parse("t").unwrap(), SessionId::parse("s").unwrap())
}

fn invocation() -> InvocationId {
    InvocationId::parse("inv").unwrap()
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn head(version: u64) -> SessionHead {
    SessionHead {
        agent: "agent".to_owned(),
        graph: "graph".to_owned(),
        schema_version: "v1".to_owned(),
        version,
        prompt_policy: "command".to_owned(),
        parent: None,
        subject: None,
        created_at: at(1),
        updated_at: at(2),
    }
}

fn batch(journal: &dyn Journal, puts: impl Into<Vec<RowMutation>>) -> Batch {
    let mut batch = Batch::new(key(), acquire_blocking(journal, &key()).unwrap());
    batch.puts = puts.into();
    batch
}

/// The number of writes that [`drive`] makes.
const WRITES: u64 = 12;

/// Makes one write of each kind, in sequence. Returns how many succeeded, and whether the n-th was reached.
async fn drive(store: &MemoryStore, n: u64, land: FailedWriteEffect) -> (u64, bool) {
    let journal = FaultInjectingStore::new(Arc::new(store.clone()) as Arc<dyn Journal>, n, land);
    let sessions = journal.wrap_beside(Arc::new(store.session_store()) as Arc<dyn SessionStore>);
    let paused = journal.wrap_beside(Arc::new(store.clone()) as Arc<dyn PausedStore>);
    let documents = journal.wrap_beside(Arc::new(store.clone()) as Arc<dyn DocumentStore>);
    let (key, inv) = (key(), invocation());
    let body = JsonDocument::from_text("1");
    let suspended = PausedRecord { status: PausedStatus::Suspended, body: body.clone() };
    let record = SessionRecord {
        schema_version: "v1".to_owned(),
        state: [("f".to_owned(), body)].into(),
        updated_at: at(1),
    };
    let put = DocumentChange::Write {
        key: document(),
        expect: DocumentPrecondition::Any,
        session: None,
        body: JsonDocument::from_text("1"),
        expires_at: Some(at(5)),
    };
    let blob = StoredBlob { digest: "d".to_owned(), media_type: "t".to_owned(), bytes: vec![1] };
    let answers: [Result<()>; 12] = [
        journal.apply(batch(&journal, [RowMutation::Head(head(1))])).await,
        sessions.save(&key, &record, ExpectedVersion::Any).await.map(drop),
        sessions.delete(&key).await,
        journal.clone().apply(batch(&journal, [RowMutation::Head(head(5))])).await,
        paused.save(&key.tenant, &inv, &suspended).await,
        paused.claim(&key.tenant, &inv).await.map(drop),
        paused.close(&key.tenant, &inv, PausedStatus::Completed).await,
        paused.delete(&key.tenant, &inv).await,
        documents.change_documents(vec![put]).await,
        documents.expire_documents(at(9), 9).await.map(drop),
        documents.keep_blob(&key, blob).await,
        journal.apply(batch(&journal, [RowMutation::Delete])).await,
    ];
    let answered = answers.iter().take_while(|it| it.is_ok()).count();
    let dead = &answers[answered..];
    assert!(dead.iter().all(|it| matches!(it, Err(Error::Unavailable { .. }))), "{answers:?}");
    assert_eq!(sessions.fired(), journal.fired());
    (u64::try_from(answered).unwrap(), paused.fired())
}

fn document() -> DocumentKey {
    DocumentKey::new(key().tenant, "k", "a")
}

/// Returns the contents of a store after each number of writes: version, paused status, whether the document exists,
/// bytes of blobs.
async fn held(store: &MemoryStore) -> (Option<u64>, Option<PausedStatus>, bool, u64) {
    let written = store.read_document(&document()).await.unwrap().is_some();
    let bytes = store.count_blob_bytes(&key()).await.unwrap();
    let session = store.read_session(&key()).await.unwrap();
    let paused = PausedStore::load(store, &key().tenant, &invocation()).await.unwrap();
    (session.map(|it| it.head.version), paused.map(|it| it.status), written, bytes)
}

#[tokio::test]
async fn the_nth_write_fails_before_or_after_it_lands_and_all_later_ones_fail() {
    let resuming = Some(PausedStatus::Resuming);
    let completed = Some(PausedStatus::Completed);
    let after = [
        (None, None, false, 0),
        (Some(1), None, false, 0),
        (Some(2), None, false, 0),
        (None, None, false, 0),
        (Some(5), None, false, 0),
        (Some(5), Some(PausedStatus::Suspended), false, 0),
        (Some(5), resuming, false, 0),
        (Some(5), completed, false, 0),
        (Some(5), None, false, 0),
        (Some(5), None, true, 0),
        (Some(5), None, false, 0),
        (Some(5), None, false, 1),
        (None, None, false, 0),
    ];
    for (land, landed) in [(FailedWriteEffect::Before, 0), (FailedWriteEffect::After, 1)] {
        for n in 1..=WRITES {
            let store = MemoryStore::new();
            assert_eq!(drive(&store, n, land).await, (n - 1, true));
            let writes = usize::try_from(n - 1 + landed).unwrap();
            assert_eq!(held(&store).await, after[writes], "write {n}, {land:?}");
        }
    }
}

#[tokio::test]
async fn a_fault_past_the_last_write_never_fires() {
    let store = MemoryStore::new();
    assert_eq!(drive(&store, WRITES + 1, FailedWriteEffect::Before).await, (WRITES, false));
}

#[tokio::test]
async fn writes_count_and_land_when_they_are_called() {
    let store = MemoryStore::new();
    let failing = FaultInjectingStore::new(Arc::new(store.clone()), 2, FailedWriteEffect::After);
    drop(failing.apply(batch(&failing, [RowMutation::Head(head(1))])));
    drop(failing.apply(batch(&failing, [RowMutation::Head(head(2))])));
    drop(failing.apply(batch(&failing, [RowMutation::Head(head(3))])));
    assert_eq!(held(&store).await.0, Some(2));
}
