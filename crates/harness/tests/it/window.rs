//! Windows on long histories: the messages that are held, counted and read (D22).

use std::sync::{Arc, Mutex};

use singletree_engine::{Ctx, Graph, Signal};
use singletree_harness::{Chat, Durability, GraphAgent, Messages};
use singletree_llm::ChatMessage;
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, approve, asking, at, chain, history, line};

/// A node's view of a history: how long it is, and the texts that it was handed.
type Seen = Arc<Mutex<Vec<(u64, Vec<String>)>>>;

/// A graph that answers with a number, and records its view.
fn counting(seen: &Seen) -> Graph<Talk> {
    let seen = seen.clone();
    let builder = Graph::builder().node("count", move |cx: Ctx<Talk>| {
        let messages = &cx.state().messages;
        let held = messages.iter().map(|it| it.text().into_owned()).collect();
        seen.lock().unwrap().push((messages.len(), held));
        let reply = format!("r{}", messages.len() / 2);
        async move { Ok(Talk::update().messages([ChatMessage::assistant(reply)])) }
    });
    chain(builder, &["count"])
}

fn chat(store: &TestStore, graph: &Graph<Talk>, window: Option<u64>, durability: Durability) -> Chat {
    let agent = GraphAgent::new("a", graph).durability(durability);
    let agent = window.into_iter().fold(agent, |agent, it| agent.window(it));
    Chat::builder().agent(agent).open(store.reopen()).unwrap()
}

async fn talk(chat: &Chat, turns: std::ops::Range<u64>) {
    for turn in turns {
        let outcome = chat.session("s").send(ChatMessage::user(format!("u{turn}"))).await;
        assert_eq!(outcome.as_str(), "completed", "{outcome:?}");
    }
}

fn words(from: u64, to: u64) -> Vec<String> {
    (from..to).flat_map(|it| [format!("u{it}"), format!("r{it}")]).chain([format!("u{to}")]).collect()
}

// D22, INV-11: a node's view does not depend on whether the session was in memory.
#[tokio::test]
async fn a_window_holds_the_last_messages_from_a_users_on_whether_the_session_was_in_memory_or_not() {
    for durability in [Durability::Turn, Durability::Step] {
        let (store, seen) = (TestStore::new(), Seen::default());
        let graph = counting(&seen);
        let warm = chat(&store, &graph, Some(4), durability);
        talk(&warm, 0..10).await;
        let cold = chat(&store, &graph, Some(4), durability);
        talk(&cold, 10..11).await;
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen[1], (3, words(0, 1)));
        assert_eq!(seen[9], (19, words(7, 9)), "in memory");
        assert_eq!(seen[10], (21, words(8, 10)), "read from the store");
        let history = cold.session("s").history(0..100).await.unwrap();
        assert_eq!(history.len(), 22, "nothing was forgotten");
    }
}

#[tokio::test]
async fn a_window_that_would_begin_with_an_answer_begins_with_its_question() {
    let (store, seen) = (TestStore::new(), Seen::default());
    let graph = counting(&seen);
    talk(&chat(&store, &graph, None, Durability::Turn), 0..10).await;
    talk(&chat(&store, &graph, Some(3), Durability::Turn), 10..12).await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen[10], (21, words(8, 10)));
    assert_eq!(seen[11], (23, words(9, 11)));
}

#[tokio::test]
async fn a_window_wider_than_the_history_holds_all_of_it() {
    let (store, seen) = (TestStore::new(), Seen::default());
    let graph = counting(&seen);
    talk(&chat(&store, &graph, Some(100), Durability::Turn), 0..3).await;
    talk(&chat(&store, &graph, Some(100), Durability::Turn), 3..4).await;
    assert_eq!(seen.lock().unwrap().last(), Some(&(7, words(0, 3))));
}

// D22: older items come by an explicit read.
#[tokio::test]
async fn a_node_reads_what_its_window_does_not_hold() {
    let store = TestStore::new();
    talk(&chat(&store, &counting(&Seen::default()), None, Durability::Turn), 0..10).await;
    let read = Arc::new(Mutex::new(Vec::new()));
    let reading = read.clone();
    let builder = Graph::builder().node("look", move |cx: Ctx<Talk>| {
        let reading = reading.clone();
        async move {
            for positions in [0..2, 17..100, 5..5, 30..40] {
                let messages = Messages::read_at_positions(&cx, positions).await?;
                let texts: Vec<_> = messages.iter().map(|it| it.text().into_owned()).collect();
                reading.lock().unwrap().push(texts.join(" "));
            }
            Ok(Talk::update().messages([ChatMessage::assistant("looked")]))
        }
    });
    let chat = chat(&store, &chain(builder, &["look"]), Some(2), Durability::Turn);
    talk(&chat, 10..11).await;
    assert_eq!(*read.lock().unwrap(), ["u0 r0", "r8 u9 r9 u10", "", ""]);
}

// D22, INV-6: the messages of its own turn that an invocation needs are held, however short the window is.
#[tokio::test]
async fn an_invocation_resumed_in_another_process_has_its_own_messages_whole() {
    for durability in [Durability::Turn, Durability::Step] {
        let store = TestStore::new();
        let log = Log::default();
        talk(&chat(&store, &counting(&Seen::default()), None, durability), 0..4).await;
        let graph = asking(&log, Signal::new("go"));
        let paused =
            chat(&store, &graph, Some(1), durability).session("s").send(ChatMessage::user("ask me")).await;
        assert_eq!(paused.as_str(), "suspended", "{paused:?}");
        let chat = chat(&store, &graph, Some(1), durability);
        let outcome = chat.answer(at("s", "go"), approve(true)).await.unwrap().outcome().await;
        assert_eq!(line(&outcome), "completed 3.3 [a:done]");
        assert_eq!(history(&chat, "s").await[8..], ["u:ask me", "a:ask", "a:done"]);
    }
}
