//! Pending waits, and answering them (D2).

use serde_json::{Value, json};

use super::api::Api;
use crate::support::Rig;
use crate::support::rig::within;

/// Sends a message whose call needs approval, and returns the pending wait.
async fn asked(api: &Api, session: &str) -> Value {
    let outcome = api.send(session, "send").await;
    assert_eq!(outcome["status"], "suspended", "{outcome:#}");
    outcome["wait"].clone()
}

fn answer_to(wait: &Value, approved: bool) -> Value {
    json!({ "payload": { "approved": approved }, "wait": wait["number"], "action": wait["action"] })
}

fn place(wait: &Value) -> String {
    format!("/v1/sessions/{}/signals/{}", wait["session"].as_str().unwrap(), wait["signal"].as_str().unwrap())
}

#[tokio::test]
async fn what_waits_is_listed_and_approved_once() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let wait = asked(&api, "s").await;
    assert_eq!(wait["metadata"]["tool"], "send");
    let mut listed = wait.clone();
    listed["since"] = json!("2026-01-01T00:00:00.000Z");
    assert_eq!(api.get("/v1/sessions/s/pending").await.json(), json!({ "items": [listed] }));
    asked(&api, "t").await;
    let all = api.get("/v1/pending").await.json();
    let sessions: Vec<_> = all["items"].as_array().unwrap().iter().map(|it| it["session"].clone()).collect();
    assert_eq!((&all["items"][0], sessions), (&listed, vec![json!("s"), json!("t")]));
    assert_eq!(api.get("/v1/pending?limit=1").await.json(), json!({ "items": [listed] }));

    assert_eq!(rig.world.done(), Vec::<String>::new());
    let first = api.post(&place(&wait), answer_to(&wait, true)).await;
    assert_eq!((first.status, first.json()["replies"][1]["content"].clone()), (200, json!("All done.")));
    let again = api.post(&place(&wait), answer_to(&wait, true)).await.json();
    assert_eq!(again, first.json());
    assert_eq!(rig.world.done(), ["send a"]);
    let other = api.post(&place(&wait), answer_to(&wait, false)).await;
    assert_eq!(
        (other.status, other.json()["error"]["category"].clone()),
        (409, json!("chat_signal_conflict"))
    );
    assert_eq!(api.get("/v1/sessions/s/pending").await.json(), json!({ "items": [] }));
}

#[tokio::test]
async fn who_answered_is_the_caller_and_the_log_says_so() {
    let api = Api::start().await;
    let wait = asked(&api, "s").await;
    let mut answer = answer_to(&wait, false);
    answer["from"] = json!("somebody else");
    let refused = api.post(&place(&wait), answer).await;
    assert_eq!((refused.status, refused.json()["error"]["field"].clone()), (400, json!("from")));
    let outcome = api.post(&place(&wait), answer_to(&wait, false)).await.json();
    assert_eq!(outcome["replies"].as_array().unwrap().last().unwrap()["content"], "Not done.");
    let mut events = api.follow("s", None).await;
    let received = loop {
        let event = within(events.json()).await.unwrap();
        api.is_event(&event);
        if event["type"] == "signal.received" {
            break event;
        }
    };
    let told = (&received["signal"], &received["wait"], &received["how"], &received["from"]);
    assert_eq!(told, (&wait["signal"], &wait["number"], &json!("consumed"), &json!("local")));
}

#[tokio::test]
async fn an_approval_names_its_wait_and_its_action_or_consumes_nothing() {
    let rig = Rig::start().await;
    let api = Api::of(&rig).await;
    let wait = asked(&api, "s").await;
    let (number, action) = (wait["number"].clone(), wait["action"].clone());
    let payload = json!({ "approved": true });
    let cases = [
        (json!({ "payload": payload }), 409, "chat_signal_mismatch"),
        (json!({ "payload": payload, "wait": number }), 400, "server_request_invalid"),
        (json!({ "payload": payload, "action": action }), 400, "server_request_invalid"),
        (json!({ "payload": payload, "wait": number, "action": "00" }), 409, "chat_signal_mismatch"),
        (json!({ "payload": payload, "wait": 99, "action": action }), 409, "chat_signal_mismatch"),
        (
            json!({ "payload": { "approved": "yes" }, "wait": number, "action": action }),
            400,
            "suspension_resume_payload_invalid",
        ),
        (
            json!({ "payload": { "messages": [] }, "wait": number, "action": action }),
            400,
            "suspension_resume_payload_invalid",
        ),
        (json!({ "payload": true }), 400, "server_request_invalid"),
    ];
    for (body, status, category) in cases {
        let answer = api.post(&place(&wait), body.clone()).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["category"].clone()),
            (status, json!(category)),
            "{body}"
        );
    }
    // Saying yes in the conversation is another message, and answers nothing.
    let said = api.send("s", "yes").await;
    assert_eq!(said["category"], "chat_session_suspended");
    assert_eq!(rig.world.done(), Vec::<String>::new());
    assert_eq!(api.get("/v1/sessions/s/pending").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_signal_that_nothing_waits_for_is_unknown() {
    let api = Api::start().await;
    asked(&api, "s").await;
    for path in ["/v1/sessions/s/signals/none", "/v1/sessions/none/signals/none"] {
        let answer = api.post(path, json!({ "payload": {} })).await;
        let category = answer.json()["error"]["category"].clone();
        assert_eq!((answer.status, category), (404, json!("harness_signal_correlation_failed")), "{path}");
    }
}

#[tokio::test]
async fn the_turn_that_goes_on_is_told_as_events_or_later() {
    let api = Api::start().await;
    let wait = asked(&api, "s").await;
    let mut events = api.client.post_events(&place(&wait), &answer_to(&wait, true)).await;
    let told: Vec<_> = within(events.rest()).await.iter().map(|it| it.json()).collect();
    told.iter().for_each(|it| api.is_event(it));
    assert_eq!(told.first().unwrap()["type"], "signal.received");
    assert_eq!(told.last().unwrap()["type"], "turn.completed");
    let later = api.header("prefer", "respond-async").post(&place(&wait), answer_to(&wait, true)).await;
    assert_eq!((later.status, later.json()["kind"].clone()), (202, json!("resume")));
}
