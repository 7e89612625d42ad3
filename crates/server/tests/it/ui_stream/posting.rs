//! `POST /v1/ui` and `GET /v1/ui/{id}/messages`.

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_harness::SendOptions;
use singletree_llm::{ChatMessage, Timer};

use super::{Page, messages, parts, post, say, types, user};
use crate::support::Rig;
use crate::support::agents::{CANARY, RECOVERING, recovering_from};
use crate::support::rig::within;

#[tokio::test]
async fn a_turn_with_tools_is_one_message_of_the_page() {
    let rig = Rig::start().await;
    let client = rig.client();
    let told = post(&client, &json!({ "sessionId": "s", "message": user("u1", "both") })).await;
    let expected = [
        "start",
        "start-step",
        "tool-input-available",
        "tool-output-available",
        "finish-step",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ];
    assert_eq!(types(&told), expected);
    let turn = told[0]["messageId"].clone();
    let start = json!({
        "type": "start", "messageId": turn, "messageMetadata": { "sessionId": "s", "turnId": turn },
    });
    assert_eq!(
        (&told[0], told.last().unwrap()),
        (&start, &json!({ "type": "finish", "finishReason": "stop" }))
    );
    let page = Page::of(&told);
    assert_eq!(messages(&client, "s").await, [user("u1", "both"), page.message.clone()]);
    let look = &page.message["parts"][1];
    assert_eq!(
        (&look["toolName"], &look["input"], &look["output"]),
        (&json!("look"), &json!({ "what": "a" }), &json!("did a"))
    );
    // A model's thoughts are not on the wire (D19).
    let thought = say(&client, "s", "u2", "think").await;
    assert!(!thought.to_string().contains("Nobody may see this."));
    assert_eq!(messages(&client, "s").await[3], thought);
}

// D16: of the messages that a page posts along only the newest one of the user is taken.
#[tokio::test]
async fn a_page_that_posts_all_it_has_says_one_thing() {
    let rig = Rig::start().await;
    let client = rig.client();
    let whole = |newest: Value, before: Value| {
        json!({ "id": "s", "messages": [before, { "id": "a", "role": "assistant", "parts": [
            { "type": "step-start" }, { "type": "text", "text": "I never said that.", "state": "done" },
            { "type": "dynamic-tool", "toolName": "act", "toolCallId": "c", "state": "output-available", "input": {}, "output": 1 },
        ] }, newest], "trigger": "submit-message" })
    };
    post(&client, &whole(user("u2", "say hi"), user("u1", "I never said this either."))).await;
    let texts: Vec<_> = rig.chat.session("s").history(0..10).await.unwrap();
    let texts: Vec<_> = texts.iter().map(|it| it.message.text().into_owned()).collect();
    assert_eq!(texts, ["say hi", "You said: hi"]);
    // The same message again is the same turn, whatever else the page says.
    let (first, again) = (messages(&client, "s").await, whole(user("u2", "say hi"), user("u0", "tampered")));
    let again = Page::of(&post(&client, &again).await);
    assert_eq!(again.message, first[1]);
    assert_eq!(messages(&client, "s").await, first);
    let other = client.post("/v1/ui", &whole(user("u2", "say ho"), user("u1", "x"))).await;
    assert_eq!(other.status, 409);
}

#[tokio::test]
async fn what_is_no_message_of_a_user_is_refused() {
    let rig = Rig::start().await;
    let check = async |body: Value, field: Value| {
        let answer = rig.client().post("/v1/ui", &body).await;
        let error = &answer.json()["error"];
        assert_eq!(
            (answer.status, &error["category"], &error["field"]),
            (400, &json!("server_request_invalid"), &field),
            "{body}"
        );
    };
    check(json!({ "message": user("u", "hi") }), json!("id")).await;
    check(json!({ "id": "s" }), json!("messages")).await;
    check(
        json!({ "id": "s", "messages": [{ "id": "a", "role": "assistant", "parts": [] }] }),
        json!("messages"),
    )
    .await;
    check(
        json!({ "id": "s", "message": { "role": "system", "parts": [{ "type": "text", "text": "x" }] } }),
        json!("messages"),
    )
    .await;
    check(json!({ "id": "s", "message": user("u", "") }), json!("message.parts")).await;
    let part = |part: Value| json!({ "id": "s", "message": { "role": "user", "parts": [part] } });
    check(part(json!({ "type": "data-x", "data": 1 })), json!("message.parts")).await;
    check(
        part(json!({ "type": "file", "mediaType": "text/plain", "url": "https://x/y" })),
        json!("message.parts[0]"),
    )
    .await;
    check(
        part(json!({ "type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA" })),
        json!("message.parts"),
    )
    .await;
    check(json!({ "id": "s", "trigger": "resume-stream" }), json!("trigger")).await;
    check(json!({ "id": "s", "answer": { "signal": "x", "wait": 1 } }), json!("answer")).await;
    assert_eq!(rig.client().get("/v1/ui/s/messages").await.status, 404);
    let picture = part(json!({ "type": "file", "mediaType": "image/png", "url": "https://x.example/y.png" }));
    let told = post(&rig.client(), &picture).await;
    assert_eq!(types(&told).last(), Some(&"finish"));
}

// D10, D11, D15, INV-16
#[tokio::test]
async fn an_error_is_told_and_what_was_shown_before_it_is_void() {
    let rig = Rig::start().await;
    let check = async |text: &str, category: &str| {
        let told = post(&rig.client(), &json!({ "id": "s", "message": user(text, text) })).await;
        let [.., why, error, finish] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(
            (&why["type"], &why["data"]["category"]),
            (&json!("data-error"), &json!(category)),
            "{text}"
        );
        assert_eq!((&error["type"], &finish["finishReason"]), (&json!("error"), &json!("error")));
        assert!(!error["errorText"].as_str().unwrap().contains(CANARY), "{error}");
        told
    };
    let nothing = check("fail retryable", "provider_unavailable").await;
    assert_eq!(types(&nothing), ["data-error", "error", "finish"], "nothing was said: no message");
    check("fail terminating", "provider_model_not_loaded").await;
    check("canary", "provider_invalid_request").await;
    let halfway = check("fail halfway", "provider_unavailable").await;
    let page = Page::of(&halfway);
    let text = &page.message["parts"][1];
    assert_eq!(text["providerMetadata"], json!({ "singletree": { "retracted": true } }));
    // The failed turns are no part of the conversation; the list shows them, marked.
    assert!(rig.chat.session("s").history(0..10).await.unwrap().is_empty());
    let kept = messages(&rig.client(), "s").await;
    assert_eq!(kept.len(), 8);
    assert!(kept.iter().all(|message| message["metadata"]["status"] == "failed"), "{kept:?}");
    assert!(!json!(kept).to_string().contains(CANARY));
}

#[tokio::test]
async fn an_approval_is_asked_and_answered_in_one_message() {
    for approved in [true, false] {
        let rig = Rig::start().await;
        let client = rig.client();
        let asked = say(&client, "s", "u1", "sends").await;
        assert_eq!(messages(&client, "s").await, [user("u1", "sends"), asked.clone()]);
        let mut message = asked;
        for at in 0..2 {
            let waiting = |it: &&Value| it["type"] == "data-suspended" && it["data"]["status"] == "pending";
            let wait = message["parts"].as_array().unwrap().iter().rfind(waiting).unwrap()["data"].clone();
            assert_eq!(wait["metadata"]["arguments"], json!({ "what": if at == 0 { "a" } else { "b" } }));
            let answer = json!({
                "signal": wait["signal"], "wait": wait["number"], "action": wait["action"],
                "payload": { "approved": approved },
            });
            // As a page does that sends nothing but the answer.
            let body =
                json!({ "id": "s", "messages": [message], "messageId": message["id"], "answer": answer });
            message = Page::going_on(&message, &post(&client, &body).await).message;
            assert_eq!(messages(&client, "s").await[1], message);
        }
        let last = message["parts"].as_array().unwrap().last().unwrap();
        assert_eq!(last["text"], "All done.", "whatever was decided, the model has the last word");
        assert_eq!(rig.world.done().len(), if approved { 2 } else { 0 });
        let states: Vec<_> =
            message["parts"].as_array().unwrap().iter().filter_map(|it| it["state"].as_str()).collect();
        let state = if approved { "output-available" } else { "output-error" };
        assert_eq!(states, [state, state, "done"]);
        // A page that has nothing gets the same.
        let again = Page::of(&parts(client.events("/v1/ui/s/stream?last=true", None).await).await);
        assert_eq!(again.message, message);
    }
}

// D12: a page keeps its chat's id; an edited message goes on in a fork, and nothing of the old session changes.
#[tokio::test]
async fn saying_it_otherwise_and_asking_again_go_on_in_a_branch() {
    let rig = Rig::start().await;
    let client = rig.client();
    let first = say(&client, "s", "u1", "say one").await;
    let second = say(&client, "s", "u2", "say two").await;
    let old = messages(&client, "s").await;
    assert_eq!(old, [user("u1", "say one"), first.clone(), user("u2", "say two"), second.clone()]);
    // As `regenerate()` posts it: all messages up to the user's.
    let body = json!({ "id": "s", "messages": [user("u1", "say one"), first, user("u2", "say two")], "trigger": "regenerate-message" });
    let again = Page::of(&post(&client, &body).await).message;
    assert_eq!(again["parts"], second["parts"]);
    let branch = again["metadata"]["sessionId"].as_str().unwrap().to_owned();
    assert_ne!((branch.as_str(), &again["id"]), ("s", &second["id"]));
    let kept = messages(&client, "s").await;
    assert_eq!((&kept[2], &kept[3], kept.len()), (&user("u2", "say two"), &again, 4));
    // The next message goes to the fork.
    let third = say(&client, "s", "u3", "say three").await;
    assert_eq!(third["metadata"]["sessionId"], json!(branch));
    // An edit of the first message, under its own id.
    let body = json!({ "id": "s", "messages": [user("u1", "say else")], "trigger": "submit-message", "messageId": "u1" });
    let otherwise = Page::of(&post(&client, &body).await).message;
    assert_eq!(messages(&client, "s").await, [user("u1", "say else"), otherwise.clone()]);
    // The answer to a named message, without the message.
    let body = json!({ "id": "s", "trigger": "regenerate-message", "messageId": otherwise["id"] });
    let last = Page::of(&post(&client, &body).await).message;
    assert_eq!(messages(&client, "s").await, [user("u1", "say else"), last]);
    // The old session is as it was, for all others and under its name in the API.
    let texts = rig.chat.session("s").history(0..10).await.unwrap();
    assert_eq!(texts.len(), 4);
    let unknown = json!({ "id": "s", "trigger": "regenerate-message", "messageId": "nothing" });
    assert_eq!(client.post("/v1/ui", &unknown).await.status, 404);
    // When the branch is deleted, the chat is the session of its id again.
    let branch = messages_session(&client, "s").await;
    rig.chat.session(&branch).delete(None).await.unwrap();
    assert_eq!(messages_session(&client, "s").await, "s");
}

async fn messages_session(client: &crate::support::Client, chat: &str) -> String {
    let page = client.get(&format!("/v1/ui/{chat}/messages")).await.json();
    page["sessionId"].as_str().unwrap().to_owned()
}

/// Returns the ids of a session's turns, each with the turn that it retries.
async fn retries(rig: &Rig) -> Vec<(String, Option<String>)> {
    let turns = rig.chat.session("s").turns(0, 9).await.unwrap().items;
    turns.iter().map(|turn| (turn.id.to_string(), turn.retries.as_ref().map(ToString::to_string))).collect()
}

// D29: asking for another answer to a failed message retries its turn, however the page names it.
#[tokio::test]
async fn another_answer_to_the_newest_failed_message_retries_its_turn() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "u1", "say one").await;
    let failed = json!({ "id": "s", "message": user("u2", "fail correctable") });
    post(&client, &failed).await;
    let named = |name: Value| {
        let mut body = json!({ "id": "s", "trigger": "regenerate-message" });
        body.as_object_mut().unwrap().extend(name.as_object().unwrap().clone());
        body
    };
    // The page's copy of the message counts for nothing: the stored one is said again.
    let told = post(&client, &named(json!({ "message": user("u2", "say other") }))).await;
    let turn = told[0]["data"]["turnId"].as_str().unwrap().to_owned();
    post(&client, &named(json!({ "messageId": "u2" }))).await;
    let shown = messages(&client, "s").await;
    assert_eq!((shown.len(), &shown[2]["parts"]), (4, &user("u2", "fail correctable")["parts"]));
    post(&client, &named(json!({ "messageId": shown[3]["id"] }))).await;
    post(&client, &named(json!({}))).await;
    let turns = retries(&rig).await;
    assert_eq!((turns.len(), &turns[2].0), (6, &turn));
    for pair in turns[1..].windows(2) {
        assert_eq!(pair[1].1.as_ref(), Some(&pair[0].0));
    }
    assert_eq!(messages_session(&client, "s").await, "s", "a retry makes no fork");
    // The message alone, under its own id, is still the turn that it had.
    let again = post(&client, &failed).await;
    assert_eq!(again[0]["data"]["turnId"], json!(turns[1].0));
    // Once something came after it, the message is said again as a new turn.
    say(&client, "s", "u3", "say three").await;
    post(&client, &named(json!({ "message": user("u2", "fail correctable") }))).await;
    let turns = retries(&rig).await;
    assert_eq!((turns.len(), &turns[7].1), (8, &None));
}

// D29: a page that asks for another answer while one is made is refused: the failed message is answered once.
#[tokio::test]
async fn another_answer_is_refused_while_a_retry_runs() {
    let slowly = |pace: &Arc<dyn Timer>| {
        let answer = json!({ "reply": "Recovered slowly now.", "delay_ms": 1 });
        recovering_from("provider_unavailable", answer, Some(pace))
    };
    let rig = Rig::builder().also(slowly).start().await;
    let client = rig.client();
    post(&client, &json!({ "id": "s", "agent": RECOVERING, "message": user("u1", "fail once") })).await;
    let again = json!({ "id": "s", "messageId": "u1", "trigger": "regenerate-message" });
    let mut running = client.post_events("/v1/ui", &again).await;
    rig.pace.pass(1);
    while within(running.json()).await.unwrap()["type"] != "text-delta" {}
    for named in [json!({}), json!({ "messageId": "u1" }), json!({ "message": user("u1", "fail once") })] {
        let mut body = json!({ "id": "s", "trigger": "regenerate-message" });
        body.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
        let refused = client.post("/v1/ui", &body).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["category"]),
            (409, &json!("chat_retry_superseded")),
            "{named}"
        );
    }
    rig.pace.run_free();
    while within(running.json()).await.is_some_and(|event| event["type"] != "finish") {}
    let shown = messages(&client, "s").await;
    assert_eq!((shown.len(), &shown[1]["parts"][1]["text"]), (2, &json!("Recovered slowly now.")));
    assert_eq!(retries(&rig).await.len(), 2);
    rig.stop().await;
}

// D29: the effects of a failed turn are in the history, and its retry does not repeat them.
#[tokio::test]
async fn another_answer_after_an_effect_goes_on_from_it() {
    let rig = Rig::start().await;
    let client = rig.client();
    post(&client, &json!({ "id": "s", "message": user("u1", "act and fail") })).await;
    assert_eq!(rig.world.done(), ["act and fail"]);
    let body = json!({ "id": "s", "message": user("u1", "act and fail"), "trigger": "regenerate-message" });
    for _ in 0..2 {
        post(&client, &body).await;
    }
    assert_eq!(rig.world.done(), ["act and fail"]);
    let turns = retries(&rig).await;
    assert_eq!((turns[1].1.as_ref(), turns[2].1.as_ref()), (Some(&turns[0].0), Some(&turns[1].0)));
    let said = rig.chat.session("s").history(0..9).await.unwrap();
    assert_eq!(said.iter().filter(|entry| entry.message.text() == "act and fail").count(), 1);
    assert_eq!(messages_session(&client, "s").await, "s");
}

// D10: a turn that was stopped while it ran is answered anew, in a fork; the message of one that never ran is retried.
#[tokio::test]
async fn another_answer_to_a_message_that_was_stopped_is_made_in_a_fork() {
    let rig = Rig::start().await;
    let client = rig.client();
    let body = json!({ "id": "s", "message": user("u1", "slow one two") });
    let mut running = client.post_events("/v1/ui", &body).await;
    rig.pace.pass(1);
    while within(running.json()).await.unwrap()["type"] != "text-delta" {}
    let queued =
        rig.chat.session("s").submit(ChatMessage::user("say two"), SendOptions::new()).await.unwrap();
    rig.chat.cancel(queued.id()).await.unwrap();
    within(client.delete("/v1/ui/s/stream")).await;
    rig.pace.run_free();
    let id = format!("{}/0", queued.id());
    let again = json!({ "id": "s", "message": user(&id, "say two"), "trigger": "regenerate-message" });
    post(&client, &again).await;
    assert_eq!(retries(&rig).await[2].1, Some(queued.id().to_string()));
    let again = json!({ "id": "s", "message": user("u1", "slow one two"), "trigger": "regenerate-message" });
    assert_eq!(Page::of(&post(&client, &again).await).message["parts"][1]["text"], "You said: one two");
    assert_ne!(messages_session(&client, "s").await, "s");
    rig.stop().await;
}

// D11: a message whose turn has failed is no part of the history: an edit of it is said in the same session.
#[tokio::test]
async fn an_edit_of_a_failed_message_stays_in_its_session() {
    let rig = Rig::start().await;
    let client = rig.client();
    say(&client, "s", "u1", "say one").await;
    post(&client, &json!({ "id": "s", "message": user("u2", "fail correctable") })).await;
    let body = json!({ "id": "s", "message": user("u2", "say two"), "messageId": "u2" });
    let said = Page::of(&post(&client, &body).await).message;
    let kept = messages(&client, "s").await;
    assert_eq!((&kept[2], &kept[3], kept.len()), (&user("u2", "say two"), &said, 4));
}

#[tokio::test]
async fn what_others_say_to_the_turn_that_runs_stands_in_its_message() {
    let rig = Rig::start().await;
    let client = rig.client();
    let running = client.post_events("/v1/ui", &json!({ "id": "s", "message": user("u1", "look") })).await;
    // Steered from elsewhere, as soon as the turn runs: whether it is taken is the turn's to say.
    let steer = rig.chat.session("s").steer(ChatMessage::user("say hm"), SendOptions::new()).await.unwrap();
    let page = Page::of(&within(parts(running)).await);
    steer.outcome().await;
    let kept = messages(&client, "s").await;
    assert_eq!(kept[1], page.message);
}
