//! The documents of a tenant beside its sessions are erased with it, and none of another tenant (D25, INV-14).

use std::sync::Arc;

use singletree_agent::ToolDocuments;
use singletree_durable::{DocumentStore, TenantId};
use singletree_engine::SystemClock;
use singletree_server::erase_tenant;
use singletree_test_store::TestStore;
use singletree_tools::{CallOrigin, IdempotencyKey, NoteStore, OutboxMessage, OutboxStore};

/// Returns the kinds of the documents that a store keeps of tools of a tenant.
async fn kept(store: &TestStore, tenant: &TenantId) -> Vec<&'static str> {
    let mut kept = Vec::new();
    for kind in ["tool_session", "tool_message", "tool_bytes"] {
        let found = store.read_documents(tenant, kind, None, 9).await.unwrap();
        kept.extend(found.iter().map(|_| kind));
    }
    kept
}

// D25, INV-14
#[tokio::test]
async fn notes_and_messages_of_an_erased_tenant_go_also_where_no_session_holds_them() {
    let store = TestStore::new();
    let documents: Arc<dyn DocumentStore> = Arc::new(store.clone());
    let tools = ToolDocuments::new(documents, Arc::new(SystemClock));
    let [erased, other] = ["erased", "other"].map(|it| TenantId::parse(it).unwrap());
    for tenant in [&erased, &other] {
        // No session was made under this name, so that no deletion of one removes them.
        let origin = CallOrigin::new(tenant.as_str(), "s");
        tools.add_note(&origin, "canary").await.unwrap();
        let message = OutboxMessage { to: "Bob".into(), subject: None, body: "canary".into() };
        tools.put_message(&origin, &IdempotencyKey::new("s", "c", 0, 0), &message).await.unwrap();
    }
    let all = ["tool_session", "tool_message", "tool_bytes"];
    assert_eq!(kept(&store, &erased).await, all);

    erase_tenant(&store, &erased).await.unwrap();
    assert_eq!(kept(&store, &erased).await, [] as [&str; 0]);
    assert_eq!(kept(&store, &other).await, all);
    erase_tenant(&store, &erased).await.unwrap();
}
