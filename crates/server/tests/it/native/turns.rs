//! Turns: listed, shown, cancelled.

use serde_json::json;

use super::api::Api;
use crate::support::Rig;

#[tokio::test]
async fn turns_are_listed_in_the_order_of_acceptance_and_shown_with_their_outcome() {
    let api = Api::start().await;
    let one = api.send("s", "say one").await;
    let two = api.send("s", "fail retryable").await;
    let listed = api.get("/v1/sessions/s/turns").await.json();
    let (first, second) = (&listed["items"][0], &listed["items"][1]);
    assert_eq!((&first["id"], &first["status"]), (&one["turn"], &json!("completed")));
    assert_eq!((&second["id"], &second["status"]), (&two["turn"], &json!("errored")));
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let page = api.get("/v1/sessions/s/turns?limit=1").await.json();
    assert_eq!(page["items"], json!([first]));
    let rest = api.get(&format!("/v1/sessions/s/turns?from={}", page["next"])).await.json();
    assert_eq!(rest, json!({ "items": [second] }));

    let shown = api.get(&format!("/v1/sessions/s/turns/{}", one["turn"].as_str().unwrap())).await.json();
    let mut expected = first.clone();
    expected["outcome"] = one.clone();
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_turn_is_followed_from_its_beginning_to_its_end_whenever_one_comes() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let outcome = api.send("s", "look").await;
    api.send("s", "say more").await;
    let path = format!("/v1/sessions/s/turns/{}", outcome["turn"].as_str().unwrap());
    let mut events = api.client.events(&path, None).await;
    let told: Vec<_> = events.rest().await.iter().map(|it| it.json()).collect();
    told.iter().for_each(|it| api.is_event(it));
    let kinds: Vec<_> = told.iter().map(|it| it["type"].as_str().unwrap()).collect();
    let expected =
        ["turn.accepted", "message.appended", "message.appended", "message.appended", "turn.completed"];
    assert_eq!(kinds, expected);
    assert_eq!(told[4]["outcome"], outcome);
    // A reader that lost the stream goes on after its last event.
    let seen = told[2]["id"].as_str();
    let rest: Vec<_> = api.client.events(&path, seen).await.rest().await.iter().map(|it| it.json()).collect();
    assert_eq!(rest, told[3..]);
}

// D10
#[tokio::test]
async fn a_turn_that_runs_is_cancelled_and_what_was_shown_is_kept() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let mut events =
        api.client.post_events("/v1/sessions/s/messages", &json!({ "content": "slow a b c" })).await;
    let turn = events.json().await.unwrap()["turn"].as_str().unwrap().to_owned();
    rig.pace.pass(2);
    while events.json().await.unwrap()["text"].as_str().is_none_or(|it| !it.contains("said")) {}
    let ended = api.post(&format!("/v1/sessions/s/turns/{turn}/cancel"), json!({})).await.json();
    assert_eq!((&ended["id"], &ended["status"]), (&json!(turn), &json!("errored")));
    assert_eq!(ended["outcome"]["category"], "chat_turn_cancelled");
    let history = api.get("/v1/sessions/s/messages").await.json();
    let last = &history["items"][1];
    assert_eq!((&last["id"], &last["side"]), (&json!(format!("{turn}/1")), &json!({ "interrupted": true })));
    assert!("You said: ".starts_with(last["content"].as_str().unwrap()), "{last}");
    // Of cancel and end one wins.
    let again = api.post(&format!("/v1/sessions/s/turns/{turn}/cancel"), json!({})).await.json();
    assert_eq!(again, ended);
}

#[tokio::test]
async fn cancelling_what_waits_gives_it_up() {
    let api = Api::start().await;
    let outcome = api.send("s", "send").await;
    let turn = outcome["turn"].as_str().unwrap();
    let ended = api.post(&format!("/v1/sessions/s/turns/{turn}/cancel"), json!({})).await.json();
    assert_eq!((&ended["id"], &ended["kind"]), (&json!(format!("{turn}.1")), &json!("close")));
    assert_eq!(ended["outcome"]["category"], "chat_turn_cancelled");
    assert_eq!(api.get("/v1/sessions/s/pending").await.json(), json!({ "items": [] }));
    let shown = api.get(&format!("/v1/sessions/s/turns/{turn}")).await.json();
    assert_eq!(shown["outcome"]["resumed_by"], ended["id"]);
}

#[tokio::test]
async fn a_turn_is_found_in_its_own_session_only() {
    let api = Api::start().await;
    let outcome = api.send("s", "say one").await;
    api.send("other", "say two").await;
    let turn = outcome["turn"].as_str().unwrap();
    let invented = "00000000-0000-4000-8000-00000000ffff";
    for path in [
        format!("/v1/sessions/other/turns/{turn}"),
        format!("/v1/sessions/s/turns/{turn}.1"),
        format!("/v1/sessions/s/turns/{invented}"),
        "/v1/sessions/none/turns/x".into(),
    ] {
        let answer = api.get(&path).await;
        let category = answer.json()["error"]["category"].clone();
        assert_eq!((answer.status, category), (404, json!("chat_turn_unknown")), "{path}");
        let answer = api.post(&format!("{path}/cancel"), json!({})).await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

// D29
#[tokio::test]
async fn a_turn_that_failed_is_listed_beside_the_history_and_retried_once() {
    let api = Api::start().await;
    api.send("s", "say one").await;
    let failed = api.send("s", "fail retryable").await;
    let turn = failed["turn"].as_str().unwrap().to_owned();
    let listed = api.get("/v1/sessions/s/messages").await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let told = &listed["failed"][0];
    assert_eq!((&told["turn"], &told["place"], &told["effects"]), (&json!(turn), &json!(2), &json!(false)));
    assert_eq!(told["message"], json!({ "role": "user", "content": "fail retryable" }));
    assert_eq!(told["error"]["category"], "provider_unavailable");
    let path = format!("/v1/sessions/s/turns/{turn}/retry");
    let keyed = api.header("idempotency-key", "r");
    let retry = keyed.post(&path, json!({})).await;
    assert_eq!((retry.status, &retry.json()["category"]), (200, &json!("provider_unavailable")));
    // The retry failed and is safe to retry, so its key is free again (D3): this is a second retry of the same turn.
    for again in [keyed.post(&path, json!({})).await, api.post(&path, json!({})).await] {
        let category = &again.json()["error"]["category"];
        assert_eq!((again.status, category), (409, &json!("chat_retry_superseded")));
    }
    let turns = api.get("/v1/sessions/s/turns").await.json();
    assert_eq!(
        (&turns["items"][2]["id"], &turns["items"][2]["retries"]),
        (&retry.json()["turn"], &json!(turn))
    );
    let listed = api.get("/v1/sessions/s/messages?from=2").await.json();
    assert_eq!(listed["failed"][0]["retried_by"], retry.json()["turn"]);
    assert_eq!(listed["failed"][1]["retries"], json!(turn));
}
