//! Requests beyond the body: idempotency keys, `Prefer`, `Accept`, encodings; and the status for each cause.

use hyper::Method;
use serde_json::{Value, json};

use super::api::Api;
use crate::support::Rig;
use crate::support::rig::within;

const MESSAGES: &str = "/v1/sessions/s/messages";

// W12
#[tokio::test]
async fn a_key_that_would_have_no_effect_is_refused_with_what_to_do_instead() {
    let api = Api::start().await;
    api.send("s", "say one").await;
    let keyed = api.header("idempotency-key", "k");
    for (path, body) in [
        ("/v1/sessions", json!({})),
        ("/v1/sessions/s/fork", json!({})),
        ("/v1/sessions/s/edit", json!({ "message": 0, "content": "say two" })),
        ("/v1/sessions/s/regenerate", json!({})),
        ("/v1/sessions/s/artifacts", json!({ "kind": "plan", "key": "a", "content": "x" })),
    ] {
        let refused = keyed.post(path, body).await;
        assert_eq!(refused.status, 400, "{path}");
        assert!(refused.json()["error"]["hint"].is_string(), "{path}: {}", refused.text());
    }
    assert_eq!(api.get("/v1/sessions").await.json()["items"].as_array().unwrap().len(), 1);
}

// W12
#[tokio::test]
async fn an_answer_that_an_earlier_request_brought_about_says_so() {
    let api = Api::start().await;
    let keyed = api.header("idempotency-key", "k");
    let hello = json!({ "content": "say hello" });
    let marked = async || {
        let answer = keyed.post(MESSAGES, hello.clone()).await;
        answer.headers.get("idempotent-replayed").map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(marked().await, None);
    assert_eq!(marked().await.as_deref(), Some("true"));
    let events = keyed.client.post_events(MESSAGES, &hello).await;
    assert_eq!(events.headers["idempotent-replayed"], "true");
}

// W12, RFC 7240
#[tokio::test]
async fn who_asks_for_a_turn_may_wait_for_its_end() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let hurried = api.header("prefer", "respond-async");
    let turn = hurried.post(MESSAGES, json!({ "content": "slow one" })).await;
    let place = turn.header("location").to_owned();
    let soon = api.header("prefer", "wait=0").get(&place).await;
    assert_eq!((soon.header("preference-applied"), &soon.json()["status"]), ("wait=0", &json!("accepted")));
    let waiting = tokio::spawn({
        let (api, place) = (api.clone(), place.clone());
        async move { api.header("prefer", "wait=20").get(&place).await }
    });
    rig.pace.run_free();
    let ended = within(waiting).await.unwrap();
    assert_eq!(ended.header("preference-applied"), "wait=20");
    let told = ended.json();
    assert_eq!((&told["status"], &told["outcome"]["status"]), (&json!("completed"), &json!("completed")));
}

// W12, RFC 9110
#[tokio::test]
async fn the_form_of_an_answer_goes_by_weights_and_caches_are_told_so() {
    let api = Api::start().await;
    let ask = async |accept: &str| {
        let client = api.client.clone().with("accept", accept);
        client.post(MESSAGES, &json!({ "content": "say a" })).await
    };
    let whole = ask("application/json, text/event-stream;q=0.5").await;
    assert_eq!(whole.header("content-type"), "application/json");
    let events = ask("application/json;q=0.5, text/event-stream").await;
    assert_eq!(events.header("content-type"), "text/event-stream");
    for answer in [&whole, &events] {
        let vary: Vec<_> =
            answer.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect();
        assert!(vary.concat().contains("accept, prefer"), "{vary:?}");
    }
    assert!(
        api.get("/v1/sessions")
            .await
            .headers
            .get("vary")
            .is_none_or(|value| !value.to_str().unwrap().contains("prefer"))
    );
}

// W12
#[tokio::test]
async fn a_body_that_is_compressed_is_unsupported_and_not_wrong() {
    let rig = Rig::start().await;
    let ask = async |encoding: &str| {
        let client = rig.client().with("content-type", "application/json").with("content-encoding", encoding);
        client.send_bytes(Method::POST, MESSAGES, r#"{"content": "say a"}"#.into()).await
    };
    let refused = ask("gzip").await;
    let error = refused.json()["error"].clone();
    assert_eq!((refused.status, &error["category"]), (415, &json!("server_media_type_unsupported")));
    assert!(error["hint"].as_str().unwrap().contains("Content-Encoding"));
    assert_eq!(ask("identity").await.status, 200);
}

// W8, D32
#[tokio::test]
async fn a_refusal_says_what_is_wrong_to_developers_and_what_to_show_to_users() {
    let api = Api::start().await;
    let long = "x".repeat(600);
    for (path, body) in [
        (format!("/v1/sessions/{long}/messages"), json!({ "content": "say a" })),
        (format!("/v1/sessions/{long}/edit"), json!({ "message": 0, "content": "say a" })),
        (format!("/v1/sessions/{long}/regenerate"), json!({})),
    ] {
        let refused = api.post(&path, body).await;
        let error = refused.json()["error"].clone();
        assert_eq!((refused.status, &error["category"]), (400, &json!("harness_session_id_unresolved")));
        assert!(error["message"].as_str().unwrap().contains("session id"), "{error}");
        assert!(error["reply"].is_string(), "{error}");
    }
    for (path, category) in [
        ("/v1/sessions/nowhere", "chat_session_unknown"),
        ("/v1/sessions/nowhere/turns", "chat_session_unknown"),
    ] {
        let error = api.get(path).await.json()["error"].clone();
        assert_eq!((&error["category"], &error["bucket"]), (&json!(category), &json!("user_correctable")));
    }
    let unknown = api.post(MESSAGES, json!({ "content": "say a", "agent": "nobody" })).await;
    let error = unknown.json()["error"].clone();
    assert_eq!((unknown.status, &error["category"]), (404, &json!("chat_agent_unknown")));
    assert_eq!(error["bucket"], "user_correctable");
    assert!(error["message"].as_str().unwrap().contains("nobody"), "{error}");
}

/// A PNG of one pixel.
const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

// W11
#[tokio::test]
async fn an_image_may_stand_in_the_message_and_is_kept_with_the_session() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let content = |url: &str| {
        json!({ "content": [{ "type": "text", "text": "say a" },
            { "type": "image", "source": { "type": "url", "url": url } }] })
    };
    api.post(MESSAGES, content(PIXEL)).await;
    let history = api.get(MESSAGES).await.json();
    let image: Value = history["items"][0]["content"][1].clone();
    let url = image["source"]["url"].as_str().unwrap();
    assert_eq!(image["media_type"], "image/png");
    let digest = url.strip_prefix("blob:").unwrap();
    let kept = api.client.get(&format!("/v1/sessions/s/blobs/{digest}")).await;
    assert_eq!((kept.status, kept.header("content-type")), (200, "image/png"));
    // The same through Steerable, and in an edited message.
    let parts = json!({ "message": { "role": "user", "parts": [{ "type": "text", "text": "say a" },
        { "type": "image", "url": PIXEL }] } });
    let mut sent = api.client.post_events("/v1/chats/c/send", &parts).await;
    assert_eq!(sent.status, 200);
    within(sent.rest()).await;
    let listed = api.client.get("/v1/chats/c/messages").await.json();
    assert_eq!(listed["messages"][0]["parts"][1]["url"], url);
    let mut edit = content(PIXEL);
    edit["message"] = json!(0);
    edit["id"] = json!("f");
    assert_eq!(api.post("/v1/sessions/s/edit", edit).await.status, 200);
    assert_eq!(
        api.get("/v1/sessions/f/messages").await.json()["items"][0]["content"][1]["source"]["url"],
        url
    );
    for wrong in
        ["data:text/plain;base64,AA==", "data:image/png,x", "data:image/png;base64,!", "http://x/a.png"]
    {
        let refused = api.post(MESSAGES, content(wrong)).await;
        assert_eq!(refused.status, 400, "{wrong}");
    }
    rig.stop().await;
}
