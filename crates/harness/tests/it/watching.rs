//! Watchers of ended turns, and the audit of decisions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::{DocumentStore, StoredTurnKind, TenantId};
use singletree_engine::{Ctx, Graph, NodeError, Signal};
use singletree_harness::{
    Answer, AuditRecord, Chat, ChatWorkload, SendOptions, SignalAddress, TurnContext, TurnEndReport,
    TurnWatcher,
};
use singletree_llm::TokenUsage;
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, TokioClock, asking, category, chain, chat_of, fields, says, user};

/// Keeps the ends that it is told.
#[derive(Debug, Default)]
struct Watching(Mutex<Vec<TurnEndReport>>);

impl TurnWatcher for Watching {
    fn on_turn_end(&self, end: &TurnEndReport) {
        self.0.lock().unwrap().push(end.clone());
    }
}

impl Watching {
    fn told(&self) -> Vec<TurnEndReport> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

async fn answer(chat: &Chat, said: &[(&str, Value)]) {
    let wait = chat.session("s").pending().await.unwrap().remove(0);
    let (number, action) = (wait.wait.no, wait.wait.action.clone());
    let mut answer = Answer::new(fields(said)).from("ann");
    if let Some(action) = action {
        answer = answer.to(number, action);
    }
    let signal = wait.descriptor.signal_id.clone();
    let address = SignalAddress::Session { session: "s".into(), signal };
    chat.answer(address, answer).await.unwrap().outcome().await;
}

#[tokio::test(start_paused = true)]
async fn who_looks_on_is_told_of_each_end_once_and_when_it_began() {
    let watching = Arc::new(Watching::default());
    let asks = |cx: Ctx<Talk>| async move {
        let usage =
            TokenUsage { prompt_tokens: Some(10), completion_tokens: Some(1), ..TokenUsage::default() };
        TurnContext::of(&cx).unwrap().budget().count_model_call("small", &usage).unwrap();
        tokio::time::sleep(Duration::from_millis(7)).await;
        Ok(says("asked"))
    };
    let builder = Graph::builder().node("ask", asks);
    let builder = builder.node("gate", |cx: Ctx<Talk>| async move { cx.suspend(Signal::new("ok")).await });
    let graph = chain(builder, &["ask", "gate"]);
    let chat =
        chat_of(&graph).clock(TokioClock::new()).watcher(watching.clone()).open(TestStore::new()).unwrap();
    let first = chat.session("s").submit(user("1"), SendOptions::new()).await.unwrap();
    let outcome = first.outcome().await;
    let told = watching.told();
    assert_eq!(told.len(), 1, "{told:?}");
    let end = &told[0];
    assert_eq!(
        (&end.turn, end.kind, end.session.session.as_str()),
        (first.id(), StoredTurnKind::Message, "s")
    );
    assert_eq!((end.outcome.as_str(), &end.outcome), ("suspended", &outcome));
    assert_eq!(end.started_at, Some(end.accepted_at));
    assert_eq!(end.ended_at.duration_since(end.accepted_at), Duration::from_millis(7));
    assert_eq!((end.usage[0].model.as_str(), end.usage[0].prompt_tokens), ("small", 10));
    answer(&chat, &[]).await;
    let told = watching.told();
    assert_eq!(
        told.iter().map(|it| (it.kind, it.outcome.as_str())).collect::<Vec<_>>(),
        [(StoredTurnKind::Resume, "completed")]
    );
    assert_eq!(told[0].turn.ordinal, 1);
    assert_eq!(chat.load(), ChatWorkload { sessions: 1, ..ChatWorkload::default() });
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_with_its_category() {
    let watching = Arc::new(Watching::default());
    let breaks = |_: Ctx<Talk>| async move { Err(NodeError::new("it broke").with_category("own_category")) };
    let graph = chain(Graph::builder().node("break", breaks), &["break"]);
    let chat = chat_of(&graph).watcher(watching.clone()).open(TestStore::new()).unwrap();
    let outcome = chat.session("s").send(user("go")).await;
    assert_eq!(category(&outcome), "own_category");
    assert_eq!(watching.told().into_iter().map(|it| it.outcome).collect::<Vec<_>>(), [Arc::new(outcome)]);
}

/// Panics at whatever it is told.
#[derive(Debug)]
struct Panicking;

impl TurnWatcher for Panicking {
    fn on_turn_end(&self, _: &TurnEndReport) {
        panic!("bang");
    }
}

// INV-8
#[tokio::test]
async fn a_watcher_that_panics_stops_no_session() {
    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).watcher(Arc::new(Panicking));
    let chat = chat.open(TestStore::new()).unwrap();
    assert_eq!(chat.session("s").send(user("m")).await.as_str(), "suspended");
    answer(&chat, &[("approved", json!(true))]).await;
    assert_eq!(chat.session("s").send(user("n")).await.as_str(), "suspended");
}

// INV-3
#[tokio::test(start_paused = true)]
async fn answers_and_deletions_are_in_the_audit_which_outlives_the_session() {
    let store = TestStore::new();
    let approval = Signal::new("ok").approves("digest").with("arguments", json!({ "text": "SECRET" }));
    let graph = asking(&Log::default(), approval);
    let day = Duration::from_secs(86_400);
    let chat = chat_of(&graph).clock(TokioClock::new()).audit(day).open(store.clone()).unwrap();
    chat.session("s").send(user("SECRET")).await;
    tokio::time::advance(Duration::from_millis(5)).await;
    answer(&chat, &[("approved", json!(true)), ("why", json!("SECRET"))]).await;
    tokio::time::advance(Duration::from_millis(5)).await;
    chat.session("s").delete(Some("bob")).await.unwrap();
    let documents = store.read_documents(&TenantId::single(), AuditRecord::KIND, None, 9).await.unwrap();
    let said: Vec<Value> = documents.iter().map(|it| it.body.decode().unwrap()).collect();
    let expected = [
        json!({ "at": 1_000_010, "who": "bob", "action": "session.deleted", "subject": "s" }),
        json!({ "at": 1_000_005, "who": "ann", "action": "signal.answered", "subject": "ok",
            "details": { "session": "s", "wait": 0, "approved": true, "action_digest": "digest" } }),
    ];
    assert_eq!(said, expected);
    for (document, deed) in documents.iter().zip(&said) {
        let at = deed["at"].as_i64().unwrap();
        assert_eq!(document.expires_at.unwrap().as_millis(), at + 86_400_000);
        assert_eq!(document.session, None);
    }
    // Who wants none has none.
    let silent = TestStore::new();
    let chat = chat_of(&graph).open(silent.clone()).unwrap();
    chat.session("s").send(user("hello")).await;
    answer(&chat, &[("approved", json!(false))]).await;
    assert!(silent.read_documents(&TenantId::single(), AuditRecord::KIND, None, 9).await.unwrap().is_empty());
}
