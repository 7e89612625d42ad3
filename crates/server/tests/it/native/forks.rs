//! Forks, edits, other replies (D12).

use serde_json::{Value, json};

use super::api::Api;

async fn told(api: &Api, session: &str) -> Vec<Value> {
    let history = api.get(&format!("/v1/sessions/{session}/messages")).await.json();
    history["items"].as_array().unwrap().iter().map(|it| it["content"].clone()).collect()
}

async fn two_turns() -> Api {
    let api = Api::start().await;
    api.send("s", "say one").await;
    api.send("s", "say two").await;
    api
}

#[tokio::test]
async fn a_fork_has_the_same_beginning_under_the_same_ids() {
    let api = two_turns().await;
    let made = api.post("/v1/sessions/s/fork", json!({ "at": 2, "id": "f" })).await;
    assert_eq!((made.status, made.header("location")), (201, "/v1/sessions/f"));
    assert_eq!(made.json()["parent"], json!({ "session": "s", "offset": 2 }));
    let source = api.get("/v1/sessions/s/messages").await.json();
    let fork = api.get("/v1/sessions/f/messages").await.json();
    assert_eq!(fork["items"].as_array().unwrap()[..], source["items"].as_array().unwrap()[..2]);
    api.send("f", "say three").await;
    assert_eq!(told(&api, "s").await.len(), 4);
    assert_eq!(told(&api, "f").await[2..], [json!("say three"), json!("You said: three")]);

    let whole = api.post("/v1/sessions/s/fork", json!({})).await.json();
    assert_eq!((&whole["messages"], &whole["parent"]["offset"]), (&json!(4), &json!(4)));
    let again = api.post("/v1/sessions/s/fork", json!({ "id": "f" })).await;
    assert_eq!(
        (again.status, again.json()["error"]["category"].clone()),
        (409, json!("chat_session_exists"))
    );
    let past = api.post("/v1/sessions/s/fork", json!({ "at": 99 })).await;
    assert_eq!((past.status, past.json()["error"]["category"].clone()), (404, json!("chat_message_unknown")));
    let unknown = api.post("/v1/sessions/none/fork", json!({})).await;
    assert_eq!(
        (unknown.status, unknown.json()["error"]["category"].clone()),
        (404, json!("chat_session_unknown"))
    );
}

#[tokio::test]
async fn a_message_is_said_otherwise_by_its_place_or_its_id() {
    let api = two_turns().await;
    let history = api.get("/v1/sessions/s/messages").await.json();
    let edit = |at: &Value, id: &str| json!({ "message": at, "content": "say other", "id": id });
    for (at, id) in [(json!(2), "by-place"), (history["items"][2]["id"].clone(), "by-id")] {
        let answer = api.post("/v1/sessions/s/edit", edit(&at, id)).await.json();
        assert_eq!(
            (&answer["session"], &answer["replies"][0]["content"]),
            (&json!(id), &json!("You said: other"))
        );
        let expected = ["say one", "You said: one", "say other", "You said: other"];
        assert_eq!(told(&api, id).await, expected);
    }
    // A reply is nobody's to say otherwise; and there is no such message, or none that could be meant.
    for at in [json!(1), json!(99), json!("x"), json!("x/1"), history["items"][1]["id"].clone()] {
        let answer = api.post("/v1/sessions/s/edit", edit(&at, "never")).await;
        assert_eq!(
            (answer.status, answer.json()["error"]["category"].clone()),
            (404, json!("chat_message_unknown")),
            "{at}"
        );
    }
    assert_eq!(api.get("/v1/sessions/never").await.status, 404);
}

#[tokio::test]
async fn another_reply_is_asked_for_in_a_fork() {
    let api = two_turns().await;
    let answer = api.post("/v1/sessions/s/regenerate", json!({ "reply": 1, "id": "first" })).await.json();
    assert_eq!((&answer["session"], &answer["status"]), (&json!("first"), &json!("completed")));
    assert_eq!(told(&api, "first").await, ["say one", "You said: one"]);
    let mut events = api.client.post_events("/v1/sessions/s/regenerate", &json!({ "id": "last" })).await;
    let events = events.rest().await;
    assert_eq!(events.last().unwrap().json()["session"], "last");
    assert_eq!(told(&api, "last").await.len(), 4);
    assert_eq!(told(&api, "s").await.len(), 4);
}
