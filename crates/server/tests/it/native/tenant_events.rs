//! The events of a tenant.

use serde_json::{Value, json};
use singletree_test_store::TestStore;

use super::api::Api;
use crate::support::rig::within;
use crate::support::{Client, Events, Rig};

/// Reads the next event; checks it against its schema, and its id against the id of its frame.
async fn next(api: &Api, events: &mut Events) -> Value {
    let frame = within(events.next()).await.expect("the stream goes on");
    let event = frame.json();
    api.is_item(&event, "TenantStreamItem");
    assert_eq!(event["id"].as_str(), frame.id.as_deref());
    event
}

/// Reads events up to the end of a turn; returns their types.
async fn until_ended(api: &Api, events: &mut Events) -> Vec<String> {
    let mut types = Vec::new();
    while types.last().is_none_or(|it| it != "turn.ended") {
        types.push(next(api, events).await["type"].as_str().unwrap().to_owned());
    }
    types
}

async fn opened(client: &Client, path: &str, last: Option<&str>) -> Events {
    let mut events = client.events(path, last).await;
    assert_eq!(events.status, 200);
    assert_eq!(within(events.block()).await.unwrap().comments[0], "open");
    events
}

#[tokio::test]
async fn a_reader_hears_of_sessions_waits_and_ends_of_turns() {
    let api = Api::start().await;
    let mut events = opened(&api.client, "/v1/events", None).await;
    api.send("s", "say one").await;
    let made = next(&api, &mut events).await;
    assert_eq!((&made["type"], &made["session"]), (&json!("session.created"), &json!("s")));
    assert_eq!(made["agent"], "scripted");
    let ended = next(&api, &mut events).await;
    assert_eq!((&ended["type"], &ended["outcome"]), (&json!("turn.ended"), &json!("completed")));

    let waits = api.send("s", "send a mail").await;
    let began = next(&api, &mut events).await;
    assert_eq!((&began["type"], &began["turn"]), (&json!("wait.began"), &waits["turn"]));
    assert_eq!((&began["signal"], &began["wait"]), (&waits["wait"]["signal"], &waits["wait"]["number"]));
    assert_eq!(began["approval"], true);
    let arguments = &waits["wait"]["metadata"]["arguments"];
    assert_eq!(began["preview"], arguments.to_string());
    assert_eq!(next(&api, &mut events).await["outcome"], "suspended");

    let path = format!("/v1/sessions/s/signals/{}", waits["wait"]["signal"].as_str().unwrap());
    let answer = json!({ "payload": { "approved": true }, "wait": waits["wait"]["number"],
        "action": waits["wait"]["action"] });
    assert_eq!(api.post(&path, answer).await.status, 200);
    let ended = next(&api, &mut events).await;
    assert_eq!((&ended["type"], &ended["how"]), (&json!("wait.ended"), &json!("consumed")));
    assert_eq!(until_ended(&api, &mut events).await, ["turn.ended"]);

    assert_eq!(api.post("/v1/sessions/s/fork", json!({ "id": "f", "at": 2 })).await.status, 201);
    let forked = next(&api, &mut events).await;
    assert_eq!((&forked["type"], &forked["session"]), (&json!("session.forked"), &json!("f")));
    assert_eq!((&forked["parent"], &forked["offset"]), (&json!("s"), &json!(2)));
    assert_eq!(api.delete("/v1/sessions/f").await.status, 204);
    assert_eq!(next(&api, &mut events).await["type"], "session.deleted");
    let cancelled = api.send("s", "send another").await;
    assert_eq!(until_ended(&api, &mut events).await, ["wait.began", "turn.ended"]);
    let turn = cancelled["turn"].as_str().unwrap();
    assert_eq!(api.post(&format!("/v1/sessions/s/turns/{turn}/cancel"), json!({})).await.status, 200);
    assert_eq!(next(&api, &mut events).await["how"], "cancelled");
    let ended = next(&api, &mut events).await;
    assert_eq!((&ended["outcome"], &ended["category"]), (&json!("errored"), &json!("chat_turn_cancelled")));
}

#[tokio::test]
async fn a_reader_that_comes_again_misses_nothing_and_one_of_another_start_is_told() {
    let store = TestStore::new();
    let rig = Rig::builder().start_on(store.clone()).await;
    let api = Api::of(&rig).await;
    let mut events = opened(&api.client, "/v1/events", None).await;
    api.send("s", "say one").await;
    let made = next(&api, &mut events).await;
    drop(events);
    api.send("s", "say two").await;
    let seen = made["id"].as_str().unwrap();
    for (path, last) in [(format!("/v1/events?after={seen}"), None), ("/v1/events".into(), Some(seen))] {
        let mut again = opened(&api.client, &path, last).await;
        assert_eq!(until_ended(&api, &mut again).await, ["turn.ended"]);
        assert_eq!(until_ended(&api, &mut again).await, ["turn.ended"]);
    }
    let nonsense = api.get("/v1/events?after=nonsense").await;
    assert_eq!((nonsense.status, &nonsense.json()["error"]["category"]), (404, &json!("chat_event_unknown")));
    let again = Rig::builder().after(&rig);
    rig.stop().await;
    let rig = again.start_on(store.reopen()).await;
    let api = Api::of(&rig).await;
    let mut events = opened(&api.client, "/v1/events", Some(seen)).await;
    let missed = next(&api, &mut events).await;
    assert_eq!((&missed["type"], missed.get("session")), (&json!("events.missed"), None));
    api.send("s", "say three").await;
    assert_eq!(until_ended(&api, &mut events).await, ["turn.ended"]);
    rig.stop().await;
}

#[tokio::test]
async fn the_stream_ends_with_the_server_and_says_when_to_come_again() {
    let mut rig = Rig::start().await;
    let mut events = opened(&rig.client(), "/v1/events", None).await;
    rig.begin_stop();
    let last = within(events.block()).await.unwrap();
    assert_eq!((last.retry, last.data), (Some(1000), None));
    assert_eq!(within(events.block()).await, None);
    rig.stop().await;
}
