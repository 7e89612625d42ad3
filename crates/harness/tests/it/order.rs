//! One session: one turn at a time, in the order of acceptance. Two sessions: side by side (harness-chat §5.3, INV-1).

use std::sync::Arc;

use singletree_durable::{Journal, TurnRowQuery};
use singletree_engine::{Ctx, Graph};
use singletree_harness::{Chat, Limits};
use singletree_llm::ChatMessage;
use singletree_store_sqlite::SqliteStore;
use singletree_test_store::TestStore;
use tokio::sync::Barrier;

use crate::bench::{Log, Talk, chain, chat_of, check_rows, history, key, line, name, plain, says, user};

/// A graph that says how many messages it has seen.
fn counting() -> Graph<Talk> {
    let builder = Graph::builder().node("n", |cx: Ctx<Talk>| async move {
        tokio::task::yield_now().await;
        Ok(says(&cx.state().messages.last().unwrap().text()))
    });
    chain(builder, &["n"])
}

async fn crowd(chat: Chat, journal: &dyn Journal) {
    const SENDS: usize = 48;
    let barrier = Arc::new(Barrier::new(SENDS));
    let sends = (0..SENDS).map(|n| {
        let (chat, barrier) = (chat.clone(), barrier.clone());
        tokio::spawn(async move {
            barrier.wait().await;
            line(&chat.session("s").send(user(&format!("m{n}"))).await)
        })
    });
    let sends: Vec<_> = sends.collect();
    for (n, send) in sends.into_iter().enumerate() {
        let told = send.await.unwrap();
        assert!(told.ends_with(&format!("[a:m{n}]")), "{told}");
    }
    // The order of acceptance is the order of the turns' rows.
    let turns = journal.read_turns(&name("s"), &TurnRowQuery::From { no: 0, limit: 100 }).await.unwrap();
    let mut accepted = Vec::new();
    for turn in &turns {
        let no = turn.message.unwrap();
        let range = singletree_durable::ItemRange::Numbers { from: no, to: no + 1 };
        let rows = journal.read_items(&name("s"), &range).await.unwrap();
        let message: serde_json::Value = rows[0].body.decode().unwrap();
        let text = message["content"].as_str().unwrap().to_owned();
        accepted.extend([format!("u:{text}"), format!("a:{text}")]);
    }
    assert_eq!(accepted.len(), 2 * SENDS);
    assert_eq!(history(&chat, "s").await, accepted);
    check_rows(journal, "s").await;
}

// spec: harness-chat §5.3; INV-1
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_sends_at_once_are_answered_in_the_order_of_acceptance_in_memory() {
    for _ in 0..10 {
        let store = TestStore::new();
        let chat = chat_of(&counting()).open(store.clone()).unwrap();
        crowd(chat, &store).await;
    }
}

// spec: harness-chat §5.3; INV-1
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_sends_at_once_are_answered_in_the_order_of_acceptance_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("s.db")).await.unwrap();
    let chat = chat_of(&counting()).open(store.clone()).unwrap();
    crowd(chat, &store).await;
}

#[tokio::test]
async fn turns_of_two_sessions_that_wait_for_each_other_both_end() {
    let both = Arc::new(Barrier::new(2));
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let both = both.clone();
        async move {
            both.wait().await;
            Ok(says("met"))
        }
    });
    let chat = chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    let [one, two] = ["one", "two"].map(|id| chat.session(id));
    let (one, two) = tokio::join!(one.send(user("x")), two.send(user("x")));
    assert_eq!([line(&one), line(&two)], ["completed 3.1 [a:met]", "completed 3.1 [a:met]"]);
}

#[tokio::test]
async fn sessions_that_take_turns_in_memory_of_one_lose_nothing() {
    let limits = Limits { hot_sessions: 1, ..Limits::default() };
    let store = TestStore::new();
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(store.clone()).unwrap();
    let mut told = [0, 0, 0];
    for n in 0..12 {
        let session = ["a", "b", "c"][n % 3];
        let outcome = chat.session(session).send_with(user(&format!("m{n}")), key(&format!("k{n}"))).await;
        let path = if n < 3 { "3.1" } else { "3.2" };
        assert_eq!(line(&outcome), format!("completed {path} [a:hello]"));
        told[n % 3] += 2;
    }
    for (at, session) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(history(&chat, session).await.len(), told[at]);
        check_rows(&store, session).await;
    }
}

#[tokio::test]
async fn a_dropped_send_is_answered_all_the_same() {
    let store = TestStore::in_memory("one poll accepts a message");
    let chat = chat_of(&counting()).open(store.clone()).unwrap();
    {
        let session = chat.session("s");
        let mut send = Box::pin(session.send(user("m")));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(send.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
    }
    let second = chat.session("s").send(ChatMessage::user("n")).await;
    assert_eq!(line(&second), "completed 3.2 [a:n]");
    assert_eq!(history(&chat, "s").await, ["u:m", "a:m", "u:n", "a:n"]);
}
