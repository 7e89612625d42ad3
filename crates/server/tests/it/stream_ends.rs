//! Streams end with the key, the token or the sign-in that they were opened by.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use singletree_server::{AccessPolicy, ServerLimits};

use crate::support::rig::within;
use crate::support::{Client, Events, Rig};

/// Sooner than the first heartbeat, with room for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(10);

const EVERYTHING: [&str; 4] = ["read", "write", "approve", "admin"];

/// Makes a key of the tenant `acme`; returns its id and its secret.
async fn key(rig: &Rig, more: Value) -> (String, String) {
    let mut wanted = json!({ "tenant": "acme", "scopes": EVERYTHING });
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = rig.operator().post("/v1/keys", &wanted).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    (text(&made.json()["key"]["id"]), text(&made.json()["secret"]))
}

async fn revoke(rig: &Rig, id: &str) {
    let revoked = rig.operator().delete(&format!("/v1/keys/{id}?tenant=acme")).await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
}

/// A server whose streams are looked at often.
async fn attentive() -> Rig {
    let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
    let limits = ServerLimits { heartbeat: Duration::from_millis(20), ..ServerLimits::default() };
    Rig::builder().limits(limits).server(|it| it.access_policy(policy)).start().await
}

/// Opens a stream in each protocol; all of them wait for something.
async fn open_all(client: &Client) -> Vec<(&'static str, Events)> {
    let say = |text: &str| json!({ "content": text });
    for session in ["events", "chats"] {
        assert_eq!(client.post("/v1/sessions", &json!({ "id": session })).await.status, 201);
    }
    let user = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "slow word" }] });
    let agui = json!({
        "threadId": "agui", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{ "id": "m", "role": "user", "content": "slow word" }],
    });
    let asked = json!([{ "role": "user", "content": "slow word" }]);
    let completion = json!({ "model": "scripted", "stream": true, "messages": asked });
    vec![
        ("events", client.events("/v1/sessions/events/events", None).await),
        ("tenant", client.events("/v1/events", None).await),
        ("turn", client.post_events("/v1/sessions/native/messages", &say("slow word")).await),
        ("narration", client.events("/v1/sessions/events/narration", None).await),
        ("chat events", client.events("/v1/chats/chats/events", None).await),
        ("chat turn", client.post_events("/v1/chats/steerable/send", &say("slow word")).await),
        ("ui", client.post_events("/v1/ui", &json!({ "sessionId": "ui", "message": user })).await),
        ("agui", client.post_events("/v1/agui", &agui).await),
        ("openai", client.post_events("/v1/chat/completions", &completion).await),
    ]
}

/// Reads a stream to its end, which must come at once; returns the data of the remaining events.
async fn last(name: &str, mut events: Events) -> Vec<String> {
    assert_eq!(events.status, 200, "{name}");
    let rest = tokio::time::timeout(AT_ONCE, events.rest()).await;
    let rest = rest.unwrap_or_else(|_| panic!("{name} goes on: {}", events.raw));
    rest.into_iter().map(|it| it.data.unwrap()).collect()
}

// D33, S3
#[tokio::test]
async fn a_stream_of_every_protocol_ends_at_once_by_its_own_word_when_its_key_is_revoked() {
    let rig = Rig::asking().await;
    let (id, secret) = key(&rig, json!({})).await;
    let (_, other) = key(&rig, json!({})).await;
    let streams = open_all(&rig.client().bearer(&secret)).await;
    let mut stays = rig.client().bearer(&other).events("/v1/sessions/events/events", None).await;
    assert_eq!(within(stays.block()).await.unwrap().comments[0], "open");
    revoke(&rig, &id).await;
    for (name, events) in streams {
        let told = last(name, events).await;
        let word = |at: usize| -> Value { serde_json::from_str(&told[told.len() - at]).unwrap() };
        match name {
            "events" | "tenant" | "turn" => {
                assert_eq!(word(1)["type"], "stream.failed", "{name}");
                assert_eq!(word(1)["error"]["category"], "server_key_revoked", "{name}");
            }
            "narration" => assert!(told.iter().all(|it| !it.contains("revoked")), "{told:?}"),
            "chat events" | "chat turn" => {
                assert_eq!(word(2)["type"], "error", "{name}");
                assert_eq!(word(2)["code"], "server_key_revoked", "{name}");
                assert_eq!(told.last().unwrap(), "[DONE]", "{name}");
            }
            "ui" => {
                assert_eq!(word(3)["type"], "error");
                assert_eq!(word(2)["type"], "finish");
                assert_eq!(told.last().unwrap(), "[DONE]");
            }
            "agui" => {
                assert_eq!(word(1)["type"], "RUN_ERROR");
                assert_eq!(word(1)["code"], "server_key_revoked");
            }
            _ => assert_eq!(word(1)["error"]["code"], "server_key_revoked", "{name}"),
        }
    }
    // The stream of another key gets further events, and the turns go on.
    rig.pace.run_free();
    let (other, say) = (rig.client().bearer(&other), json!({ "content": "say so" }));
    let sent = within(other.post("/v1/sessions/events/messages", &say)).await;
    assert_eq!(sent.status, 200);
    assert_eq!(within(stays.json()).await.unwrap()["type"], "turn.accepted");
    rig.stop().await;
}

/// Reads a stream to its end, with comments and hints.
async fn all_blocks(name: &str, mut events: Events) -> Vec<crate::support::Event> {
    let mut blocks = Vec::new();
    let reading = async {
        while let Some(block) = events.block().await {
            blocks.push(block);
        }
    };
    assert!(tokio::time::timeout(AT_ONCE, reading).await.is_ok(), "{name} goes on");
    blocks
}

// D33, W1
#[tokio::test]
async fn a_stop_in_the_middle_of_a_turn_is_a_failure_in_every_protocol_that_cannot_resume_by_event() {
    let limits = ServerLimits { grace: Duration::from_millis(50), ..ServerLimits::default() };
    let mut rig = Rig::builder().limits(limits).start().await;
    let streams = open_all(&rig.client()).await;
    rig.begin_stop();
    for (name, events) in streams {
        let blocks = all_blocks(name, events).await;
        let told: Vec<&String> = blocks.iter().filter_map(|block| block.data.as_ref()).collect();
        let word = |at: usize| -> Value { serde_json::from_str(told[told.len() - at]).unwrap() };
        let hint = blocks.last().unwrap().retry;
        match name {
            "events" | "tenant" | "turn" | "narration" | "chat events" => {
                assert_eq!(hint, Some(1000), "{name}");
                assert!(told.iter().all(|data| !data.contains("chat_shutting_down")), "{name}: {told:?}");
            }
            "chat turn" => {
                assert_eq!(
                    (&word(2)["type"], &word(2)["code"]),
                    (&json!("error"), &json!("chat_shutting_down"))
                );
                assert_eq!(told.last().unwrap().as_str(), "[DONE]");
            }
            "ui" => {
                assert_eq!(word(3)["type"], "error");
                assert_eq!(word(2), json!({ "type": "finish", "finishReason": "error" }));
                assert_eq!(told.last().unwrap().as_str(), "[DONE]");
            }
            "agui" => {
                assert_eq!(
                    (&word(1)["type"], &word(1)["code"]),
                    (&json!("RUN_ERROR"), &json!("chat_shutting_down"))
                );
            }
            _ => assert_eq!(word(1)["error"]["code"], "chat_shutting_down", "{name}"),
        }
    }
    rig.stop().await;
}

// D33: a turn that ends in time ends as usual, also if its last messages have to be read from the store first.
#[tokio::test]
async fn a_turn_that_ends_within_the_grace_ends_its_streams_as_ever() {
    let mut rig = Rig::start().await;
    let streams = open_all(&rig.client()).await;
    rig.begin_stop();
    rig.pace.run_free();
    for (name, events) in streams {
        let blocks = all_blocks(name, events).await;
        let told: Vec<&String> = blocks.iter().filter_map(|block| block.data.as_ref()).collect();
        let word = |at: usize| -> Value { serde_json::from_str(told[told.len() - at]).unwrap() };
        match name {
            "ui" => assert_eq!(word(2), json!({ "type": "finish", "finishReason": "stop" })),
            "agui" => assert_eq!(word(1)["type"], "RUN_FINISHED"),
            "chat turn" => assert_eq!(word(2)["type"], "done"),
            "openai" => assert_eq!(told.last().unwrap().as_str(), "[DONE]"),
            "turn" => assert_eq!(word(1)["type"], "turn.completed"),
            _ => {}
        }
    }
    rig.stop().await;
}

// S3
#[tokio::test]
async fn a_stream_ends_when_the_time_of_its_key_is_over() {
    let rig = attentive().await;
    let (_, secret) = key(&rig, json!({ "expires_in": 60 })).await;
    let (_, lasting) = key(&rig, json!({})).await;
    let client = rig.client().bearer(&secret);
    client.post("/v1/sessions", &json!({ "id": "s" })).await;
    let events = client.events("/v1/sessions/s/events", None).await;
    let mut stays = rig.client().bearer(&lasting).events("/v1/sessions/s/events", None).await;
    rig.clock.advance(Duration::from_secs(60));
    let told = last("events", events).await;
    assert!(told.last().unwrap().contains("server_key_expired"), "{told:?}");
    for _ in 0..3 {
        assert!(within(stays.block()).await.unwrap().data.is_none(), "a sign of life");
    }
    rig.stop().await;
}

/// Signs in on the page; returns somebody who shows the cookie.
async fn signed_in(rig: &Rig, secret: &str) -> Client {
    let answer = rig.client().post("/page/sign-in", &json!({ "key": secret })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    rig.client().with("cookie", &cookie).with("sec-fetch-site", "same-origin")
}

// S3
#[tokio::test]
async fn the_streams_of_the_page_end_with_the_sign_in_and_with_the_key_behind_it() {
    let rig = Rig::asking().await;
    let (id, secret) = key(&rig, json!({})).await;
    let (out, stays) = (signed_in(&rig, &secret).await, signed_in(&rig, &secret).await);
    out.post("/v1/sessions", &json!({ "id": "s" })).await;
    let first = out.events("/v1/sessions/s/events", None).await;
    let second = stays.events("/v1/sessions/s/events", None).await;
    assert_eq!(out.send_bytes(Method::POST, "/page/sign-out", Bytes::new()).await.status, 200);
    let told = last("signed out", first).await;
    assert!(told.last().unwrap().contains("server_unauthorized"), "{told:?}");
    assert_eq!(stays.get("/v1/sessions").await.status, 200);
    revoke(&rig, &id).await;
    let told = last("revoked", second).await;
    assert!(told.last().unwrap().contains("server_key_revoked"), "{told:?}");
    assert_eq!(stays.get("/v1/sessions").await.status, 401);
    rig.stop().await;
}

// S, rotation
#[tokio::test]
async fn a_rotation_without_grace_ends_the_old_secret_its_sign_ins_and_its_streams_at_once() {
    let rig = attentive().await;
    let (id, secret) = key(&rig, json!({})).await;
    let rotate = async |grace: u64| {
        let path = format!("/v1/keys/{id}/rotate?tenant=acme");
        let rotated = rig.operator().post(&path, &json!({ "grace": grace })).await;
        assert_eq!(rotated.status, 200, "{}", rotated.text());
        rotated.json()["secret"].as_str().unwrap().to_owned()
    };
    let page = signed_in(&rig, &secret).await;
    page.post("/v1/sessions", &json!({ "id": "s" })).await;
    let by_page = page.events("/v1/sessions/s/events", None).await;
    let by_key = rig.client().bearer(&secret).events("/v1/sessions/s/events", None).await;
    // With a grace period requests still succeed, and streams opened with the old secret end when it expires.
    let newer = rotate(60).await;
    assert_eq!(page.get("/v1/sessions").await.status, 200);
    rig.clock.advance(Duration::from_secs(59));
    assert_eq!(rig.client().bearer(&secret).get("/v1/sessions").await.status, 200);
    rig.clock.advance(Duration::from_secs(1));
    for (name, events) in [("page", by_page), ("key", by_key)] {
        let told = last(name, events).await;
        assert!(told.last().unwrap().contains("server_unauthorized"), "{told:?}");
    }
    assert_eq!(page.get("/v1/sessions").await.status, 401);
    // Without one, nobody who has the old secret has anything left.
    let page = signed_in(&rig, &newer).await;
    let events = page.events("/v1/sessions/s/events", None).await;
    let newest = rotate(0).await;
    assert!(last("page", events).await.last().unwrap().contains("server_unauthorized"));
    assert_eq!(page.get("/v1/sessions").await.status, 401);
    assert_eq!(rig.client().bearer(&newer).get("/v1/sessions").await.status, 401);
    assert_eq!(rig.client().bearer(&newest).get("/v1/sessions").await.status, 200);
    rig.stop().await;
}
