//! Configured secrets, and the keys of callers, are in no output: answers, streams, narration, lines, metrics (INV-16).

use serde_json::{Value, json};
use singletree_server::AccessPolicy;

use crate::operating::logged;
use crate::support::agents::CANARY;
use crate::support::rig::within;

/// The paths whose answers are searched.
const PATHS: [&str; 13] = [
    "/v1/sessions",
    "/v1/sessions/s",
    "/v1/sessions/s/turns",
    "/v1/sessions/s/narration",
    "/v1/sessions/s/export",
    "/v1/pending",
    "/v1/keys",
    "/v1/audit",
    "/v1/agents",
    "/openapi.json",
    "/docs",
    "/readyz",
    "/version",
];

#[tokio::test]
async fn no_output_holds_a_secret() {
    let (rig, lines) = logged();
    let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
    let rig = rig.server(move |it| it.access_policy(policy)).start().await;
    let scopes = json!(["read", "write", "approve", "admin"]);
    let made = rig.operator().post("/v1/keys", &json!({ "tenant": "acme", "scopes": scopes })).await.json();
    let key = made["secret"].as_str().unwrap().to_owned();
    let client = rig.client().bearer(&key);
    let mut outputs = Vec::new();

    // A model whose error contains the key of its request: as JSON, as a stream, and in every stored and shown form.
    let failed = client.post("/v1/sessions/s/messages", &json!({ "content": "canary" })).await;
    let error = failed.json();
    outputs.push(("an errored turn", failed.text()));
    let mut streamed = client.post_events("/v1/sessions/s/messages", &json!({ "content": "canary" })).await;
    within(streamed.rest()).await;
    outputs.push(("a streamed turn", streamed.raw.clone()));
    let mut events = client.events("/v1/sessions/s/events", None).await;
    let ended = |it: &Value| it["type"] == "turn.errored";
    let mut ends = 0;
    while ends < 2 {
        ends += usize::from(ended(&within(events.json()).await.unwrap()));
    }
    outputs.push(("the events", events.raw.clone()));
    drop(events);
    for path in PATHS {
        let answer = client.get(path).await;
        assert!(answer.status < 500, "{path}: {}", answer.text());
        outputs.push((path, answer.text()));
    }
    let turn = error["turn"].as_str().unwrap();
    outputs.push(("the turn", client.get(&format!("/v1/sessions/s/turns/{turn}")).await.text()));

    // Wrong input is not echoed: a key in the wrong place is still a key.
    for path in
        [format!("/v1/{CANARY}"), format!("/v1/sessions/{CANARY}"), format!("/v1/sessions?{CANARY}=1")]
    {
        outputs.push(("a wrong path", client.get(&path).await.text()));
    }
    let wrong = client.post("/v1/sessions/s/messages", &json!({ "content": CANARY, CANARY: CANARY })).await;
    outputs.push(("a wrong body", wrong.text()));
    outputs.push(("a wrong key", rig.client().bearer(&format!("{key}x")).get("/v1/sessions").await.text()));
    let basic = rig.client().with("authorization", &format!("Basic {CANARY}"));
    outputs.push(("another scheme", basic.get("/v1/sessions").await.text()));

    outputs.push(("the lines", lines.all().concat()));
    assert!(lines.all().len() > 20, "every request has one");
    for (name, text) in &outputs {
        assert!(!text.contains(CANARY), "{name}: {text}");
        assert!(!text.contains(&key), "{name}: {text}");
    }
    assert!(
        outputs.iter().any(|(_, text)| text.contains("[redacted]")),
        "it would have been told: {outputs:?}"
    );
    rig.stop().await;
}
