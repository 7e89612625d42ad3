//! One conversation through all of it: a reply, a pause, an approval, a restart.

use std::sync::{Arc, Mutex};

use serde_json::{Map, json};
use singletree_engine::{Ctx, END, Graph, NodeResult, Signal};
use singletree_harness::{
    Answer, Chat, ChatTurnOutcome, Durability, GraphAgent, Messages, SendOptions, SignalAddress,
};
use singletree_llm::ChatMessage;
use singletree_macros::State;
use singletree_store_testing::{FailedWriteEffect, FaultInjectingStore};
use singletree_test_store::TestStore;

#[derive(Debug, State)]
#[state(engine = singletree_engine)]
struct Support {
    #[state(append)]
    messages: Messages,
    approved: bool,
}

async fn ask(_: Ctx<Support>) -> NodeResult<Support> {
    Ok(Support::update().messages([ChatMessage::assistant("Approve?")]))
}

async fn gate(cx: Ctx<Support>) -> NodeResult<Support> {
    cx.suspend(Signal::new("approval")).await
}

async fn send(cx: Ctx<Support>) -> NodeResult<Support> {
    let reply = if cx.state().approved { "Sent." } else { "Not sent." };
    Ok(Support::update().approved(false).messages([ChatMessage::assistant(reply)]))
}

fn graph() -> Graph<Support> {
    let builder = Graph::<Support>::builder().node("ask", ask).node("gate", gate).node("send", send);
    builder.edge("ask", "gate").edge("gate", "send").edge("send", END).entry("ask").compile().unwrap()
}

async fn story(store: TestStore, durability: Durability) {
    let open = |store: TestStore| {
        Chat::builder()
            .agent(GraphAgent::new("support", &graph()).durability(durability))
            .open(store)
            .unwrap()
    };
    let chat = open(store.clone());
    let outcome = chat.session("s").send(ChatMessage::user("Send it.")).await;
    let ChatTurnOutcome::Suspended(paused) = &outcome else { panic!("{outcome:?}") };
    assert_eq!(paused.pending_messages.len(), 1);
    let refused = chat.session("s").send(ChatMessage::user("Hello?")).await;
    let ChatTurnOutcome::Errored(refused) = refused else { panic!("{refused:?}") };
    assert_eq!(refused.error_category, "chat_session_suspended");
    let chat = open(store.reopen());
    let answer = Answer::new(Map::from_iter([("approved".to_owned(), json!(true))]));
    let address = SignalAddress::Session { session: "s".into(), signal: "approval".into() };
    let turn = chat.answer(address, answer).await.unwrap();
    let outcome = turn.outcome().await;
    let ChatTurnOutcome::Completed(done) = outcome.as_ref() else { panic!("{outcome:?}") };
    assert_eq!(done.replies.iter().map(|it| it.text().into_owned()).collect::<Vec<_>>(), ["Sent."]);
    let history = chat.session("s").history(0..100).await.unwrap();
    assert_eq!(history.len() as u64, 3, "{history:?}");
}

#[tokio::test]
async fn a_conversation_pauses_and_goes_on_in_another_process() {
    story(TestStore::new(), Durability::Turn).await;
    story(TestStore::new(), Durability::Step).await;
}

#[tokio::test]
async fn the_same_key_is_the_same_turn() {
    let chat = Chat::new(graph(), TestStore::new()).unwrap();
    let options = || SendOptions::new().key("k");
    let one = chat.session("s").submit(ChatMessage::user("x"), options()).await.unwrap();
    let two = chat.session("s").submit(ChatMessage::user("x"), options()).await.unwrap();
    assert_eq!(one.id(), two.id());
    assert_eq!(one.outcome().await.as_str(), "suspended");
    let other =
        chat.session("s").submit(ChatMessage::user("y"), options()).await.unwrap_err().into_errored_turn();
    assert_eq!(other.error_category, "chat_idempotency_conflict");
}

/// The value of `Ctx::is_recovering` in each execution of a node.
type Heard = Arc<Mutex<Vec<bool>>>;

fn effectful(heard: &Heard, first: &str) -> GraphAgent {
    let heard = heard.clone();
    let act = move |cx: Ctx<Support>| {
        heard.lock().unwrap().push(cx.is_recovering());
        async { Ok(Support::update()) }
    };
    let builder = Graph::<Support>::builder().node("act", act).node("send", send);
    let builder = builder.edge("act", "send").edge("send", END);
    let builder = if first == "gate" { builder.node("gate", gate).edge("gate", "act") } else { builder };
    let graph = builder.entry(first).compile().unwrap();
    GraphAgent::new("effectful", &graph).durability(Durability::Step)
}

// D7: also where the run begins anew, at its entry or with its answer, because nothing of it was committed yet.
#[tokio::test]
async fn a_node_that_died_before_anything_was_committed_hears_that_it_may_run_again() {
    for (entry, dies_at) in [("gate", 4), ("act", 2)] {
        let (store, heard) = (TestStore::new(), Heard::default());
        let dying = FaultInjectingStore::new(Arc::new(store.clone()), dies_at, FailedWriteEffect::Before);
        let chat = Chat::builder().agent(effectful(&heard, entry)).open(dying.clone()).unwrap();
        chat.session("s").send(ChatMessage::user("Send it.")).await;
        if entry == "gate" {
            let answer = Answer::new(Map::from_iter([("approved".to_owned(), json!(true))]));
            let address = SignalAddress::Session { session: "s".into(), signal: "approval".into() };
            chat.answer(address, answer).await.unwrap().outcome().await;
        }
        assert!(dying.fired(), "{entry}");
        assert_eq!(*heard.lock().unwrap(), [false], "{entry}");
        let next = Chat::builder().agent(effectful(&heard, entry)).open(store.reopen()).unwrap();
        for turn in next.sweep().await.unwrap() {
            assert_eq!(turn.outcome().await.as_str(), "completed", "{entry}");
        }
        assert_eq!(*heard.lock().unwrap(), [false, true], "{entry}");
    }
}
