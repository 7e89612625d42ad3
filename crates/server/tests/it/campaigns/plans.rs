//! Plans over HTTP: edited, rejected, approved by exactly what was read, and raced about.

use serde_json::json;

use super::{World, story_plan};

#[tokio::test]
async fn an_edit_makes_another_version_and_voids_the_approval() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let edit = json!({ "version": 1, "tasks": story_plan() });
    let put = async |body: serde_json::Value| world.api.put(&format!("/v1/campaigns/{id}/plan"), body).await;
    let edited = put(edit.clone()).await;
    assert_eq!(edited.status, 200, "{}", edited.text());
    assert_eq!((&edited.json()["version"], edited.json().get("approved_by")), (&json!(2), None));
    let campaign = world.get(&id, "").await;
    assert_eq!(campaign["waits_for"]["type"], "plan");
    assert_eq!(campaign["plan"].get("approved_by"), None);
    // The version that was edited is not the newest any more.
    let late = put(edit).await;
    assert_eq!((late.status, late.json()["error"]["category"].clone()), (409, json!("campaign_changed")));
    // An approval of what was read before approves nothing.
    let old = json!({ "version": 1, "digest": edited.json()["digest"] });
    let path = format!("/v1/campaigns/{id}/plan/approve");
    assert_eq!(world.refusal(&path, old).await, (409, "campaign_changed".into()));
    let other = json!({ "version": 2, "digest": "ab".repeat(32) });
    assert_eq!(world.refusal(&path, other).await, (409, "campaign_changed".into()));
    let right = json!({ "version": 2, "digest": edited.json()["digest"] });
    let approved = world.post(&id, "/plan/approve", right.clone()).await;
    assert_eq!(approved["plan"]["approved_by"], "local");
    assert_eq!(world.refusal(&path, right).await, (409, "campaign_changed".into()), "once");
}

#[tokio::test]
async fn a_rejected_plan_is_proposed_anew() {
    let world = World::start().await;
    let id = world.begin().await;
    let rejection = json!({ "version": 1, "reason": "shorter" });
    let rejected = world.post(&id, "/plan/reject", rejection).await;
    assert!(rejected["command"].as_str().unwrap().contains("shorter"), "{rejected}");
    let log = world.get(&id, "/log").await;
    let entry =
        log["items"].as_array().unwrap().iter().find(|it| it["type"] == "plan_rejected").unwrap().clone();
    assert_eq!(
        (&entry["version"], &entry["reason"], &entry["by"]),
        (&json!(1), &json!("shorter"), &json!("local"))
    );
}

// acceptance 9
#[tokio::test]
async fn plans_that_prove_nothing_are_refused_by_category() {
    let world = World::start().await;
    let check = async |proof: serde_json::Value, expected: (u16, &str)| {
        let tasks = json!([{ "id": "a", "description": "x", "proof": proof }]);
        let refused = world.refusal("/v1/campaigns", json!({ "goal": "x", "tasks": tasks })).await;
        assert_eq!(refused, (expected.0, expected.1.to_owned()), "{tasks}");
    };
    check(json!([]), (400, "campaign_plan_invalid")).await;
    check(json!([{ "type": "tool_succeeded", "tool": "look" }]), (400, "campaign_proof_invalid")).await;
    let unlisted = json!([{ "type": "mcp_read", "server": "crm", "tool": "read", "expect": {} }]);
    check(unlisted, (400, "campaign_proof_invalid")).await;
    let answers = json!([{ "type": "artifact_approved", "kind": "answer", "key": "q1" }]);
    check(answers, (400, "campaign_proof_invalid")).await;
    check(json!([{ "type": "said" }]), (400, "server_request_invalid")).await;
    assert_eq!(world.api.get("/v1/campaigns").await.json()["items"], json!([]), "nothing was created");
}

// acceptance 4
#[tokio::test]
async fn of_an_approval_and_an_edit_that_race_exactly_one_is_about_the_version() {
    let world = World::start().await;
    for _ in 0..8 {
        let id = world.begin().await;
        let digest = world.get(&id, "/plan").await["digest"].clone();
        let approve = world.api.client.clone();
        let (approve_path, edit_path) =
            (format!("/v1/campaigns/{id}/plan/approve"), format!("/v1/campaigns/{id}/plan"));
        let approval = json!({ "version": 1, "digest": digest });
        let edit = json!({ "version": 1, "tasks": story_plan() });
        let (approved, edited) = tokio::join!(
            approve.post(&approve_path, &approval),
            world.api.client.send(hyper::Method::PUT, &edit_path, Some(&edit)),
        );
        // The edit can follow the approval; then it voids it. The approval cannot follow the edit.
        assert_eq!(edited.status, 200, "{}", edited.text());
        assert!(matches!(approved.status, 200 | 409), "{}", approved.text());
        let campaign = world.get(&id, "").await;
        assert_eq!((&campaign["plan"]["version"], campaign["plan"].get("approved_by")), (&json!(2), None));
    }
}
