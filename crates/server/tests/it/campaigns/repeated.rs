//! Requests that come twice: by an idempotency key, by an id, and by the state that they are about.

use serde_json::{Value, json};

use super::World;

// INV-2
#[tokio::test]
async fn a_command_with_a_key_is_given_once() {
    let world = World::start().await;
    let id = world.begin_work().await;
    world.post(&id, "/pause", json!({})).await;
    let path = format!("/v1/campaigns/{id}/commands");
    let keyed = world.api.header("idempotency-key", "k1");
    let command = json!({ "type": "free", "text": "Be polite." });
    let first = keyed.post(&path, command.clone()).await;
    assert_eq!((first.status, first.headers.get("idempotent-replayed")), (200, None));
    let again = keyed.post(&path, command.clone()).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"));
    let other = keyed.post(&path, json!({ "type": "free", "text": "Be brief." })).await;
    assert_eq!(
        (other.status, other.json()["error"]["category"].clone()),
        (409, json!("chat_idempotency_conflict"))
    );
    assert_eq!(count_commands(&world, &id).await, 1);
    // Two at the same time are one, too.
    let keyed = world.api.client.clone().with("idempotency-key", "k2");
    let (one, two) = tokio::join!(keyed.post(&path, &command), keyed.post(&path, &command));
    assert_eq!((one.status, two.status), (200, 200), "{} {}", one.text(), two.text());
    assert_eq!(count_commands(&world, &id).await, 2);
    // Without a key it is another command.
    world.command(&id, command).await;
    assert_eq!(count_commands(&world, &id).await, 3);
    for bad in ["", &"k".repeat(513)] {
        let answer = world
            .api
            .header("idempotency-key", bad)
            .post(&path, json!({ "type": "free", "text": "x" }))
            .await;
        assert_eq!(answer.status, 400, "{bad:?}");
    }
}

async fn count_commands(world: &World, id: &str) -> usize {
    let log = world.get(id, "/log?limit=500").await;
    log["items"].as_array().unwrap().iter().filter(|it| it["type"] == "command_given").count()
}

#[tokio::test]
async fn a_campaign_with_an_id_is_created_once() {
    let world = World::start().await;
    let sent = json!({ "id": "cmp_spring", "goal": "Tell Ann." });
    let created = world.api.post("/v1/campaigns", sent.clone()).await;
    assert_eq!((created.status, created.json()["id"].clone()), (201, json!("cmp_spring")));
    assert_eq!(world.refusal("/v1/campaigns", sent).await, (409, "campaign_changed".into()));
    let list = world.api.get("/v1/campaigns").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let keyed = world.api.client.clone().with("idempotency-key", "k");
    assert_eq!(
        keyed.post("/v1/campaigns", &json!({ "goal": "x" })).await.status,
        400,
        "it would have no effect"
    );
}

#[tokio::test]
async fn campaigns_are_listed_page_by_page() {
    let world = World::start().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        let sent = json!({ "id": format!("cmp_{n}"), "goal": "x", "tasks": super::story_plan() });
        ids.push(world.api.post("/v1/campaigns", sent).await.json()["id"].clone());
    }
    let (mut from, mut all) = (String::new(), Vec::<Value>::new());
    loop {
        let page = world.api.get(&format!("/v1/campaigns?limit=2&from={from}")).await.json();
        all.extend(page["items"].as_array().unwrap().iter().map(|it| it["id"].clone()));
        match page["next"].as_str() {
            Some(next) => from = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(all, ids);
}
