//! A whole campaign: a plan, an approval, an artifact, an action, a confirmation, and proofs.

use serde_json::{Value, json};

use super::World;

// spec: agent-chat-output §4.1, §5.2; wire-notes §3.1: machine output is validated, and done is what has its proofs
#[tokio::test]
async fn a_campaign_goes_from_a_goal_to_its_end_over_http() {
    let world = World::start().await;
    let id = world.begin().await;
    let campaign = world.get(&id, "").await;
    assert_eq!(campaign["status"], "initializing");
    assert_eq!(campaign["session"], format!("campaign:{id}"));
    assert_eq!(campaign["tasks"], json!({ "pending": 2, "in_progress": 0, "done": 0, "blocked": 0 }));
    let plan = world.get(&id, "/plan").await;
    assert_eq!((&plan["version"], plan.get("approved_by")), (&json!(1), None));
    assert_eq!(plan["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(plan["tasks"][1]["proof"], super::story_plan()[1]["proof"]);

    let approval = json!({ "version": 1, "digest": plan["digest"] });
    let approved = world.post(&id, "/plan/approve", approval).await;
    assert_eq!((&approved["status"], &approved["plan"]["approved_by"]), (&json!("active"), &json!("local")));
    world.until(&id, |it| it["pause"]["type"] == "nothing_to_propose").await;
    let tasks = world.get(&id, "/tasks").await;
    assert_eq!(tasks["items"][0]["status"], "in_progress");
    assert_eq!(tasks["items"][0]["proof"][0]["found"], false);

    let campaign = world.approve_report(&id).await;
    assert_eq!(campaign["task_in_hand"], "send");
    let call = &campaign["call"];
    assert_eq!((&call["tool"], &call["args"]), (&json!("send"), &json!({ "what": "report" })));
    assert_eq!(campaign["call_stage"], "asked");
    assert_eq!(world.rig.world.done(), [""; 0], "nothing happens without approval");
    let decision = json!({ "type": "decide", "digest": call["digest"], "approved": true });
    world.command(&id, decision).await;
    world.until(&id, |it| it["pause"]["type"] == "nothing_to_propose").await;
    assert_eq!(world.rig.world.done(), ["send report"]);
    let proofs = world.get(&id, "/tasks?from=1").await["items"][0]["proof"].clone();
    assert_eq!((&proofs[0]["found"], &proofs[1]["found"]), (&json!(true), &json!(false)));
    assert!(proofs[0]["entry"].is_u64(), "{proofs}");

    let confirm = json!({ "type": "confirm", "task": "send", "question": "Did it arrive?" });
    world.command(&id, confirm).await;
    let campaign = world.until(&id, |it| it["status"] == "completed").await;
    assert_eq!(campaign["tasks"]["done"], 2);
    assert_eq!(world.rig.world.done(), ["send report"], "once");

    // The log has it all, in order, and so has the page of the list.
    let log = world.get(&id, "/log?limit=500").await;
    let kinds: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    for kind in [
        "created",
        "plan_changed",
        "plan_approved",
        "artifact_proposed",
        "artifact_approved",
        "action_proposed",
        "action_decided",
        "action_began",
        "action_done",
        "confirmed",
        "task_completed",
        "completed",
    ] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let numbers: Vec<u64> =
        log["items"].as_array().unwrap().iter().map(|it| it["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let list = world.api.get("/v1/campaigns").await.json();
    assert_eq!(
        (list["items"][0]["id"].as_str(), &list["items"][0]["status"]),
        (Some(&*id), &json!("completed"))
    );
    assert_over(&world, &id).await;
}

/// A campaign that is over takes no commands.
async fn assert_over(world: &World, id: &str) {
    for (path, body) in [
        ("/pause", json!({})),
        ("/resume", json!({})),
        ("/cancel", json!({})),
        ("/commands", json!({ "type": "free", "text": "more" })),
    ] {
        let refused = world.refusal(&format!("/v1/campaigns/{id}{path}"), body).await;
        assert_eq!(refused, (409, "campaign_status_unfit".into()), "{path}");
    }
}

// wire-notes §3.1, 7.1 and 12: deleting narration leaves every authoritative observable identical.
#[tokio::test]
async fn narration_of_a_campaign_is_cleared_and_nothing_else_changes() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let session = format!("/v1/sessions/campaign:{id}/narration");
    let narrated = world.api.get(&session).await.json();
    let texts: Vec<&str> =
        narrated["items"].as_array().unwrap().iter().map(|it| it["content"].as_str().unwrap()).collect();
    assert!(!texts.is_empty(), "a campaign is narrated");
    let whole = async |world: &World| {
        let mut whole = Vec::new();
        for rest in ["", "/plan", "/tasks", "/artifacts", "/log?limit=500", "/schedules"] {
            whole.push(world.get(&id, rest).await);
        }
        whole.push(world.api.get("/v1/audit").await.json());
        whole
    };
    let before: Vec<Value> = whole(&world).await;
    assert_eq!(world.api.delete(&session).await.status, 204);
    assert_eq!(world.api.get(&session).await.json()["items"], json!([]));
    assert_eq!(whole(&world).await, before);
    // And it goes on as before.
    let campaign = world.approve_report(&id).await;
    assert_eq!(campaign["call"]["args"], json!({ "what": "report" }));
}

#[tokio::test]
async fn pause_and_resume_act_at_once_and_an_approval_given_meanwhile_is_kept() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let campaign = world.approve_report(&id).await;
    let paused = world.post(&id, "/pause", json!({})).await;
    assert_eq!(
        (&paused["status"], &paused["pause"]),
        (&json!("paused"), &json!({ "type": "person", "by": "local" }))
    );
    assert_eq!(paused["waits_for"]["type"], "action", "an open approval stays");
    let again = world.refusal(&format!("/v1/campaigns/{id}/pause"), json!({})).await;
    assert_eq!(again, (409, "campaign_status_unfit".into()));
    let decision = json!({ "type": "decide", "digest": campaign["call"]["digest"], "approved": true });
    let decided = world.command(&id, decision).await;
    assert_eq!((&decided["status"], &decided["call_stage"]), (&json!("paused"), &json!("granted")));
    assert_eq!(world.rig.world.done(), [""; 0], "nothing runs until it is resumed");
    assert_eq!(world.post(&id, "/resume", json!({})).await["status"], "active");
    world.until(&id, |it| it["pause"]["type"] == "nothing_to_propose").await;
    assert_eq!(world.rig.world.done(), ["send report"]);
    let cancelled = world.post(&id, "/cancel", json!({})).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_over(&world, &id).await;
}
