//! `GET /v1/ui/{id}/messages`: messages without an answer yet and failed turns; and Stop.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Page, messages, parts, post, say, user};
use crate::support::rig::within;
use crate::support::{Rig, agents};

// W3
#[tokio::test]
async fn a_page_that_is_loaded_again_in_mid_turn_has_the_question_and_then_the_answer() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "u1", "say one").await;
    let body = json!({ "id": "s", "message": user("u2", "wait and look") });
    let mut lost = client.post_events("/v1/ui", &body).await;
    rig.pace.pass(2);
    while within(lost.json()).await.unwrap()["type"] != "text-delta" {}
    drop(lost);
    let page = messages(&client, "s").await;
    assert_eq!(page.len(), 3, "{page:?}");
    assert_eq!((&page[2]["id"], &page[2]["parts"]), (&json!("u2"), &user("u2", "wait and look")["parts"]));
    let turn = rig.chat.session("s").open_turns().await.unwrap()[0].id.to_string();
    assert_eq!(page[2]["metadata"], json!({ "sessionId": "s", "turnId": turn, "status": "open" }));
    // The stream tells all of the answer, so the list leaves out its committed part.
    let back = client.events("/v1/ui/s/stream", None).await;
    rig.pace.run_free();
    let answer = Page::of(&within(parts(back)).await).message;
    let page = messages(&client, "s").await;
    assert_eq!((&page[2], &page[3]), (&user("u2", "wait and look"), &answer));
    rig.stop().await;
}

// D29
#[tokio::test]
async fn a_turn_that_failed_is_in_the_list_with_what_it_showed_and_why() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "u1", "say one").await;
    let told = post(&client, &json!({ "id": "s", "message": user("u2", "fail halfway") })).await;
    let error = told.iter().find(|part| part["type"] == "data-error").unwrap()["data"].clone();
    let failed = messages(&client, "s").await;
    assert_eq!((failed.len(), &failed[2]["parts"]), (4, &user("u2", "fail halfway")["parts"]));
    assert_eq!(
        (&failed[2]["metadata"]["status"], &failed[3]["metadata"]["status"]),
        (&json!("failed"), &json!("failed"))
    );
    let part = failed[3]["parts"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&part["type"], &part["data"]["category"]), (&json!("data-error"), &error["category"]));
    assert!(part["data"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    // Sent again under its id, it is one message.
    post(&client, &json!({ "id": "s", "message": user("u2", "say two"), "messageId": "u2" })).await;
    let page = messages(&client, "s").await;
    let said: Vec<&Value> =
        page.iter().filter(|message| message["role"] == "user").map(|it| &it["id"]).collect();
    assert_eq!(said, ["u1", "u2"]);
    assert_eq!(page[2], user("u2", "say two"));
    // A failed turn keeps its place when more messages follow.
    post(&client, &json!({ "id": "s", "message": user("u3", "fail correctable") })).await;
    say(&client, "s", "u4", "say four").await;
    let page = messages(&client, "s").await;
    let ids: Vec<&str> =
        page.iter().filter_map(|it| it["id"].as_str().filter(|id| id.starts_with('u'))).collect();
    assert_eq!(ids, ["u1", "u2", "u3", "u4"]);
    rig.stop().await;
}

// D29
#[tokio::test]
async fn a_message_that_fails_during_a_wait_does_not_split_the_answer_around_it() {
    let rig = Rig::start().await;
    let client = rig.client();
    let asked = say(&client, "s", "u1", "send").await;
    post(&client, &json!({ "id": "s", "message": user("u2", "say later") })).await;
    let waiting = |part: &&Value| part["type"] == "data-suspended";
    let wait = asked["parts"].as_array().unwrap().iter().rfind(waiting).unwrap()["data"].clone();
    let answer = json!({
        "signal": wait["signal"], "wait": wait["number"], "action": wait["action"],
        "payload": { "approved": true },
    });
    let body = json!({ "id": "s", "messages": [asked], "messageId": asked["id"], "answer": answer });
    let answered = Page::going_on(&asked, &post(&client, &body).await).message;
    let page = messages(&client, "s").await;
    assert_eq!(page[1], answered);
    let ids = page.iter().filter(|message| message["id"] == asked["id"]);
    assert_eq!(ids.count(), 1, "{page:?}");
    rig.stop().await;
}

// W4
#[tokio::test]
async fn stop_cancels_the_turn_that_runs_and_keeps_what_was_shown() {
    let rig = Rig::start().await;
    let client = rig.client();
    assert_eq!(client.delete("/v1/ui/s/stream").await.status, 204, "there is no such chat");
    let body = json!({ "id": "s", "message": user("u1", "slow one two three") });
    let mut running = client.post_events("/v1/ui", &body).await;
    rig.pace.pass(2);
    while within(running.json()).await.unwrap()["type"] != "text-delta" {}
    drop(running);
    assert_eq!(within(client.delete("/v1/ui/s/stream")).await.status, 204);
    assert!(rig.chat.session("s").open_turns().await.unwrap().is_empty());
    let page = messages(&client, "s").await;
    let shown = page[1]["parts"].as_array().unwrap().iter().find_map(|part| part["text"].as_str()).unwrap();
    assert!("You said: one two three".starts_with(shown.trim_end()) && !shown.is_empty(), "{page:?}");
    // A turn that waits for a person does not run.
    say(&client, "t", "u1", "send").await;
    assert_eq!(client.delete("/v1/ui/t/stream").await.status, 204);
    assert_eq!(rig.chat.session("t").pending().await.unwrap().len(), 1);
    rig.stop().await;
}

// W11
#[tokio::test]
async fn a_picture_in_the_message_itself_is_kept_for_the_session() {
    let rig = Rig::start().await;
    let client = rig.client();
    let picture = STANDARD.encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR one");
    let message = json!({ "id": "u1", "role": "user", "parts": [
        { "type": "text", "text": "say hello" },
        { "type": "file", "mediaType": "image/png", "url": format!("data:image/png;base64,{picture}") },
    ] });
    let told = post(&client, &json!({ "id": "s", "message": message })).await;
    assert_eq!(told.last().unwrap()["finishReason"], "stop");
    let kept = messages(&client, "s").await[0]["parts"][1].clone();
    assert_eq!((&kept["type"], &kept["mediaType"]), (&json!("file"), &json!("image/png")));
    let digest = kept["url"].as_str().unwrap().strip_prefix("blob:").unwrap().to_owned();
    assert_eq!(client.get(&format!("/v1/sessions/s/blobs/{digest}")).await.status, 200);
    rig.stop().await;
}

// W12
#[tokio::test]
async fn an_answer_that_was_cut_says_so() {
    let rig = Rig::start().await;
    let told = post(&rig.client(), &json!({ "id": "s", "message": user("u1", "cut") })).await;
    assert_eq!(told.last().unwrap(), &json!({ "type": "finish", "finishReason": "length" }));
    rig.stop().await;
}

/// Starts a server with an agent that shows the thinking of its model.
async fn thinking_aloud() -> Rig {
    let listed = |server: singletree_server::ServerBuilder| server.listed_agents(agents::listed_thinking());
    Rig::builder().also(|_| agents::thinker()).server(listed).start().await
}

// W10, D19
#[tokio::test]
async fn what_a_model_thinks_is_shown_before_what_it_says_where_its_agent_shows_it() {
    let rig = thinking_aloud().await;
    let client = rig.client();
    let body = json!({ "id": "s", "message": user("u1", "think"), "agent": agents::THINKER });
    let told = post(&client, &body).await;
    let expected = [
        "start",
        "start-step",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ];
    assert_eq!(super::types(&told), expected);
    let page = Page::of(&told).message;
    assert_eq!(page["parts"][1]["text"], "Nobody may see this.");
    assert_eq!(messages(&client, "s").await[1], page);
    let again = parts(client.events("/v1/ui/s/stream?last=true", None).await).await;
    assert_eq!(Page::of(&again).message, page);
    // An agent that does not show thinking: none in the stream.
    let told = post(&client, &json!({ "id": "t", "message": user("u1", "think") })).await;
    assert!(!json!(told).to_string().contains("Nobody may see this."));
    rig.stop().await;
}

// W10
#[tokio::test]
async fn what_a_model_thinks_is_reasoning_for_front_ends_and_no_part_of_the_transcript() {
    let rig = thinking_aloud().await;
    let mut front = crate::agui::Front::new(rig.client(), "t");
    front.path = format!("/v1/agui/{}", agents::THINKER);
    let ran = front.send("u1", "think").await;
    let thought: String = ran
        .events
        .iter()
        .filter(|event| event["type"] == "REASONING_MESSAGE_CONTENT")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(thought, "Nobody may see this.");
    let at = |kind: &str| ran.types().iter().position(|it| *it == kind).unwrap();
    assert!(at("REASONING_END") < at("TEXT_MESSAGE_START"));
    assert_eq!((ran.end(), front.messages.len()), ("success", 2));
    rig.stop().await;
}
