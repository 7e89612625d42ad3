//! Clients that go away (D31): their turns go on, or are cancelled if the request or the agent asks for it.

use std::time::Duration;

use serde_json::{Value, json};
use singletree_durable::StoredTurnStatus;
use singletree_harness::OnDisconnect;
use singletree_server::ServerLimits;
use singletree_test_store::TestStore;

use crate::support::rig::within;
use crate::support::{Client, Events, Rig};

const PATIENCE: Duration = Duration::from_secs(10);

fn ui() -> (&'static str, Value) {
    let message =
        json!({ "id": "u1", "role": "user", "parts": [{ "type": "text", "text": "slow one two" }] });
    ("/v1/ui", json!({ "id": "s", "message": message }))
}

fn agui() -> (&'static str, Value) {
    let messages = json!([{ "id": "u1", "role": "user", "content": "slow one two" }]);
    ("/v1/agui", json!({ "threadId": "s", "runId": "r", "messages": messages }))
}

fn native() -> (&'static str, Value) {
    ("/v1/sessions/s/messages", json!({ "content": "slow one two" }))
}

fn steerable() -> (&'static str, Value) {
    ("/v1/chats/s/send", json!({ "content": "slow one two" }))
}

fn openai() -> (&'static str, Value) {
    let messages = json!([{ "role": "user", "content": "slow one two" }]);
    ("/v1/chat/completions", json!({ "model": "scripted", "stream": true, "messages": messages }))
}

/// Begins a turn, reads its first words and goes away; the server has noticed that when this returns.
async fn come_and_go(rig: &Rig, client: &Client, (path, body): (&str, Value)) {
    let client = client.clone().with("x-session-id", "s");
    let mut stream: Events = client.post_events(path, &body).await;
    assert_eq!(stream.status, 200, "{path}");
    rig.pace.pass(2);
    while !within(stream.json()).await.unwrap().to_string().contains("said") {}
    drop(stream);
    alone(rig).await;
}

/// Waits until nobody follows the session.
async fn alone(rig: &Rig) {
    within(async {
        while rig.chat.session("s").followers().unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn status(rig: &Rig) -> StoredTurnStatus {
    rig.chat.session("s").newest_turn().await.unwrap().unwrap().status
}

/// Lets time pass until the turn is cancelled.
async fn is_cancelled(rig: &Rig) {
    within(async {
        while status(rig).await == StoredTurnStatus::Accepted {
            rig.clock.advance(PATIENCE);
            tokio::task::yield_now().await;
        }
    })
    .await;
    let turn = rig.chat.session("s").newest_turn().await.unwrap().unwrap();
    let outcome = rig.chat.turn(&turn.id).await.unwrap().outcome().await;
    assert!(format!("{outcome:?}").contains("chat_turn_cancelled"), "{outcome:?}");
}

/// Lets time pass, so that a guard could cancel the turn, and then lets the turn end.
async fn goes_on(rig: &Rig) {
    for _ in 0..50 {
        rig.clock.advance(PATIENCE);
        tokio::task::yield_now().await;
    }
    assert_eq!(status(rig).await, StoredTurnStatus::Accepted);
    rig.pace.run_free();
    within(async {
        while status(rig).await == StoredTurnStatus::Accepted {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(status(rig).await, StoredTurnStatus::Completed);
}

// W4, D31
#[tokio::test]
async fn a_turn_is_cancelled_ten_seconds_after_its_client_went_away_where_the_request_asks_for_it() {
    for begin in [ui(), agui(), native(), steerable(), openai()] {
        let rig = Rig::start().await;
        come_and_go(&rig, &rig.client().with("x-on-disconnect", "cancel"), begin).await;
        // Not before: a page that loads again is back by then.
        rig.clock.advance(PATIENCE / 2);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(status(&rig).await, StoredTurnStatus::Accepted);
        is_cancelled(&rig).await;
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_turn_goes_on_whose_request_says_nothing_or_to_continue() {
    let cancelling =
        |rig: crate::support::RigBuilder| rig.each_agent(|agent| agent.on_disconnect(OnDisconnect::Cancel));
    for begin in [ui(), agui()] {
        let rig = Rig::start().await;
        come_and_go(&rig, &rig.client(), begin.clone()).await;
        goes_on(&rig).await;
        rig.stop().await;
        // The agent decides where the request does not; the request wins.
        let rig = cancelling(Rig::builder()).start().await;
        come_and_go(&rig, &rig.client(), begin.clone()).await;
        is_cancelled(&rig).await;
        rig.stop().await;
        let rig = cancelling(Rig::builder()).start().await;
        come_and_go(&rig, &rig.client().with("x-on-disconnect", "continue"), begin).await;
        goes_on(&rig).await;
        rig.stop().await;
    }
    let rig = Rig::start().await;
    let (path, body) = ui();
    let unknown = rig.client().with("x-on-disconnect", "stop").post(path, &body).await;
    assert_eq!((unknown.status, &unknown.json()["error"]["field"]), (400, &json!("X-On-Disconnect")));
    rig.stop().await;
}

#[tokio::test]
async fn a_turn_that_somebody_else_follows_is_cancelled_when_that_one_is_gone_too() {
    let rig = Rig::start().await;
    let (path, body) = ui();
    let client = rig.client().with("x-on-disconnect", "cancel");
    let mut first = client.post_events(path, &body).await;
    rig.pace.pass(2);
    while !within(first.json()).await.unwrap().to_string().contains("said") {}
    let mut second = rig.client().events("/v1/ui/s/stream", None).await;
    within(second.json()).await.unwrap();
    drop(first);
    within(async {
        while rig.chat.session("s").followers().unwrap() > 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for _ in 0..50 {
        rig.clock.advance(PATIENCE);
        tokio::task::yield_now().await;
    }
    assert_eq!(status(&rig).await, StoredTurnStatus::Accepted);
    drop(second);
    alone(&rig).await;
    is_cancelled(&rig).await;
    rig.stop().await;
}

// A caller that waits for JSON can go away too.
#[tokio::test]
async fn who_waits_for_the_outcome_alone_and_hangs_up_has_the_turn_cancelled() {
    let rig = Rig::start().await;
    let client = rig.client().with("x-on-disconnect", "cancel");
    let (path, body) = native();
    let waiting = tokio::spawn(async move { client.post(path, &body).await });
    within(async {
        while rig.chat.session("s").followers().unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.pace.pass(1);
    waiting.abort();
    alone(&rig).await;
    is_cancelled(&rig).await;
    rig.stop().await;
}

// D33: the stop of the server is no disconnect of its clients.
#[tokio::test]
async fn the_stop_of_the_server_cancels_nothing() {
    let store = TestStore::new();
    let limits = ServerLimits { grace: Duration::from_millis(50), ..ServerLimits::default() };
    let mut rig = Rig::builder().limits(limits).start_on(store.clone()).await;
    let (path, body) = ui();
    let stream = rig.client().with("x-on-disconnect", "cancel").post_events(path, &body).await;
    let again = Rig::builder().after(&rig);
    rig.begin_stop();
    let mut stream = stream;
    let told = within(stream.rest()).await;
    assert!(told.iter().any(|event| event.data.as_deref().is_some_and(|data| data.contains("\"error\""))));
    rig.stop().await;
    let rig = again.start_on(store.reopen()).await;
    goes_on(&rig).await;
    rig.stop().await;
}
