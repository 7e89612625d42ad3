//! The session of a campaign is a record of it: it is marked, and no protocol changes it.

use serde_json::{Value, json};

use super::World;
use crate::support::Client;

#[tokio::test]
async fn the_session_of_a_campaign_is_marked_and_nothing_can_be_sent_there() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let session = format!("campaign:{id}");
    let listed = world.api.get("/v1/sessions").await.json();
    let found = listed["items"].as_array().unwrap().iter().find(|it| it["id"] == *session).unwrap();
    assert_eq!((&found["campaign"], &found["prompt_policy"]), (&json!(id), &json!("command")));
    let agents = world.api.get("/v1/agents").await.json();
    let names: Vec<_> = agents["items"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!(names, ["campaigner", "scripted", "brief"], "the agent of cycles is not listed");
    let before = world.get(&id, "/log?limit=500").await;
    let client = &world.api.client;
    let base = format!("/v1/sessions/{session}");
    let says = json!({ "content": "say hello" });
    for (path, body) in [
        (format!("{base}/messages"), says.clone()),
        (format!("{base}/steer"), says),
        (format!("{base}/fork"), json!({})),
        (format!("{base}/edit"), json!({ "message": "x/0", "content": "y" })),
        (format!("{base}/regenerate"), json!({})),
        (format!("{base}/artifacts"), json!({ "kind": "report", "key": "spring", "content": "x" })),
        (
            format!("{base}/artifacts/approve"),
            json!({ "kind": "report", "key": "spring", "version": 1, "digest": "ab".repeat(32) }),
        ),
        ("/v1/sessions".to_owned(), json!({ "id": "campaign:cmp_new" })),
        (format!("/v1/chats/{session}/send"), json!({ "content": "say hello" })),
        (
            "/v1/agui".to_owned(),
            json!({ "threadId": session, "runId": "r", "messages": [{ "id": "u", "role": "user", "content": "say hello" }] }),
        ),
        (
            "/v1/chat/completions".to_owned(),
            json!({ "model": "scripted", "metadata": { "session_id": session }, "messages": [{ "role": "user", "content": "say hello" }] }),
        ),
    ] {
        assert_refused(client, &path, &body).await;
    }
    let shell = json!({ "protocol_version": "1.0.0", "request": { "context": { "session_id": session, "user_intent": "say hello" } } });
    let answer = client.post("/v1/openharness", &shell).await;
    assert_eq!(
        answer.json()["response"]["error"]["details"]["error_category"],
        "chat_session_reserved",
        "{}",
        answer.text()
    );
    let deleted = client.delete(&base).await;
    assert_eq!(
        (deleted.status, deleted.json()["error"]["category"].clone()),
        (409, json!("chat_session_reserved"))
    );
    assert_eq!(world.get(&id, "/log?limit=500").await, before);
    assert_eq!(client.get(&format!("{base}/messages")).await.status, 200, "it can be read");
}

async fn assert_refused(client: &Client, path: &str, body: &Value) {
    let answer = client.post(path, body).await;
    let told = answer.text();
    assert!(told.contains("chat_session_reserved"), "{path}: {} {told}", answer.status);
    assert!(!told.contains("You said"), "{path}: {told}");
}
