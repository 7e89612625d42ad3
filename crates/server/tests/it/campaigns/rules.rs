//! Rules of chat output (wire-notes §3.1) as the surfaces of campaigns keep them.

use serde_json::{Value, json};
use singletree_test_store::TestStore;

use super::{World, story_plan};
use crate::native::api::Api;
use crate::support::Rig;

/// Returns the narrated texts of a campaign.
async fn narrated(world: &World, id: &str) -> Vec<String> {
    let list = world.api.get(&format!("/v1/sessions/campaign:{id}/narration")).await.json();
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|it| format!("{} {}", it["kind"].as_str().unwrap(), it["content"].as_str().unwrap()))
        .collect()
}

// spec: agent-chat-output §9; wire-notes §3.1, rule 9: a typed reply is a new command and never answers an approval
#[tokio::test]
async fn a_typed_yes_approves_nothing() {
    let world = World::start().await;
    let id = world.begin_work().await;
    world.approve_report(&id).await;
    for text in ["yes", "approved", "APPROVED: true", "{\"approved\": true}"] {
        world.command(&id, json!({ "type": "free", "text": text })).await;
        let campaign = world.get(&id, "").await;
        assert_ne!(campaign["call_stage"], "granted", "{text}: {campaign}");
    }
    world.post(&id, "/pause", json!({})).await;
    let log = world.get(&id, "/log?limit=500").await;
    let kinds: Vec<&str> =
        log["items"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert!(!kinds.contains(&"action_decided") && !kinds.contains(&"action_began"), "{kinds:?}");
    assert_eq!(world.rig.world.done(), [""; 0]);
}

// spec: agent-chat-output §9, §3.1; wire-notes §3.1, rules 3.1 and 9: asks, rejections, pauses and cancels are told
#[tokio::test]
async fn asks_rejections_pauses_and_cancels_are_narrated() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let campaign = world.approve_report(&id).await;
    let asks = narrated(&world, &id).await;
    assert!(
        asks.iter().any(|it| it.starts_with("ask ") && it.contains("send") && it.contains("report")),
        "{asks:?}"
    );
    let decision = json!({ "type": "decide", "digest": campaign["call"]["digest"], "approved": false });
    world.command(&id, decision).await;
    world.post(&id, "/pause", json!({})).await;
    world.post(&id, "/cancel", json!({})).await;
    let all = narrated(&world, &id).await;
    for word in ["reject", "paused", "cancel"] {
        assert!(all.iter().any(|it| it.to_lowercase().contains(word)), "{word}: {all:?}");
    }
}

// spec: agent-chat-output §10; wire-notes §3.1, rule 10: after a restart narration may be empty, and the state is right
#[tokio::test]
async fn after_a_restart_the_narration_is_empty_and_the_campaign_is_what_it_was() {
    let store = TestStore::new();
    let rig = Rig::builder().campaigns(story_plan()).start_on(store.clone()).await;
    let api = Api::of(&rig).await;
    let world = World { rig, api };
    let id = world.begin_work().await;
    let records = async |world: &World| {
        let mut all: Vec<Value> = Vec::new();
        for rest in ["", "/plan", "/tasks", "/artifacts", "/log?limit=500"] {
            all.push(world.get(&id, rest).await);
        }
        all
    };
    let before = records(&world).await;
    assert!(!narrated(&world, &id).await.is_empty());
    let next = Rig::builder().campaigns(story_plan()).after(&world.rig);
    world.rig.stop().await;
    let rig = next.start_on(store).await;
    let api = Api::of(&rig).await;
    let world = World { rig, api };
    assert_eq!(narrated(&world, &id).await, [""; 0], "it is not rebuilt");
    assert_eq!(records(&world).await, before);
}
