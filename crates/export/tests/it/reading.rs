//! Turns whose traces are read together.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use singletree_durable::{
    BoxFuture, DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Error as StoreError,
    Journal, JournalLayer, JournalRead, JsonDocument, MaintenanceLayer, MemoryStore, Result as StoreResult,
    SessionId, SessionKey,
};
use singletree_harness::{Chat, Error, SendOptions, UnsentTurn};
use singletree_telemetry::SpanSettings;

use crate::rig::{ScriptedReceiver, approve, backlog, env, export_for, exporter, open, stored_spans, tenant};

/// Returns the notes of a tenant.
async fn notes(store: &MemoryStore) -> Vec<UnsentTurn> {
    let documents = store.read_documents(&tenant("default"), UnsentTurn::KIND, None, 1_000).await.unwrap();
    documents.iter().map(|document| UnsentTurn::from_document(document).unwrap()).collect()
}

/// Holds conversations whose turns lie apart, wait, go on, and have events of others in between.
async fn converse(chat: &Chat) {
    chat.session("a").send("one").await;
    chat.session("b").send_with("go", SendOptions::new().agent("asking")).await;
    chat.session("a").send("two").await;
    approve(chat, "b").await;
    let session = chat.session("c");
    let at_once = (0..12).map(|no| session.send_with(no.to_string(), SendOptions::new().agent("slow")));
    join_all(at_once).await;
    chat.session("gone").send("three").await;
}

#[tokio::test(start_paused = true)]
async fn turns_that_are_read_together_are_as_each_is_by_itself() {
    let (store, env) = (MemoryStore::new(), env());
    let chat = open(store.clone(), &env);
    converse(&chat).await;
    let turns = notes(&store).await;
    assert_eq!(turns.len(), 17);
    let log = SessionKey::new(tenant("default"), SessionId::parse("c").unwrap());
    let events = store.read_events(&log, 0, 100).await.unwrap();
    let between = events.iter().take_while(|event| event.turn != 1 || event.kind != "turn.completed").count();
    assert!(between > 8, "the first event of a turn is far from its last: {events:?}");
    chat.session("gone").delete(None).await.unwrap();
    let traces = chat.unsent_traces(&turns).await.unwrap();
    assert_eq!(traces.len(), turns.len());
    for (turn, trace) in turns.iter().zip(traces) {
        match trace {
            Ok(trace) => {
                let alone = chat.turn_trace(&turn.turn).await.unwrap();
                let render = |trace: &singletree_harness::TurnTrace| trace.render_spans(&SpanSettings::new());
                assert_eq!(render(&trace), render(&alone), "{turn:?}");
                assert!(!trace.is_partial, "{turn:?}");
            }
            Err(Error::TurnUnknown { .. }) => assert_eq!(turn.session.as_str(), "gone"),
            Err(error) => panic!("{turn:?}: {error}"),
        }
    }
}

/// A store with a row that cannot be read: whoever reads it together with others reads none.
#[derive(Debug)]
struct BadRow(MemoryStore);

impl JournalLayer for BadRow {
    type Journal = MemoryStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.0
    }

    fn wrap_read<'a, T: Send + 'a>(
        &'a self,
        read: JournalRead,
        answer: BoxFuture<'a, StoreResult<T>>,
    ) -> BoxFuture<'a, StoreResult<T>> {
        let error = StoreError::Corrupt { what: "a turn".into(), source: None };
        if read == JournalRead::LoggedTurns { Box::pin(std::future::ready(Err(error))) } else { answer }
    }
}

impl MaintenanceLayer for BadRow {
    type Maintenance = MemoryStore;

    fn inner_maintenance(&self) -> &Self::Maintenance {
        &self.0
    }
}

#[tokio::test(start_paused = true)]
async fn turns_that_cannot_be_read_together_are_read_alone() {
    let (store, env) = (MemoryStore::new(), env());
    let (chat, receiver) = (open(BadRow(store.clone()), &env), ScriptedReceiver::replying([]));
    converse(&chat).await;
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    export_for(&exporter, Duration::from_secs(5)).await;
    let mut expected = stored_spans(&chat, "a").await;
    for session in ["b", "c", "gone"] {
        expected.extend(stored_spans(&chat, session).await);
    }
    assert_eq!(receiver.spans(), expected);
    assert!(problems.lock().unwrap().is_empty(), "{problems:?}");
}

// Notes of the version before, which are left in a database, and which its servers still write while they are replaced.
#[tokio::test(start_paused = true)]
async fn the_notes_of_the_version_before_are_exported_too() {
    let (store, env) = (MemoryStore::new(), env());
    let chat = open(store.clone(), &env);
    for text in ["one", "two", "three"] {
        chat.session("s").send(text).await;
    }
    let documents = store.read_documents(&tenant("default"), UnsentTurn::KIND, None, 9).await.unwrap();
    let (expect, mut changes) = (DocumentPrecondition::Any, Vec::new());
    // The last turn ended at a server of this version.
    for document in &documents[..2] {
        let note = UnsentTurn::from_document(document).unwrap();
        let [bytes, no, last_event]: [u64; 3] = document.body.decode().unwrap();
        let (turn, at) = (note.turn.to_string(), note.at.as_millis());
        let old = json!({ "turn": turn, "at": at, "bytes": bytes, "no": no, "last_event": last_event });
        let key = DocumentKey::new(tenant("default"), UnsentTurn::OLD_KIND, format!("{at:016}-{no}"));
        let body = JsonDocument::from_serializable(&old).unwrap();
        let (session, expires_at) = (document.session.clone(), document.expires_at);
        changes.push(DocumentChange::Remove { key: document.key.clone(), expect });
        changes.push(DocumentChange::Write { key, expect, session, body, expires_at });
    }
    store.change_documents(changes).await.unwrap();
    assert_eq!(backlog(&store, &tenant("default")).await, 3);
    let receiver = ScriptedReceiver::replying([]);
    let (exporter, problems) = exporter((&chat, &env), &store, &receiver);
    export_for(&exporter, Duration::from_secs(5)).await;
    assert!(problems.lock().unwrap().is_empty());
    assert_eq!(receiver.spans(), stored_spans(&chat, "s").await);
    assert_eq!(backlog(&store, &tenant("default")).await, 0);
}
