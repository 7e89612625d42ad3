//! Rows and stores to test with.

use std::path::PathBuf;

use singletree_durable::{
    Batch, Counters, EventRow, FencingToken, InvocationId, ItemPlacement, JsonDocument, ListItemRow,
    RowMutation, SessionHead, SessionId, SessionKey, StoredTurnKind, StoredTurnStatus, StoredWaitStatus,
    TenantId, Timestamp, TurnRow, WaitRow,
};
use singletree_store_sqlite::SqliteStore;
use singletree_store_testing::acquire_blocking;

/// A scratch folder and the database's name in it.
pub(crate) struct Scratch {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) fn scratch() -> Scratch {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    Scratch { dir, path }
}

pub(crate) async fn store() -> (Scratch, SqliteStore) {
    let scratch = scratch();
    let store = SqliteStore::open(&scratch.path).await.unwrap();
    (scratch, store)
}

pub(crate) fn tenant(text: &str) -> TenantId {
    TenantId::parse(text).unwrap()
}

pub(crate) fn key_of(tenant_id: &str, session: &str) -> SessionKey {
    SessionKey::new(tenant(tenant_id), SessionId::parse(session).unwrap())
}

pub(crate) fn key(session: &str) -> SessionKey {
    key_of("default", session)
}

pub(crate) fn invocation(text: &str) -> InvocationId {
    InvocationId::parse(text).unwrap()
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn json(text: &str) -> JsonDocument {
    JsonDocument::from_text(text)
}

pub(crate) fn batch(
    store: &SqliteStore,
    session: &str,
    puts: impl IntoIterator<Item = RowMutation>,
) -> Batch {
    batch_for(store, &key(session), puts)
}

pub(crate) fn batch_for(
    store: &SqliteStore,
    key: &SessionKey,
    puts: impl IntoIterator<Item = RowMutation>,
) -> Batch {
    batch_under(acquire_blocking(store, key).unwrap(), key, puts)
}

pub(crate) fn batch_under(
    fence: FencingToken,
    key: &SessionKey,
    puts: impl IntoIterator<Item = RowMutation>,
) -> Batch {
    let mut batch = Batch::new(key.clone(), fence);
    batch.puts.extend(puts);
    batch
}

pub(crate) fn head(version: u64) -> SessionHead {
    SessionHead {
        agent: "demo".to_owned(),
        graph: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        schema_version: "1".to_owned(),
        version,
        prompt_policy: "conversation".to_owned(),
        parent: None,
        subject: None,
        created_at: at(1_700_000_000_000),
        updated_at: at(1_700_000_000_000),
    }
}

pub(crate) fn counters(turns: u64) -> Counters {
    Counters { turns, items: 2 * turns, events: 4 * turns, waits: 0 }
}

pub(crate) fn item(no: u64, body: &str) -> ListItemRow {
    ListItemRow { no, turn: 0, placement: None, body: json(body), side: None }
}

pub(crate) fn place(seq: u64) -> ItemPlacement {
    ItemPlacement { field: "messages".to_owned(), generation: 0, seq }
}

pub(crate) fn turn(no: u64, status: StoredTurnStatus) -> TurnRow {
    TurnRow {
        no,
        invocation: invocation(&format!("3f2504e0-4f89-41d3-9a0c-{no:012}")),
        ordinal: 0,
        kind: StoredTurnKind::Message,
        status,
        fence: singletree_durable::FencingToken(1),
        deaths: 0,
        agent: head(0).agent,
        graph: head(0).graph,
        message: Some(2 * no),
        wait: None,
        key: None,
        digest: None,
        accepted_at: at(1_700_000_000_000),
        ended_at: None,
        outcome: None,
        retries: None,
    }
}

pub(crate) fn wait(no: u64, signal: &str, status: StoredWaitStatus) -> WaitRow {
    WaitRow {
        no,
        signal: signal.to_owned(),
        invocation: invocation("inv"),
        turn: 0,
        status,
        metadata: None,
        action: None,
        deadline: None,
        payload_schema: None,
        on_deadline: None,
        created_at: at(5),
        ended_by: None,
        answer: None,
        answered_by: None,
        ended_at: None,
    }
}

pub(crate) fn event(seq: u64, kind: &str) -> EventRow {
    EventRow { seq, turn: 0, kind: kind.to_owned(), item: None, at: at(1_700_000_000_000), body: None }
}
