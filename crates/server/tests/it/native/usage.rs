//! The usage of models, over the wire.

use serde_json::{Value, json};

use super::api::Api;
use crate::support::Rig;

fn sum(models: &Value, key: &str) -> u64 {
    models.as_array().unwrap().iter().map(|it| it[key].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn a_session_counts_its_own_and_the_tenant_all() {
    let api = Api::start().await;
    for (session, text) in [("s", "say hello"), ("s", "look"), ("t", "say hello")] {
        api.send(session, text).await;
    }
    let usage = async |path: &str| {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    };
    let (s, t) = (usage("/v1/sessions/s/usage").await, usage("/v1/sessions/t/usage").await);
    // The model was asked twice for the turn with a tool.
    assert_eq!((&s["total"]["calls"], &t["total"]["calls"]), (&json!(3), &json!(1)));
    assert_eq!(s["models"][0]["model"], "scripted-model");
    for key in ["calls", "prompt_tokens", "completion_tokens"] {
        assert!(t["total"][key].as_u64().unwrap() > 0, "{t}");
        assert_eq!(s["total"][key], sum(&s["models"], key), "{s}");
    }
    let all = usage("/v1/usage").await;
    let both = |key: &str| s["total"][key].as_u64().unwrap() + t["total"][key].as_u64().unwrap();
    for key in ["calls", "prompt_tokens", "completion_tokens", "cached_tokens", "cache_creation_tokens"] {
        assert_eq!(all["total"][key], both(key), "{key}");
    }
    // The usage stays when the session is deleted.
    assert_eq!(api.delete("/v1/sessions/s").await.status, 204);
    assert_eq!(usage("/v1/usage").await, all);
    let gone = api.get("/v1/sessions/s/usage").await;
    assert_eq!((gone.status, &gone.json()["error"]["category"]), (404, &json!("chat_session_unknown")));
}

#[tokio::test]
async fn a_session_in_which_nothing_was_said_has_used_nothing_and_a_tenant_is_for_its_admin() {
    let rig = Rig::asking().await;
    let key = async |scopes: &[&str]| {
        let made = rig.operator().post("/v1/keys", &json!({ "tenant": "a", "scopes": scopes })).await;
        rig.client().bearer(made.json()["secret"].as_str().unwrap())
    };
    let (reader, admin) = (key(&["read", "write"]).await, key(&["admin"]).await);
    reader.post("/v1/sessions", &json!({ "id": "s" })).await;
    let nothing = json!({ "models": [], "total": { "calls": 0, "prompt_tokens": 0, "completion_tokens": 0,
        "cached_tokens": 0, "cache_creation_tokens": 0 } });
    assert_eq!(reader.get("/v1/sessions/s/usage").await.json(), nothing);
    assert_eq!(admin.get("/v1/usage").await.json(), nothing);
    assert_eq!(reader.get("/v1/usage").await.status, 403);
    assert_eq!(admin.get("/v1/sessions/s/usage").await.status, 403);
    rig.stop().await;
}
