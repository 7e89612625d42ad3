//! Side records that a sender gives its message (D17).

use serde_json::json;
use singletree_engine::{Ctx, Graph, NodeError, Signal};
use singletree_harness::{Chat, ForkOptions, Limits, SendOptions};
use singletree_test_store::TestStore;

use crate::bench::{Log, Talk, approve, asking, at, chain, chat_of, key, line, plain, user};

fn noted(id: &str) -> SendOptions {
    SendOptions::new().note("client_id", id)
}

async fn sides(chat: &Chat, session: &str) -> Vec<Option<serde_json::Value>> {
    chat.session(session).history(0..10).await.unwrap().into_iter().map(|it| it.side).collect()
}

// D17
#[tokio::test]
async fn what_is_said_beside_a_message_stays_with_it_through_restarts_and_forks() {
    let store = TestStore::new();
    let graph = plain(&Log::default());
    let chat = chat_of(&graph).open(store.clone()).unwrap();
    let turn = chat.session("s").submit(user("m"), noted("mine")).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "completed 3.1 [a:hello]");
    let side = Some(json!({ "client_id": "mine" }));
    for chat in [chat, chat_of(&graph).open(store.reopen()).unwrap()] {
        assert_eq!(sides(&chat, "s").await, [side.clone(), None]);
        let (message, beside) = chat.turn(turn.id()).await.unwrap().message().await.unwrap().unwrap();
        assert_eq!((message.as_ref(), beside), (&user("m"), side.clone()));
    }
    let chat = chat_of(&graph).open(store.reopen()).unwrap();
    chat.session("s").fork(ForkOptions::new().session("t")).await.unwrap();
    assert_eq!(sides(&chat, "t").await, [side, None]);
}

#[tokio::test]
async fn what_is_said_beside_a_message_is_known_of_a_turn_that_failed_and_of_one_that_resumes_is_nothing() {
    let builder =
        Graph::builder().node("n", async |_: Ctx<Talk>| Err(NodeError::new("no").with_category("x_failed")));
    let chat = chat_of(&chain(builder, &["n"])).open(TestStore::new()).unwrap();
    let turn = chat.session("s").submit(user("m"), noted("mine")).await.unwrap();
    assert_eq!(line(turn.outcome().await.as_ref()), "errored x_failed");
    let said = Some((std::sync::Arc::new(user("m")), Some(json!({ "client_id": "mine" }))));
    assert_eq!(turn.message().await.unwrap(), said);

    let chat = chat_of(&asking(&Log::default(), Signal::new("go"))).open(TestStore::new()).unwrap();
    chat.session("s").submit(user("m"), noted("mine")).await.unwrap().outcome().await;
    let resumed = chat.answer(at("s", "go"), approve(true)).await.unwrap();
    resumed.outcome().await;
    assert_eq!(resumed.message().await.unwrap(), None);
}

// D3
#[tokio::test]
async fn what_is_said_beside_a_message_is_no_part_of_what_its_key_stands_for() {
    let chat = chat_of(&plain(&Log::default())).open(TestStore::new()).unwrap();
    let one = chat.session("s").submit(user("m"), key("k").note("client_id", "one")).await.unwrap();
    let two = chat.session("s").submit(user("m"), key("k").note("client_id", "two")).await.unwrap();
    assert_eq!(one.id(), two.id());
    one.outcome().await;
    assert_eq!(sides(&chat, "s").await[0], Some(json!({ "client_id": "one" })));
}

// INV-12
#[tokio::test]
async fn what_is_said_beside_a_message_counts_as_bytes_of_it() {
    let limits = Limits { message_bytes: 60, ..Limits::default() };
    let chat = chat_of(&plain(&Log::default())).limits(limits).open(TestStore::new()).unwrap();
    let refused =
        chat.session("s").submit(user("m"), noted(&"x".repeat(40))).await.unwrap_err().into_errored_turn();
    assert_eq!(refused.error_category, "chat_message_shape_invalid");
    assert!(chat.session("s").submit(user("m"), noted("x")).await.is_ok());
}
