//! Artifacts: added, listed, approved by whom that was, and refused.

use serde_json::json;

use super::api::Api;
use crate::support::Rig;

/// The SHA-256 of `one`.
const ONE: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";

// spec: agent-chat-output §8.2
#[tokio::test]
async fn an_artifact_is_added_listed_and_approved_once_as_it_was_read() {
    let api = Api::start().await;
    let session = json!({ "id": "s", "prompt_policy": "command" });
    assert_eq!(api.post("/v1/sessions", session).await.status, 201);
    let path = "/v1/sessions/s/artifacts";
    assert_eq!(api.get(path).await.json(), json!({ "items": [] }));
    let added = api.post(path, json!({ "kind": "plan", "key": "a", "content": "one" })).await;
    let plan = json!({ "kind": "plan", "key": "a", "version": 1, "source": "user", "content": "one", "digest": ONE });
    assert_eq!((added.status, added.json()), (201, plan.clone()));
    let sent = json!({ "kind": "plan", "key": "a", "source": "agent", "content": "two" });
    let second = api.post(path, sent).await.json();
    assert_eq!((&second["version"], &second["source"]), (&json!(2), &json!("agent")));
    assert_eq!(api.get(path).await.json(), json!({ "items": [plan, second] }));

    let approve = async |version: u64, digest: &str| {
        let sent = json!({ "kind": "plan", "key": "a", "version": version, "digest": digest });
        api.post("/v1/sessions/s/artifacts/approve", sent).await
    };
    let other = approve(2, ONE).await;
    assert_eq!((other.status, &other.json()["error"]["category"]), (409, &json!("artifact_refused")));
    let none = approve(3, ONE).await;
    assert_eq!((none.status, &none.json()["error"]["category"]), (404, &json!("artifact_refused")));
    let mut approved = plan;
    approved["approved_by"] = json!("local");
    approved["approved_at"] = json!("2026-01-01T00:00:00.000Z");
    for _ in 0..2 {
        let answer = approve(1, ONE).await;
        assert_eq!((answer.status, answer.json()), (200, approved.clone()));
    }
    assert_eq!(api.get(path).await.json(), json!({ "items": [approved, second] }));
    let audit = api.get("/v1/audit").await.json();
    let deeds: Vec<_> =
        audit["items"].as_array().unwrap().iter().filter(|it| it["action"] == "artifact.approved").collect();
    assert_eq!(deeds.len(), 1, "{audit}");
    assert_eq!((&deeds[0]["who"], &deeds[0]["subject"]), (&json!("local"), &json!("plan/a/1")), "{audit}");
}

#[tokio::test]
async fn what_is_no_artifact_or_of_no_session_is_refused() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    assert_eq!(api.post("/v1/sessions", json!({ "id": "s" })).await.status, 201);
    let check = async |session: &str, body: serde_json::Value, expected: (u16, &str)| {
        let answer = api.post(&format!("/v1/sessions/{session}/artifacts"), body).await;
        assert_eq!((answer.status, answer.json()["error"]["category"].as_str().unwrap()), expected);
    };
    let of = |kind: &str, content: &str| json!({ "kind": kind, "key": "a", "content": content });
    check("s", of("a/b", "x"), (400, "artifact_refused")).await;
    check("s", of("", "x"), (400, "artifact_refused")).await;
    check("s", of("plan", &"x".repeat((64 << 10) + 1)), (400, "artifact_refused")).await;
    check("s", json!({ "kind": "plan", "content": "x" }), (400, "server_request_invalid")).await;
    check("t", of("plan", "x"), (404, "chat_session_unknown")).await;
    assert_eq!(api.get("/v1/sessions/t/artifacts").await.status, 404);
    // They go with their session.
    assert_eq!(api.post("/v1/sessions/s/artifacts", of("plan", "x")).await.status, 201);
    assert_eq!(api.delete("/v1/sessions/s").await.status, 204);
    assert_eq!(api.post("/v1/sessions", json!({ "id": "s" })).await.status, 201);
    assert_eq!(api.get("/v1/sessions/s/artifacts").await.json(), json!({ "items": [] }));
}
