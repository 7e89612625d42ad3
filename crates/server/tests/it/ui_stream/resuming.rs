//! `GET /v1/ui/{id}/stream`.

use serde_json::{Value, json};

use super::{Page, messages, parts, say, user};
use crate::support::Rig;
use crate::support::rig::within;

#[tokio::test]
async fn a_page_that_comes_back_has_the_whole_message() {
    let rig = Rig::start().await;
    let client = rig.client();
    assert_eq!(client.get("/v1/ui/s/stream").await.status, 204);
    let body = json!({ "id": "s", "message": user("u1", "slow one two three") });
    let mut lost = client.post_events("/v1/ui", &body).await;
    rig.pace.pass(2);
    while within(lost.json()).await.unwrap()["type"] != "text-delta" {}
    drop(lost);
    let mut back = client.events("/v1/ui/s/stream", None).await;
    // It gets the text that was shown before, and then the new events.
    let mut told = Vec::new();
    while told.last().is_none_or(|it: &Value| it["type"] != "text-delta") {
        told.push(within(back.json()).await.unwrap());
    }
    rig.pace.run_free();
    told.extend(within(parts(back)).await);
    let page = Page::of(&told);
    assert_eq!(page.message["parts"][1]["text"], "You said: one two three");
    assert_eq!(messages(&client, "s").await, [user("u1", "slow one two three"), page.message.clone()]);
    // Nothing runs any more; who wants the last turn all the same has it.
    let nothing = client.get("/v1/ui/s/stream").await;
    assert_eq!((nothing.status, nothing.text().as_str()), (204, ""));
    let again = parts(client.events("/v1/ui/s/stream?last=true", None).await).await;
    assert_eq!(Page::of(&again).message, page.message);
}

// After an answer that came another way the page's message goes on, all of it in one.
#[tokio::test]
async fn what_an_answer_from_elsewhere_started_is_part_of_the_message() {
    let rig = Rig::start().await;
    let client = rig.client();
    let asked = say(&client, "s", "u1", "send").await;
    let wait = &asked["parts"].as_array().unwrap().last().unwrap()["data"];
    let signal = wait["signal"].as_str().unwrap().replace('/', "%2F");
    let answer = json!({ "payload": { "approved": true }, "wait": wait["number"], "action": wait["action"] });
    let answered = client.post(&format!("/v1/sessions/s/signals/{signal}"), &answer).await;
    assert_eq!(answered.json()["status"], "completed");
    let back = Page::of(&parts(client.events("/v1/ui/s/stream?last=true", None).await).await).message;
    assert_eq!((&back["id"], &messages(&client, "s").await[1]), (&asked["id"], &back));
    assert_eq!(back["parts"].as_array().unwrap().last().unwrap()["text"], "All done.");
}
