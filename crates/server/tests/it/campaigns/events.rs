//! The events of a campaign: its log, as a stream with ids.

use serde_json::{Value, json};
use singletree_test_store::TestStore;

use super::{World, story_plan};
use crate::support::rig::within;
use crate::support::{Events, Rig};

/// Reads so many events.
async fn read(events: &mut Events, count: usize) -> Vec<Value> {
    let mut all = Vec::new();
    while all.len() < count {
        let event = within(events.next()).await.expect("the stream goes on");
        let data = event.json();
        assert_eq!(event.id.as_deref(), Some(&*data["seq"].to_string()));
        all.push(data);
    }
    all
}

// D9; design: events as SSE with ids
#[tokio::test]
async fn a_stream_of_a_campaign_is_its_log_and_goes_on_after_the_last_id() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let log = world.get(&id, "/log?limit=500").await["items"].as_array().unwrap().clone();
    let path = format!("/v1/campaigns/{id}/events");
    let whole = read(&mut world.api.client.events(&path, None).await, log.len()).await;
    assert_eq!(whole, log);
    whole.iter().for_each(|it| world.api.is_item(it, "CampaignStreamItem"));
    let mut tail = world.api.client.events(&path, Some("3")).await;
    assert_eq!(read(&mut tail, log.len() - 3).await, log[3..]);
    let by_query = world.api.client.events(&format!("{path}?after=2"), Some(&log.len().to_string())).await;
    let mut by_query = by_query;
    // The next thing that happens comes to those who are there.
    world.post(&id, "/pause", json!({})).await;
    for events in [&mut tail, &mut by_query] {
        let next = read(events, 1).await;
        assert_eq!((&next[0]["type"], &next[0]["seq"]), (&json!("paused"), &json!(log.len() + 1)));
    }
    for (after, expected) in [("99999", (404, "chat_event_unknown")), ("x", (400, "server_request_invalid"))]
    {
        let answer = world.api.get(&format!("{path}?after={after}")).await;
        assert_eq!((answer.status, answer.json()["error"]["category"].as_str().unwrap()), expected);
    }
}

#[tokio::test]
async fn a_stream_goes_on_after_a_restart_without_a_gap() {
    let store = TestStore::new();
    let rig = Rig::builder().campaigns(story_plan()).start_on(store.clone()).await;
    let api = crate::native::api::Api::of(&rig).await;
    let world = World { rig, api };
    let id = world.begin_work().await;
    let path = format!("/v1/campaigns/{id}/events");
    let seen = read(&mut world.api.client.events(&path, None).await, 4).await;
    let log = world.get(&id, "/log?limit=500").await["items"].as_array().unwrap().clone();
    let next = Rig::builder().campaigns(story_plan()).after(&world.rig);
    world.rig.stop().await;
    let rig = next.start_on(store).await;
    let api = crate::native::api::Api::of(&rig).await;
    let world = World { rig, api };
    let last = seen[3]["seq"].to_string();
    let rest = read(&mut world.api.client.events(&path, Some(&last)).await, log.len() - 4).await;
    assert_eq!(rest, log[4..]);
    // The board is right, and the campaign goes on.
    let campaign = world.approve_report(&id).await;
    assert_eq!(campaign["call"]["tool"], "send");
}

#[tokio::test]
async fn the_log_is_read_page_by_page() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let whole = world.get(&id, "/log?limit=500").await["items"].as_array().unwrap().clone();
    let (mut after, mut all) = (0, Vec::new());
    loop {
        let page = world.get(&id, &format!("/log?after={after}&limit=2")).await;
        let items = page["items"].as_array().unwrap().clone();
        assert!(items.len() <= 2);
        all.extend(items);
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(all, whole);
}
