//! List fields that one version of an agent does not have and the next one has again (INV-4, INV-13).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_durable::{Journal, JournalMaintenance, JournalSessions, SessionStore};
use singletree_engine::{
    END, FieldContent, FieldShape, FieldSpec, Graph, Reducer, Snapshot, StateMigrations, StateSchema,
    StateUpdate,
};
use singletree_harness::{Chat, Durability, GraphAgent, MESSAGE_SHAPE};
use singletree_store_sqlite::SqliteStore;
use singletree_test_store::TestStore;

use crate::bench::{category, check_rows, history, line, name, user};
use crate::doctor::sound;

/// How the field `log` is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Log {
    /// As a list of rows.
    Rows,
    /// As one value.
    Value,
    /// Not at all.
    Absent,
}

/// An agent whose turns add a line to the log, if there is one.
fn agent(version: usize, log: Log) -> GraphAgent {
    let field = |name: &'static str, shape: FieldShape| {
        FieldSpec::new(name, shape.list(), FieldContent::from_json(json!([])))
    };
    let mut declared =
        vec![field("messages", FieldShape::Record(MESSAGE_SHAPE.into())).reducer(Reducer::Append)];
    match log {
        Log::Rows => declared.push(field("log", FieldShape::Str).reducer(Reducer::Append)),
        Log::Value => declared.push(field("log", FieldShape::Str)),
        Log::Absent => {}
    }
    let schema = StateSchema::new("talk", declared).with_version(version.to_string());
    let graph = Graph::<Snapshot>::builder_with(schema)
        .node("say", move |_| async move {
            let said = json!([{"role": "assistant", "content": format!("from {version}")}]);
            let said = StateUpdate::new().with("messages", FieldContent::from_json(said));
            Ok(match log {
                Log::Absent => said,
                Log::Rows | Log::Value => {
                    said.with("log", FieldContent::from_json(json!([format!("line of {version}")])))
                }
            })
        })
        .edge("say", END)
        .entry("say");
    let mut migrations = StateMigrations::new();
    for from in 1..version {
        migrations = migrations.with(from.to_string(), (from + 1).to_string(), move |mut state| {
            if from + 1 == version && log == Log::Absent {
                state.remove("log");
            } else {
                state.insert("log".into(), json!([]));
            }
            Ok(state)
        });
    }
    GraphAgent::new("a", &graph.compile().unwrap())
        .durability(Durability::Step)
        .session_migrations(migrations)
}

/// Returns the log as it is read whole.
async fn log<S: Journal + Clone + 'static>(store: &S) -> Option<Value> {
    let sessions = JournalSessions::new(Arc::new(store.clone()));
    let (record, _) = sessions.load(&name("s")).await.unwrap().unwrap();
    record.state.get("log").map(|it| it.decode().unwrap())
}

async fn goes_on<S: Journal + JournalMaintenance + Clone + 'static>(mut reopen: impl AsyncFnMut() -> S) {
    let versions =
        [Log::Rows, Log::Absent, Log::Rows, Log::Absent, Log::Absent, Log::Rows, Log::Value, Log::Rows];
    let mut said = Vec::new();
    for (version, kept) in (1..).zip(versions) {
        let store = reopen().await;
        let chat = Chat::builder().agent(agent(version, kept)).open(store.clone()).unwrap();
        for turn in 0..2 {
            let outcome = chat.session("s").send(user("m")).await;
            assert_eq!(category(&outcome), "completed", "version {version}: {}", line(&outcome));
            said.extend(["u:m".to_owned(), format!("a:from {version}")]);
            let lines = vec![json!(format!("line of {version}")); turn + 1];
            let expected = match kept {
                Log::Rows => Some(json!(lines)),
                Log::Value => Some(json!(lines[..1])),
                Log::Absent => None,
            };
            assert_eq!(log(&store).await, expected, "version {version}");
        }
        assert_eq!(history(&chat, "s").await, said, "version {version}");
        check_rows(&store, "s").await;
        sound(&store).await;
        drop(chat);
    }
    let row = reopen().await.read_session(&name("s")).await.unwrap().unwrap();
    assert_eq!(row.head.schema_version, versions.len().to_string());
}

#[tokio::test]
async fn a_list_that_is_dropped_and_comes_back_begins_anew_in_memory() {
    let store = TestStore::new();
    goes_on(async move || store.reopen()).await;
}

#[tokio::test]
async fn a_list_that_is_dropped_and_comes_back_begins_anew_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let mut open: Option<SqliteStore> = None;
    goes_on(async move || {
        if let Some(before) = open.take() {
            before.close().await;
        }
        let store = SqliteStore::open(&path).await.unwrap();
        open = Some(store.clone());
        store
    })
    .await;
}
