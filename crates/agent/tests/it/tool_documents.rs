//! Notes and messages that tools keep: whose they are, how much fits, and when they are gone.

use std::sync::Arc;

use singletree_agent::{ToolDocumentLimits, ToolDocuments};
use singletree_durable::{
    Batch, DocumentStore, Journal, MemoryStore, RowMutation, SessionId, SessionKey, TenantId, Timestamp,
};
use singletree_engine::Clock;
use singletree_tools::{CallOrigin, IdempotencyKey, NoteStore, OutboxMessage, OutboxStore};

#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(7)
    }
}

fn documents(store: &MemoryStore, limits: ToolDocumentLimits) -> ToolDocuments {
    let documents: Arc<dyn DocumentStore> = Arc::new(store.clone());
    ToolDocuments::new(documents, Arc::new(StoppedClock)).with_limits(limits)
}

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

fn message(body: &str) -> OutboxMessage {
    OutboxMessage { to: "Bob".into(), subject: None, body: body.into() }
}

fn key(index: u64) -> IdempotencyKey {
    IdempotencyKey::new("s", "c", 0, index)
}

async fn delete(store: &MemoryStore, of: &str, session: &str) {
    let key = SessionKey::new(tenant(of), SessionId::parse(session).unwrap());
    let fence = store.acquire(&key).await.unwrap().fence;
    let mut batch = Batch::new(key, fence);
    batch.puts = vec![RowMutation::Delete];
    store.apply(batch).await.unwrap();
}

async fn notes(all: &ToolDocuments, origin: &CallOrigin) -> Vec<String> {
    all.list_notes(origin).await.unwrap()
}

async fn bodies(all: &ToolDocuments, of: &str) -> Vec<String> {
    let waiting = all.list_waiting_messages(&tenant(of), None, 100).await.unwrap();
    waiting.into_iter().map(|it| it.message.body).collect()
}

// INV-14
#[tokio::test]
async fn notes_and_messages_are_seen_in_their_own_session_and_tenant_only() {
    let store = MemoryStore::new();
    let all = documents(&store, ToolDocumentLimits::default());
    let own = CallOrigin::new("a", "s");
    all.add_note(&own, "canary").await.unwrap();
    all.put_message(&own, &key(0), &message("canary")).await.unwrap();
    assert_eq!(notes(&all, &own).await, ["canary"]);
    assert_eq!(bodies(&all, "a").await, ["canary"]);
    for other in [CallOrigin::new("a", "t"), CallOrigin::new("b", "s"), CallOrigin::new("a", "s/s")] {
        assert_eq!(notes(&all, &other).await, Vec::<String>::new(), "{other:?}");
    }
    assert_eq!(bodies(&all, "b").await, Vec::<String>::new());
}

// D25
#[tokio::test]
async fn a_deleted_session_leaves_neither_notes_nor_messages_nor_used_up_space() {
    let store = MemoryStore::new();
    let limits = ToolDocumentLimits { tenant: 400, ..ToolDocumentLimits::default() };
    let all = documents(&store, limits);
    let (one, two) = (CallOrigin::new("a", "one"), CallOrigin::new("a", "two"));
    all.add_note(&one, "canary").await.unwrap();
    all.put_message(&one, &key(0), &message("canary")).await.unwrap();
    let full = all.add_note(&two, &"x".repeat(20)).await.unwrap_err();
    assert_eq!(full.to_string(), "the notes and messages of this tenant are full");
    assert!(all.add_note(&CallOrigin::new("b", "one"), "of another tenant").await.is_ok());
    delete(&store, "a", "one").await;
    assert_eq!(notes(&all, &one).await, Vec::<String>::new());
    assert_eq!(bodies(&all, "a").await, Vec::<String>::new());
    all.add_note(&two, &"x".repeat(20)).await.unwrap();
}

#[tokio::test]
async fn a_session_keeps_as_many_bytes_as_its_limits_allow() {
    let limits = ToolDocumentLimits { session_notes: 300, session_outbox: 300, tenant: 1 << 20 };
    let all = documents(&MemoryStore::new(), limits);
    let origin = CallOrigin::new("a", "s");
    for _ in 0..2 {
        all.add_note(&origin, "note").await.unwrap();
    }
    let full = all.add_note(&origin, "x".repeat(40).as_str()).await.unwrap_err();
    assert_eq!(full.to_string(), "the notes of this conversation are full");
    for index in 0..2 {
        all.put_message(&origin, &key(index), &message("x")).await.unwrap();
    }
    let full = all.put_message(&origin, &key(2), &message(&"x".repeat(40))).await.unwrap_err();
    assert_eq!(full.to_string(), "the outbox of this conversation is full; nothing was sent");
    assert_eq!(notes(&all, &origin).await.len() + bodies(&all, "a").await.len(), 4);
}

// D7
#[tokio::test]
async fn a_message_is_sent_once_under_its_key_also_after_it_was_delivered() {
    let store = MemoryStore::new();
    let all = documents(&store, ToolDocumentLimits::default());
    let origin = CallOrigin::new("a", "s");
    for body in ["first", "changed"] {
        all.put_message(&origin, &key(0), &message(body)).await.unwrap();
    }
    let [waiting] = all.list_waiting_messages(&tenant("a"), None, 100).await.unwrap().try_into().unwrap();
    assert_eq!((waiting.message, waiting.sent_at.as_millis()), (message("first"), 7));
    let id = waiting.id;
    assert!(!all.mark_delivered(&tenant("b"), &id).await.unwrap());
    assert!(all.mark_delivered(&tenant("a"), &id).await.unwrap());
    assert!(!all.mark_delivered(&tenant("a"), &id).await.unwrap());
    all.put_message(&origin, &key(0), &message("again")).await.unwrap();
    assert_eq!(bodies(&all, "a").await, Vec::<String>::new());
    assert_eq!(all.find_waiting_message(&tenant("a"), &id).await.unwrap(), None);
}

#[tokio::test]
async fn pages_of_messages_are_cut_where_they_are_told() {
    let all = documents(&MemoryStore::new(), ToolDocumentLimits::default());
    for index in 0..5 {
        all.put_message(&CallOrigin::new("a", "s"), &key(index), &message("x")).await.unwrap();
    }
    let a = tenant("a");
    let first = all.list_waiting_messages(&a, None, 2).await.unwrap();
    let rest = all.list_waiting_messages(&a, Some(&first[1].id), 100).await.unwrap();
    let ids: std::collections::BTreeSet<_> = first.iter().chain(&rest).map(|it| it.id.clone()).collect();
    assert_eq!((first.len(), rest.len(), ids.len()), (2, 3, 5));
}
