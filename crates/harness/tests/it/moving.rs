//! Sessions that come from a store of the specification into a chat, and are read as whole records beside it (sessions
//! §5).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_durable::{
    Error as StoreError, ExpectedVersion, JournalSessions, JsonDocument, SessionFilter, SessionRecord,
    SessionStore, TenantId, Timestamp,
};
use singletree_engine::Signal;
use singletree_store_sqlite::SqliteStore;
use singletree_test_store::TestStore;

use crate::bench::{
    Log, approve, asking, at, category, chat_of, check_rows, history, line, name, plain, user,
};
use crate::doctor::sound;

fn record(messages: Value) -> SessionRecord {
    let state = json!({"messages": messages, "notes": ["kept"], "words": [], "count": 3, "approved": false});
    let state =
        state.as_object().unwrap().iter().map(|(name, value)| (name.clone(), JsonDocument::from(value)));
    SessionRecord {
        schema_version: "unversioned".into(),
        state: state.collect(),
        updated_at: Timestamp::from_millis(5),
    }
}

/// Returns the value that a store has for a session's field.
async fn field(store: &dyn SessionStore, session: &str, field: &str) -> Value {
    let (record, _) = store.load(&name(session)).await.unwrap().unwrap();
    record.state[field].decode().unwrap()
}

// Moving is a loop over the public calls: afterwards the sessions go on as if they had always been a chat's.
#[tokio::test]
async fn sessions_of_another_store_go_on_in_a_chat() {
    let other: Arc<dyn SessionStore> = Arc::new(TestStore::new().session_store());
    let said =
        |text: &str| json!([{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}]);
    for session in ["a", "b"] {
        other.save(&name(session), &record(said(session)), ExpectedVersion::Absent).await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let own = JournalSessions::new(Arc::new(store.clone()));
    let tenant = TenantId::single();
    for found in other.list(&tenant, &SessionFilter::default()).await.unwrap() {
        let (record, _) = other.load(&found.key).await.unwrap().unwrap();
        own.save(&found.key, &record, ExpectedVersion::Absent).await.unwrap();
    }
    let chat = chat_of(&plain(&Log::default())).open(store.clone()).unwrap();
    for session in ["a", "b"] {
        assert_eq!(line(&chat.session(session).send(user("more")).await), "completed 3.2 [a:hello]");
        let expected = [format!("u:{session}"), "a:yes".into(), "u:more".into(), "a:hello".into()];
        assert_eq!(history(&chat, session).await, expected);
        assert_eq!(field(&own, session, "messages").await.as_array().unwrap().len(), 4);
        assert_eq!(field(&own, session, "notes").await, json!(["kept"]));
        check_rows(&store, session).await;
    }
    drop((chat, own, store));
    sound(&SqliteStore::open(&path).await.unwrap()).await;
}

// D1: beside a chat whole records are read at any time, and do not overwrite a session that waits.
#[tokio::test]
async fn a_waiting_session_is_read_but_not_overwritten_from_outside() {
    let store = TestStore::new();
    let own = JournalSessions::new(Arc::new(store.clone()));
    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).open(store.clone()).unwrap();
    assert_eq!(category(chat.session("s").send(user("m")).await), "suspended");
    assert_eq!(field(&own, "s", "messages").await.as_array().unwrap().len(), 2);
    let error = own.save(&name("s"), &record(json!([])), ExpectedVersion::Any).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.3 [a:done]");
    assert_eq!(field(&own, "s", "messages").await.as_array().unwrap().len(), 3);
    check_rows(&store, "s").await;
}
