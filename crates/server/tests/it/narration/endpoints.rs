//! The endpoints of narration (agent-chat-output §6, §7, §10).

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use singletree_harness::Chat;
use singletree_server::NarrationLog;

use crate::support::agents::CANARY;
use crate::support::rig::within;
use crate::support::{Client, Rig};

const PATH: &str = "/v1/sessions/s/narration";

async fn say(client: &Client, session: &str, text: &str) {
    let path = format!("/v1/sessions/{session}/messages");
    let answer = client.post(&path, &json!({ "content": text })).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Reads the held narration, as `role kind: content`.
async fn lines(client: &Client, path: &str) -> Vec<String> {
    let answer = client.get(path).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["items"].as_array().unwrap().iter().map(line).collect()
}

fn line(item: &Value) -> String {
    let text = |name: &str| item[name].as_str().unwrap().to_owned();
    format!("{} {}: {}", text("role"), text("kind"), text("content"))
}

const SAID: [&str; 2] = ["user status: say a", "system status: Done."];

// spec: agent-chat-output §6: time, role, content
#[tokio::test]
async fn what_was_said_is_read_with_its_time_and_from_any_point_on() {
    let rig = Rig::start().await;
    let client = rig.client();
    let empty = json!({ "items": [], "enabled": true });
    assert_eq!(client.get(PATH).await.json(), empty, "a session that is not there has none");
    say(&client, "s", "say a").await;
    rig.clock.advance(Duration::from_millis(1_500));
    client.post("/v1/sessions/s/messages", &json!({ "content": "send" })).await;
    let told = client.get(PATH).await.json();
    let contents: Vec<_> = told["items"].as_array().unwrap().iter().map(line).collect();
    let pending = client.get("/v1/sessions/s/pending").await.json();
    // The arguments are those of the wait (finding F5).
    let wait = &pending["items"][0];
    let ask = format!(
        "system ask: Approval is needed to use send ({}): {}",
        wait["signal"].as_str().unwrap(),
        wait["metadata"]["arguments"]
    );
    let rest = ["user status: send", "system progress: The agent asks for send.", &ask];
    assert_eq!(contents, [SAID.as_slice(), &rest].concat());
    let third = &told["items"][2];
    let expected = json!({ "id": "00000000.3", "timestamp": "2026-01-01T00:00:01.500Z", "role": "user",
        "kind": "status", "content": "send" });
    assert_eq!(third, &expected);
    assert_eq!(lines(&client, &format!("{PATH}?after=00000000.3")).await, rest[1..]);
    let seen = client.clone().with("last-event-id", "00000000.4");
    assert_eq!(lines(&seen, &format!("{PATH}?after=00000000.1")).await, [ask.as_str()]);
    // An id from another run of the server is no place in this one.
    for other in ["12345678.3", "3", "x", ""] {
        assert_eq!(lines(&client, &format!("{PATH}?after={other}")).await.len(), 5, "{other}");
    }
    assert_eq!(client.get(&format!("{PATH}?before=1")).await.status, 400);
    rig.stop().await;
}

// spec: agent-chat-output §7.2: a gap is silent
#[tokio::test]
async fn a_stream_begins_after_what_was_seen_and_goes_on_with_what_is_said() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "say a").await;
    let mut events = client.events(PATH, Some("00000000.1")).await;
    assert_eq!(events.headers["content-type"], "text/event-stream");
    let first = within(events.next()).await.unwrap();
    assert_eq!((first.id.as_deref(), line(&first.json())), (Some("00000000.2"), SAID[1].to_owned()));
    assert_eq!(first.json()["id"], "00000000.2");
    client.delete(PATH).await;
    say(&client, "other", "say x").await;
    say(&client, "s", "say b").await;
    let mut next = async || line(&within(events.next()).await.unwrap().json());
    assert_eq!([next().await, next().await], ["user status: say b", "system status: Done."]);
    rig.stop().await;
    assert_eq!(within(events.rest()).await, [], "the stream ends with the server");
}

/// Everything of a session that counts.
async fn counts(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    for path in ["", "/messages", "/turns", "/pending", "/export"] {
        all.push(client.get(&format!("/v1/sessions/s{path}")).await.json());
    }
    all
}

// INV-9
#[tokio::test]
async fn deleting_it_changes_nothing_else_and_can_be_done_again() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "say a").await;
    client.post("/v1/sessions/s/messages", &json!({ "content": "send" })).await;
    let before = counts(&client).await;
    for _ in 0..2 {
        let answer = client.delete(PATH).await;
        assert_eq!((answer.status, answer.text()), (204, String::new()));
        assert_eq!(lines(&client, PATH).await, [""; 0]);
    }
    assert_eq!(counts(&client).await, before);
    assert_eq!(client.send(Method::PUT, PATH, None).await.status, 405, "nobody writes it over the wire");
    rig.stop().await;
}

// D25
#[tokio::test]
async fn it_goes_with_its_session() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "say a").await;
    assert_eq!(client.delete("/v1/sessions/s").await.status, 204);
    assert_eq!(lines(&client, PATH).await, [""; 0]);
    rig.stop().await;
}

// spec: agent-chat-output §10
#[tokio::test]
async fn it_is_held_for_a_while_and_is_gone_with_the_process() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "say a").await;
    rig.clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(lines(&client, PATH).await, SAID);
    rig.clock.advance(Duration::from_millis(1));
    assert_eq!(lines(&client, PATH).await, [""; 0]);
    rig.stop().await;
}

async fn key(rig: &Rig, tenant: &str, scopes: &[&str]) -> Client {
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": tenant, "scopes": scopes })).await;
    rig.client().bearer(made.json()["secret"].as_str().unwrap())
}

// INV-14
#[tokio::test]
async fn another_tenant_sees_nothing_and_deletes_nothing_and_scopes_are_asked_for() {
    let rig = Rig::asking().await;
    let (reads, all) = (key(&rig, "a", &["read"]).await, key(&rig, "a", &["read", "write"]).await);
    let other = key(&rig, "b", &["read", "write"]).await;
    say(&all, "s", "say a").await;
    assert_eq!(lines(&reads, PATH).await, SAID);
    assert_eq!(other.get(PATH).await.json(), other.get("/v1/sessions/nowhere/narration").await.json());
    assert_eq!(other.delete(PATH).await.status, other.delete("/v1/sessions/nowhere/narration").await.status);
    assert_eq!(reads.delete(PATH).await.status, 403);
    assert_eq!(rig.client().get(PATH).await.status, 401);
    assert_eq!(lines(&reads, PATH).await, SAID);
    // A stream of another tenant's session hears nothing, and neither does one of a session that is not there.
    let mut silent = other.events(PATH, None).await;
    say(&all, "s", "say b").await;
    say(&other, "s", "say mine").await;
    assert_eq!(line(&within(silent.next()).await.unwrap().json()), "user status: say mine");
    rig.stop().await;
}

#[tokio::test]
async fn where_it_is_off_there_is_none_and_turns_are_as_ever() {
    let rig = Rig::builder().narration(NarrationLog::new_disabled()).start().await;
    let client = rig.client();
    say(&client, "s", "say a").await;
    assert_eq!(client.get(PATH).await.json(), json!({ "items": [], "enabled": false }));
    assert_eq!(client.delete(PATH).await.status, 204);
    assert_eq!(chat_len(&rig.chat).await, 2);
    let mut events = client.events(PATH, None).await;
    rig.stop().await;
    assert_eq!(within(events.rest()).await, []);
}

async fn chat_len(chat: &Chat) -> usize {
    chat.session("s").history(0..99).await.unwrap().len()
}

// INV-16
#[tokio::test]
async fn configured_secrets_are_taken_out() {
    let rig = Rig::start().await;
    let client = rig.client();
    client.post("/v1/sessions/s/messages", &json!({ "content": format!("say {CANARY}") })).await;
    client.post("/v1/sessions/s/messages", &json!({ "content": "canary" })).await;
    let told = client.get(PATH).await.text();
    assert!(told.contains("say [redacted]") && told.contains("the key [redacted] is wrong"), "{told}");
    assert!(!told.contains(CANARY), "{told}");
    rig.stop().await;
}
