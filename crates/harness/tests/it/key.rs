//! Idempotency keys (D3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use singletree_engine::{Ctx, Graph, NodeError, Signal};
use singletree_harness::{Chat, ChatTurnOutcome, SendOptions};
use singletree_test_store::TestStore;
use tokio::sync::Barrier;

use crate::bench::{
    Door, Log, Talk, approve, asking, at, category, chain, chat_of, history, key, line, plain, says, user,
};

#[tokio::test]
async fn the_same_key_attaches_to_the_running_turn_and_gets_the_stored_outcome_later() {
    let (door, log) = (Door::shut(), Log::default());
    let (node_door, noted) = (door.clone(), log.clone());
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        noted.note("n");
        let door = node_door.clone();
        async move {
            door.pass().await;
            Ok(says("once"))
        }
    });
    let store = TestStore::new();
    let graph = chain(builder, &["n"]);
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    let one = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    door.somebody().await;
    let two = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    assert_eq!(one.id(), two.id());
    let other = chat.session("s").submit(user("other"), key("k")).await.unwrap_err().into_errored_turn();
    assert_eq!((other.error_category.as_str(), &other.turn), ("chat_idempotency_conflict", &None));
    let options =
        chat.session("s").submit(user("m"), key("k").agent("a")).await.unwrap_err().into_errored_turn();
    assert_eq!(options.error_category, "chat_idempotency_conflict");
    door.open();
    assert_eq!(one.outcome().await, two.outcome().await);
    let chat = chat_of(&graph).open(store.reopen()).unwrap();
    let three = chat.session("s").submit(user("m"), key("k")).await.unwrap();
    assert_eq!(line(three.outcome().await.as_ref()), "completed 3.1 [a:once]");
    assert_eq!(log.all(), ["n"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_key_many_times_at_once_is_one_turn() {
    for _ in 0..50 {
        let log = Log::default();
        let chat = chat_of(&plain(&log)).open(TestStore::new()).unwrap();
        let barrier = Arc::new(Barrier::new(8));
        let sends: Vec<_> = (0..8)
            .map(|_| {
                let (chat, barrier) = (chat.clone(), barrier.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    line(&chat.session("s").send_with(user("m"), key("k")).await)
                })
            })
            .collect();
        for send in sends {
            assert_eq!(send.await.unwrap(), "completed 3.1 [a:hello]");
        }
        assert_eq!(log.all().len(), 1);
    }
}

/// A graph that fails once, with this category.
fn failing_once(category: &'static str) -> Graph<Talk> {
    let failed = Arc::new(AtomicBool::new(false));
    let builder = Graph::builder().node("n", move |_: Ctx<Talk>| {
        let first = !failed.swap(true, Ordering::SeqCst);
        async move { if first { Err(NodeError::new("no").with_category(category)) } else { Ok(says("yes")) } }
    });
    chain(builder, &["n"])
}

#[tokio::test]
async fn a_key_is_free_again_when_its_turn_may_be_sent_again_safely() {
    let again = |category| async move {
        let chat = chat_of(&failing_once(category)).open(TestStore::new()).unwrap();
        let first = chat.session("s").send_with(user("m"), key("k")).await;
        let ChatTurnOutcome::Errored(errored) = &first else { panic!("{first:?}") };
        let second = chat.session("s").send_with(user("m"), key("k")).await;
        (errored.retry_safe, line(&second))
    };
    assert_eq!(again("provider_unavailable").await, (true, "completed 3.1 [a:yes]".into()));
    assert_eq!(again("provider_invalid_request").await, (false, "errored provider_invalid_request".into()));
    assert_eq!(again("something_unknown").await, (false, "errored something_unknown".into()));
}

// D1, D3
#[tokio::test]
async fn a_key_is_free_again_after_the_session_was_suspended() {
    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).open(TestStore::new()).unwrap();
    chat.session("s").send(user("m")).await;
    assert_eq!(category(&chat.session("s").send_with(user("n"), key("k")).await), "chat_session_suspended");
    let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    turn.outcome().await;
    assert_eq!(line(&chat.session("s").send_with(user("n"), key("k")).await), "suspended 3.2 ok [a:ask]");
}

#[tokio::test]
async fn a_suspended_outcome_names_the_turn_that_resumed_it() {
    let chat = chat_of(&asking(&Log::default(), Signal::new("ok"))).open(TestStore::new()).unwrap();
    let by = |outcome: &ChatTurnOutcome| match outcome {
        ChatTurnOutcome::Suspended(it) => it.resumed_by.clone(),
        other => panic!("{other:?}"),
    };
    let first = chat.session("s").send_with(user("m"), key("k")).await;
    assert_eq!(by(&first), None);
    let turn = chat.answer(at("s", "ok"), approve(true)).await.unwrap();
    turn.outcome().await;
    assert_eq!(by(&chat.session("s").send_with(user("m"), key("k")).await).as_ref(), Some(turn.id()));
}

#[tokio::test]
async fn keys_are_of_one_session_and_have_a_length() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    chat.session("s").send_with(user("m"), key("k")).await;
    assert_eq!(line(&chat.session("t").send_with(user("other"), key("k")).await), "completed 3.1 [a:hello]");
    for bad in [String::new(), "k".repeat(257)] {
        let refused = chat.session("u").send_with(user("m"), SendOptions::new().key(bad)).await;
        assert_eq!(category(&refused), "chat_idempotency_conflict");
    }
    assert_eq!(history(&chat, "u").await, Vec::<String>::new());
    let again: Chat = chat.clone();
    assert_eq!(again.sessions(None, 10).await.unwrap().items.len(), 2);
}
