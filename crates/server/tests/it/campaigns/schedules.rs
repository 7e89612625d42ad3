//! Schedules over HTTP: added, listed, fired, removed.

use std::time::Duration;

use serde_json::json;

use super::World;

#[tokio::test]
async fn a_schedule_wakes_its_campaign_at_its_time() {
    let world = World::start().await;
    let id = world.begin_work().await;
    let path = format!("/v1/campaigns/{id}/schedules");
    let sent = json!({ "expression": "0 8 * * *", "zone": "Europe/Berlin", "command": "Look for news." });
    let added = world.api.post(&path, sent).await;
    assert_eq!(added.status, 201, "{}", added.text());
    let schedule = added.json();
    // 2026-01-01T00:00Z is 01:00 in Berlin.
    assert_eq!(
        (&schedule["next_at"], &schedule["missed"]),
        (&json!("2026-01-01T07:00:00.000Z"), &json!("once"))
    );
    assert_eq!(world.get(&id, "/schedules").await, json!({ "items": [schedule] }));
    for (body, category) in [
        (json!({ "expression": "nonsense", "command": "x" }), "campaign_schedule_invalid"),
        (
            json!({ "expression": "0 8 * * *", "zone": "Mars/Olympus", "command": "x" }),
            "campaign_schedule_invalid",
        ),
        (json!({ "expression": "0 8 * * *", "command": " " }), "campaign_schedule_invalid"),
    ] {
        assert_eq!(world.refusal(&path, body.clone()).await, (400, category.into()), "{body}");
    }
    let gone = format!("{path}/{}", schedule["id"].as_str().unwrap());
    assert_eq!(world.api.delete(&gone).await.status, 204);
    let again = world.api.delete(&gone).await;
    assert_eq!(
        (again.status, again.json()["error"]["category"].clone()),
        (404, json!("campaign_schedule_unknown"))
    );
    world.rig.clock.advance(Duration::from_hours(24));
    assert_eq!(world.get(&id, "/schedules").await, json!({ "items": [] }));
}
