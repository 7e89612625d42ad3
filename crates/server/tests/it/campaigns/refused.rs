//! Requests about campaigns that are refused: each with its status and its category.

use serde_json::{Value, json};

use super::World;
use crate::support::Rig;

#[tokio::test]
async fn what_is_no_campaign_is_refused() {
    let world = World::start().await;
    let check = async |body: Value, expected: (u16, &str)| {
        let refused = world.refusal("/v1/campaigns", body.clone()).await;
        assert_eq!(refused, (expected.0, expected.1.to_owned()), "{body}");
    };
    check(json!({}), (400, "campaign_record_invalid")).await;
    check(json!({ "goal": " " }), (400, "campaign_record_invalid")).await;
    check(json!({ "goal": "x".repeat(4097) }), (400, "campaign_record_invalid")).await;
    check(json!({ "goal": "x", "name": "n".repeat(201) }), (400, "campaign_record_invalid")).await;
    check(json!({ "goal": "x", "id": "mine" }), (400, "campaign_record_invalid")).await;
    check(json!({ "goal": "x", "agent": "nobody" }), (404, "campaign_agent_unknown")).await;
    check(json!({ "template": "none" }), (404, "campaign_template_unknown")).await;
    check(json!({ "goal": "x", "aim": 1 }), (400, "server_request_invalid")).await;
    check(json!({ "goal": "x", "budget": { "cycles": -1 } }), (400, "server_request_invalid")).await;
    assert_eq!(world.api.get("/v1/campaigns?limit=0").await.status, 400);
    assert_eq!(world.api.get("/v1/campaigns").await.json(), json!({ "items": [] }));
}

#[tokio::test]
async fn a_campaign_that_is_not_there_is_404_by_every_route() {
    let world = World::start().await;
    let missing = "/v1/campaigns/cmp_none";
    for rest in ["", "/plan", "/tasks", "/artifacts", "/artifacts/a/b/1", "/schedules", "/log", "/events"] {
        let answer = world.api.get(&format!("{missing}{rest}")).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["category"].clone()),
            (404, json!("campaign_unknown")),
            "{rest}"
        );
    }
    for (rest, body) in [
        ("/pause", json!({})),
        ("/plan/approve", json!({ "version": 1, "digest": "x" })),
        ("/plan/reject", json!({ "version": 1 })),
        ("/commands", json!({ "type": "free", "text": "x" })),
        ("/commands", json!({ "type": "answer", "question": "x", "answer": 1 })),
        ("/artifacts/approve", json!({ "kind": "a", "key": "b", "version": 1, "digest": "ab".repeat(32) })),
        ("/schedules", json!({ "expression": "0 8 * * *", "command": "x" })),
    ] {
        let refused = world.refusal(&format!("{missing}{rest}"), body).await;
        assert_eq!(refused, (404, "campaign_unknown".into()), "{rest}");
    }
    assert_eq!(world.api.delete(missing).await.status, 404);
}

#[tokio::test]
async fn commands_about_a_state_that_is_not_there_change_nothing() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let log = world.get(&id, "/log").await;
    let check = async |body: Value, expected: (u16, &str)| {
        let refused = world.refusal(&format!("/v1/campaigns/{id}/commands"), body.clone()).await;
        assert_eq!(refused, (expected.0, expected.1.to_owned()), "{body}");
    };
    check(json!({ "type": "decide", "digest": "x", "approved": true }), (409, "campaign_changed")).await;
    check(json!({ "type": "answer", "question": "x", "answer": 1 }), (409, "campaign_changed")).await;
    check(json!({ "type": "unblock", "task": "report" }), (409, "campaign_changed")).await;
    check(json!({ "type": "retry", "task": "none" }), (404, "campaign_task_unknown")).await;
    check(json!({ "type": "confirm", "task": "send", "question": "Why?" }), (409, "campaign_changed")).await;
    check(json!({ "type": "free", "text": " " }), (400, "campaign_record_invalid")).await;
    check(json!({ "type": "free", "text": "x".repeat((16 << 10) + 1) }), (400, "campaign_record_invalid"))
        .await;
    check(json!({ "type": "done" }), (400, "server_request_invalid")).await;
    assert_eq!(world.get(&id, "/log").await, log);
}

#[tokio::test]
async fn a_server_without_campaigns_says_so() {
    let rig = Rig::start().await;
    let answer = rig.client().get("/v1/campaigns").await;
    assert_eq!(
        (answer.status, answer.json()["error"]["category"].clone()),
        (404, json!("server_route_unknown"))
    );
}

#[tokio::test]
async fn a_template_gives_what_is_not_said() {
    let world = World::start().await;
    let templates = world.api.get("/v1/campaign-templates").await.json();
    assert_eq!(templates["items"][0]["name"], "letters");
    assert_eq!(templates["agents"], json!(["campaigner"]));
    let created =
        world.api.post("/v1/campaigns", json!({ "template": "letters", "name": "March" })).await.json();
    assert_eq!((&created["name"], &created["goal"]), (&json!("March"), &json!("Send the letters.")));
    assert_eq!(created["budget"], json!({ "cycles": 100 }));
    assert_eq!((&created["plan"]["version"], &created["waits_for"]["type"]), (&json!(1), &json!("plan")));
}

#[tokio::test]
async fn a_deleted_campaign_is_gone_with_its_session_and_its_log() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let mut events = world.api.client.events(&format!("/v1/campaigns/{id}/events"), None).await;
    assert_eq!(world.api.delete(&format!("/v1/campaigns/{id}")).await.status, 204);
    let rest = crate::support::rig::within(events.rest()).await;
    let last = rest.last().unwrap();
    assert_eq!(
        (last.id.clone(), last.json()["error"]["category"].clone()),
        (None, json!("campaign_unknown"))
    );
    world.api.is_item(&last.json(), "CampaignStreamItem");
    assert_eq!(world.api.get(&format!("/v1/campaigns/{id}")).await.status, 404);
    assert_eq!(world.api.get(&format!("/v1/sessions/campaign:{id}")).await.status, 404);
    assert_eq!(world.api.get("/v1/campaigns").await.json(), json!({ "items": [] }));
    let audit = world.api.get("/v1/audit").await.json();
    assert!(audit.to_string().contains(&id), "the audit keeps its id: {audit}");
}
