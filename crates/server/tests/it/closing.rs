//! How a server ends: turns that were accepted are kept, streams end with a hint, slow readers hold nothing up.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use singletree_harness::Limits;
use singletree_server::ServerLimits;
use singletree_test_store::TestStore;
use tokio::io::AsyncWriteExt;

use crate::support::rig::within;
use crate::support::{Event, Rig};

const MESSAGES: &str = "/v1/sessions/s/messages";

#[tokio::test]
async fn what_runs_ends_and_streams_end_after_it_with_a_hint() {
    let mut rig = Rig::start().await;
    let client = rig.client();
    client.post(MESSAGES, &json!({ "content": "say first" })).await;
    let mut events = client.events("/v1/sessions/s/events", None).await;
    let asked = tokio::spawn({
        let client = client.clone();
        async move { client.post(MESSAGES, &json!({ "content": "slow second" })).await }
    });
    // It runs: its acceptance is told.
    while within(events.json()).await.unwrap()["type"] != "turn.completed" {}
    assert_eq!(within(events.json()).await.unwrap()["type"], "turn.accepted");
    rig.begin_stop();
    // Nobody new is let in.
    within(async { while tokio::net::TcpStream::connect(rig.at).await.is_ok() {} }).await;
    rig.pace.run_free();
    let answer = within(asked).await.unwrap();
    assert_eq!((answer.status, &answer.json()["replies"][0]["content"]), (200, &json!("You said: second")));
    let mut types = Vec::new();
    let mut last = Event::default();
    while let Some(block) = within(events.block()).await {
        if block.data.is_some() {
            types.push(block.json()["type"].as_str().unwrap().to_owned());
        }
        last = block;
    }
    assert_eq!(types.last().map(String::as_str), Some("turn.completed"));
    assert_eq!((last.retry, last.data), (Some(1000), None));
    rig.stop().await;
}

// INV-2
#[tokio::test]
async fn a_turn_that_has_no_time_to_end_is_kept_and_ends_after_the_next_start() {
    let store = TestStore::new();
    let limits = ServerLimits { grace: Duration::from_millis(50), ..ServerLimits::default() };
    let first = Rig::builder().limits(limits).start_on(store.clone()).await;
    let client = first.client();
    let asked = tokio::spawn(async move {
        let response = client
            .with("content-type", "application/json")
            .with("accept", "text/event-stream")
            .begin(Method::POST, MESSAGES, Bytes::from_static(b"{\"content\": \"slow kept\"}"))
            .await;
        response.status().as_u16()
    });
    assert_eq!(within(asked).await.unwrap(), 200, "it is accepted");
    let again = Rig::builder().after(&first);
    within(first.stop()).await;
    let second = again.start_on(store.reopen()).await;
    second.pace.run_free();
    within(async {
        loop {
            let history = second.client().get(MESSAGES).await.json();
            let said: Vec<Value> =
                history["items"].as_array().unwrap().iter().map(|it| it["content"].clone()).collect();
            if said == [json!("slow kept"), json!("You said: kept")] {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    second.stop().await;
}

#[tokio::test]
async fn who_reads_nothing_of_an_answer_is_let_go_and_holds_nothing_up() {
    let limits = ServerLimits { write_time: Duration::from_millis(200), ..ServerLimits::default() };
    let chat_limits = Limits { page_bytes: 1 << 30, ..Limits::default() };
    let rig = Rig::builder().limits(limits).chat_limits(chat_limits).start().await;
    // Larger than the buffers of a connection.
    let text = "x".repeat(900_000);
    for _ in 0..12 {
        let sent = rig.client().post(MESSAGES, &json!({ "content": format!("say {text}") })).await;
        assert_eq!(sent.status, 200);
    }
    let mut deaf = rig.client().open().await;
    let request = format!("GET {MESSAGES} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    deaf.write_all(request.as_bytes()).await.unwrap();
    let open = async || {
        let text = rig.client().get("/metrics").await.text();
        let line = text.lines().find(|it| it.starts_with("singletree_connections ")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    within(async { while open().await < 2 {} }).await;
    let answered = rig.client().post("/v1/sessions/t/messages", &json!({ "content": "say hello" })).await;
    assert_eq!(answered.status, 200);
    within(async { while open().await > 1 {} }).await;
    drop(deaf);
    rig.stop().await;
}

// D33
#[tokio::test]
async fn who_waits_for_a_turn_that_has_no_time_to_end_is_told_which_one_goes_on() {
    let limits = ServerLimits { grace: Duration::from_millis(50), ..ServerLimits::default() };
    let mut rig = Rig::builder().limits(limits).start().await;
    let client = rig.client();
    let asked = tokio::spawn({
        let client = client.clone();
        async move { client.post(MESSAGES, &json!({ "content": "slow kept" })).await }
    });
    let turn = within(async {
        loop {
            let turns = client.get("/v1/sessions/s/turns").await.json();
            if let Some(turn) = turns["items"].get(0) {
                return turn["id"].clone();
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.begin_stop();
    let answer = within(asked).await.unwrap();
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["turn"]), (503, &turn), "{error}");
    assert_eq!(error["bucket"], "retryable_transient");
    rig.stop().await;
}
