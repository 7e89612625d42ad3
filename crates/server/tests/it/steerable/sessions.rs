//! `GET|POST /v1/agent-sessions` (spec: steerable runtime, AgentSession).

use std::time::Duration;

use serde_json::{Value, json};
use singletree_harness::CreateOptions;

use super::{schemas, send};
use crate::support::Rig;

#[tokio::test]
async fn a_session_is_made_once_and_says_how_far_it_is() {
    let rig = Rig::start().await;
    let client = rig.client();
    let wanted = json!({ "chatId": "s", "userId": "ann", "scenario": "agent-entry", "projectId": null, "stageData": { "a": 1 } });
    let made = client.post("/v1/agent-sessions", &wanted).await;
    let expected = json!({
        "sessionId": "s", "userId": "default", "chatId": "s", "currentStage": "idle", "scenario": "scripted",
        "isActive": true, "createdAt": "2026-01-01T00:00:00.000Z", "updatedAt": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!((made.status, made.json()), (201, expected.clone()));
    schemas::check("runtime/AgentSession", &made.json());
    let again = client.post("/v1/agent-sessions", &wanted).await;
    assert_eq!((again.status, again.json()), (200, expected));
    let brief = client.post("/v1/agent-sessions", &json!({ "scenario": "brief" })).await.json();
    assert_eq!(brief["scenario"], "brief");
    let nobody = client.post("/v1/agent-sessions", &json!({ "scenario": "nobody" })).await;
    assert_eq!((nobody.status, &nobody.json()["error"]["category"]), (404, &json!("chat_agent_unknown")));

    let stage = async || {
        let shown = client.get("/v1/agent-sessions/s").await.json();
        schemas::check("runtime/AgentSession", &shown);
        (shown["currentStage"].as_str().unwrap().to_owned(), shown["isActive"] == true)
    };
    let mut running = client.post_events("/v1/chats/s/send", &json!({ "content": "slow one" })).await;
    running.json().await.unwrap();
    assert_eq!(stage().await, ("running".to_owned(), true));
    rig.pace.run_free();
    running.rest().await;
    assert_eq!(stage().await, ("idle".to_owned(), true));
    let told = send(&client, "s", "send").await;
    let signal = told[told.len() - 2]["payload"]["signal"].as_str().unwrap();
    assert_eq!(stage().await, (format!("suspended:{signal}"), true));
    let turn = told[0]["payload"]["turnId"].as_str().unwrap().parse().unwrap();
    rig.chat.cancel(&turn).await.unwrap().outcome().await;
    send(&client, "s", "fail terminating").await;
    assert_eq!(stage().await, ("terminated".to_owned(), false));
    assert_eq!(client.get("/v1/agent-sessions/none").await.status, 404);
}

#[tokio::test]
async fn sessions_are_listed_with_those_first_that_changed_last() {
    let rig = Rig::start().await;
    for chat in ["a", "b", "c"] {
        rig.clock.advance(Duration::from_secs(1));
        send(&rig.client(), chat, "say hi").await;
    }
    rig.clock.advance(Duration::from_secs(1));
    send(&rig.client(), "a", "say ho").await;
    rig.clock.advance(Duration::from_secs(1));
    send(&rig.client(), "d", "fail terminating").await;
    let check = async |query: &str, expected: &[&str]| {
        let listed = rig.client().get(&format!("/v1/agent-sessions{query}")).await.json();
        listed.as_array().unwrap().iter().for_each(|it| schemas::check("runtime/AgentSession", it));
        let ids: Vec<&Value> = listed.as_array().unwrap().iter().map(|it| &it["sessionId"]).collect();
        assert_eq!(
            ids,
            expected.iter().map(|it| json!(it)).collect::<Vec<_>>().iter().collect::<Vec<_>>(),
            "{query}"
        );
    };
    check("", &["d", "a", "c", "b"]).await;
    check("?activeOnly=true&userId=ann", &["a", "c", "b"]).await;
    check("?limit=2", &["d", "a"]).await;
    check("?chatId=b", &["b"]).await;
    check("?chatId=none", &[]).await;
    assert_eq!(rig.client().get("/v1/agent-sessions?limit=0").await.status, 400);
}

// F16
#[tokio::test]
async fn the_latest_session_is_listed_first_among_very_many() {
    let rig = Rig::start().await;
    for n in 0..1_050 {
        let options = CreateOptions::new().session(format!("s{n:04}"));
        rig.chat.create_session(options).await.unwrap();
    }
    rig.clock.advance(Duration::from_secs(1));
    send(&rig.client(), "zz", "say hi").await;
    let listed = rig.client().get("/v1/agent-sessions?limit=2").await.json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["sessionId"]), (2, &json!("zz")));
}
