//! `POST …/send`, `…/steer` and `GET …/messages`.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use singletree_harness::{ChatTurnOutcome, Limits, SendOptions};
use singletree_llm::ChatMessage;

use super::{messages, said, send, turn, types};
use crate::support::Rig;
use crate::support::agents::CANARY;
use crate::support::rig::within;

// docs/steerable.md, the order of the stream, on one turn with tools
#[tokio::test]
async fn a_turn_with_tools_is_told_as_it_is_kept() {
    let rig = Rig::start().await;
    let told = send(&rig.client(), "s", "both").await;
    let results = ["tool_call", "tool_result", "content", "done"];
    assert_eq!(types(&told)[0], "orchestration:accepted");
    assert_eq!(types(&told)[1..], results);
    let turn = told[0]["payload"]["turnId"].as_str().unwrap();
    let calls: Vec<&Value> = told.iter().filter(|it| it["type"] == "tool_call").collect();
    assert_eq!(calls[0]["payload"]["name"], "look");
    assert_eq!(
        calls[1]["payload"],
        json!({ "id": calls[1]["payload"]["id"], "name": "act", "arguments": { "what": "b" } })
    );
    assert!(calls.iter().all(|it| it["messageId"] == format!("{turn}/1")));
    let result = told.iter().find(|it| it["type"] == "tool_result").unwrap();
    let expected =
        json!({ "success": true, "data": { "value": "did a" }, "callId": calls[0]["payload"]["id"] });
    assert_eq!((&result["payload"], &result["messageId"]), (&expected, &calls[0]["messageId"]));
    let ids: Vec<String> = (1..=4).map(|k| format!("{turn}/{k}")).collect();
    let done =
        json!({ "type": "done", "payload": { "outcome": "completed", "turnId": turn, "messageIds": ids } });
    assert_eq!(told.last().unwrap(), &done);
    // The text of the stream is the stored text, under the same ids.
    let kept = messages(&rig.client(), "s").await;
    let named: Vec<_> = kept.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(named[1..], ids);
    assert_eq!(said(&told), [(ids[3].clone(), "All done.".to_owned())]);
    let last = json!({
        "id": ids[3], "role": "assistant", "content": "All done.", "createdAt": "2026-01-01T00:00:00.000Z", "chatId": "s",
    });
    assert_eq!(kept[4], last);
    assert_eq!(kept[1]["toolCalls"], calls.iter().map(|it| it["payload"].clone()).collect::<Value>());
    assert_eq!((&kept[2]["toolResult"], &kept[2]["toolCallId"]), (&expected, &expected["callId"]));
}

#[tokio::test]
async fn a_message_is_taken_in_every_form_that_clients_send() {
    let rig = Rig::start().await;
    let check = async |body: Value| {
        let told = turn(rig.client().post_events("/v1/chats/s/send", &body).await).await;
        assert_eq!(said(&told).last().unwrap().1, "You said: hi", "{body}");
    };
    check(json!({ "content": "say hi", "mood": 1 })).await;
    check(json!({ "message": "say hi" })).await;
    check(json!({ "message": { "id": "mine", "role": "user", "content": "say hi", "createdAt": "x" } }))
        .await;
    check(json!({ "message": { "parts": [{ "type": "text", "text": "say hi" }] } })).await;
    check(json!({ "content": "say hi", "metadata": { "mentions": ["a"], "agentId": "scripted" } })).await;
    let kept = messages(&rig.client(), "s").await;
    assert_eq!(kept[8]["metadata"], json!({ "mentions": ["a"], "agentId": "scripted" }));
    let sides: Vec<_> =
        rig.chat.session("s").history(0..10).await.unwrap().into_iter().map(|it| it.side).collect();
    assert_eq!(sides[4], Some(json!({ "client_id": "mine" })));
    // A page of them.
    let page = rig.client().get("/v1/chats/s/messages?from=3&limit=2").await.json();
    assert_eq!(page["messages"], kept[3..5].iter().cloned().collect::<Value>());
    assert_eq!(page["next"], 5);
}

// D16
#[tokio::test]
async fn what_is_no_message_of_a_user_is_refused_and_nothing_is_kept() {
    let rig = Rig::start().await;
    let check = async |body: Value, status: u16, category: &str, field: Value| {
        let answer = rig.client().post("/v1/chats/s/send", &body).await;
        let error = &answer.json()["error"];
        assert_eq!(
            (answer.status, &error["category"], &error["field"]),
            (status, &json!(category), &field),
            "{body}"
        );
    };
    let invalid = "server_request_invalid";
    check(json!({}), 400, invalid, json!("content")).await;
    check(json!({ "content": "" }), 400, invalid, json!("content")).await;
    check(json!({ "content": 1 }), 400, invalid, json!("content")).await;
    for role in ["assistant", "system", "tool"] {
        let body = json!({ "message": { "role": role, "content": "hi" } });
        check(body, 400, invalid, json!("message.role")).await;
    }
    let part = |part: Value| json!({ "message": { "parts": [part] } });
    check(part(json!({ "type": "video", "url": "https://x" })), 400, invalid, json!("message.parts[0]"))
        .await;
    check(
        part(json!({ "type": "image", "url": "data:text/plain;base64,AAAA" })),
        400,
        "chat_blob_refused",
        json!("content[0].source.url"),
    )
    .await;
    check(
        part(json!({ "type": "image", "url": "data:image/png;base64,AAAA" })),
        400,
        "chat_blob_refused",
        json!("content[0].source.url"),
    )
    .await;
    let other = json!({ "content": "hi", "metadata": { "agentId": "nobody" } });
    check(other, 404, "chat_agent_unknown", Value::Null).await;
    assert_eq!(rig.client().get("/v1/chats/s/messages").await.status, 404);
    let text = rig.client().with("content-type", "text/plain");
    assert_eq!(text.send_bytes(Method::POST, "/v1/chats/s/send", "{}".into()).await.status, 415);
}

// rule 6, D10, D13, D15, INV-16
#[tokio::test]
async fn an_error_is_the_last_but_the_end_and_says_what_can_be_done() {
    let chat_limits = Limits { tool_calls: 1, ..Limits::default() };
    let rig = Rig::builder().chat_limits(chat_limits).start().await;
    let check = async |text: &str, kind: &str, code: &str, bucket: &str| {
        let told = send(&rig.client(), "s", text).await;
        let [.., error, done] = told.as_slice() else { panic!("{told:?}") };
        let found =
            (error["type"].as_str(), error["code"].as_str(), error["payload"]["errorBucket"].as_str());
        assert_eq!(found, (Some(kind), Some(code), Some(bucket)), "{text}");
        assert_eq!(done["payload"]["outcome"], "errored");
        assert_eq!(done["payload"]["messageIds"], json!([]));
        assert!(told.iter().filter(|it| it["type"] == kind).count() == 1);
        told
    };
    check("fail retryable", "error", "provider_unavailable", "retryable_transient").await;
    check("fail correctable", "error", "provider_invalid_request", "user_correctable").await;
    check("fail terminating", "error", "provider_model_not_loaded", "session_terminating").await;
    check("both", "budget_exhausted", "E_BUDGET_TOOL_CALLS", "user_correctable").await;
    let halfway = check("fail halfway", "error", "provider_unavailable", "retryable_transient").await;
    // The shown part of a message that is never stored is retracted.
    let shown = said(&halfway).remove(0).0;
    let void = halfway.iter().find(|it| it["event"] == "retracted").unwrap();
    assert_eq!((&void["messageId"], &void["payload"]["messageId"]), (&json!(shown), &json!(shown)));
    let canary = check("canary", "error", "provider_invalid_request", "user_correctable").await;
    assert!(!canary.iter().any(|it| it.to_string().contains(CANARY)), "{canary:?}");
    // The list shows the failed turns; they are no part of the conversation.
    let listed = messages(&rig.client(), "s").await;
    assert!(listed.iter().all(|message| message["failed"] == true), "{listed:?}");
    assert!(!listed.iter().any(|message| message.to_string().contains(CANARY)), "{listed:?}");
    assert_eq!(listed.iter().filter(|message| message["role"] == "system").count(), 6);
}

// D29
#[tokio::test]
async fn a_turn_that_failed_is_listed_with_its_message_what_was_shown_and_its_error() {
    let rig = Rig::start().await;
    let client = rig.client();
    send(&client, "s", "say one").await;
    send(&client, "s", "fail halfway").await;
    let failed = rig.chat.session("s").newest_turn().await.unwrap().unwrap().id;
    send(&client, "s", "say two").await;
    let brief =
        |message: &Value| (message["role"].clone(), message["content"].clone(), message["failed"] == true);
    let row = |role: &str, content: &str, failed: bool| (json!(role), json!(content), failed);
    let reply = rig.chat.turn(&failed).await.unwrap().outcome().await;
    let ChatTurnOutcome::Errored(errored) = reply.as_ref() else { panic!("{reply:?}") };
    let expected = [
        row("user", "say one", false),
        row("assistant", "You said: one", false),
        row("user", "fail halfway", true),
        row("assistant", "Half a", true),
        row("system", &errored.reply.text(), true),
        row("user", "say two", false),
        row("assistant", "You said: two", false),
    ];
    let listed = messages(&client, "s").await;
    assert_eq!(listed.iter().map(brief).collect::<Vec<_>>(), expected);
    assert_eq!(listed[2]["id"], format!("{failed}/0"));
    let error =
        json!({ "code": "provider_unavailable", "errorBucket": "retryable_transient", "retrySafe": true });
    assert_eq!(listed[4]["error"], error);
    // Each failed turn is on the page of its place, once.
    let page = async |query: &str| client.get(&format!("/v1/chats/s/messages{query}")).await.json();
    let first = page("?limit=2").await;
    let second = page(&format!("?limit=2&from={}", first["next"])).await;
    let both: Vec<Value> =
        [first, second].iter().flat_map(|page| page["messages"].as_array().unwrap().clone()).collect();
    assert_eq!(both, listed);
}

#[tokio::test]
async fn an_approval_is_told_and_its_answer_is_streamed_to_who_listens() {
    let rig = Rig::start().await;
    let client = rig.client();
    let told = send(&client, "s", "send").await;
    assert_eq!(types(&told)[1..], ["tool_call", "orchestration:suspended", "done"]);
    let wait = &told[told.len() - 2];
    let turn = told[0]["payload"]["turnId"].as_str().unwrap();
    assert_eq!((wait["taskId"].as_str(), &wait["payload"]["metadata"]["tool"]), (Some(turn), &json!("send")));
    assert_eq!(told.last().unwrap()["payload"]["outcome"], "suspended");
    let mut listening = client.events("/v1/chats/s/events", None).await;
    let answer = json!({
        "payload": { "approved": true }, "wait": wait["payload"]["number"], "action": wait["payload"]["action"],
    });
    let signal = wait["payload"]["signal"].as_str().unwrap();
    let path = format!("/v1/sessions/s/signals/{}", signal.replace('/', "%2F"));
    assert_eq!(client.post(&path, &answer).await.status, 200);
    let mut heard = Vec::new();
    while heard.last().is_none_or(|it: &Value| it["type"] != "done") {
        heard.push(within(listening.json()).await.unwrap());
    }
    // Those carry only from where on to go on.
    heard.retain(|it| it["type"] != "keepalive");
    assert_eq!(types(&heard), ["orchestration:signal", "tool_result", "content", "done"]);
    assert_eq!(said(&heard)[0].1, "All done.");
    assert_eq!(heard.last().unwrap()["payload"]["turnId"], format!("{turn}.1"));
    let kept = messages(&client, "s").await;
    assert_eq!(kept.last().unwrap()["id"], said(&heard)[0].0);
}

// rule 8: harness-chat §5.3
#[tokio::test]
async fn who_goes_away_cancels_nothing() {
    let rig = Rig::start().await;
    let mut stream =
        rig.client().post_events("/v1/chats/s/send", &json!({ "content": "slow one two three" })).await;
    rig.pace.pass(2);
    while within(stream.json()).await.unwrap()["type"] != "content" {}
    drop(stream);
    rig.pace.run_free();
    let told = turn(
        rig.client()
            .post_events("/v1/chats/s/send", &json!({ "content": "", "metadata": { "resume": true } }))
            .await,
    );
    let told = within(told).await;
    assert_eq!(said(&told)[0].1, "You said: one two three");
    assert_eq!(messages(&rig.client(), "s").await[1]["content"], "You said: one two three");
    // A turn that is over is told again, all of it.
    let again = json!({ "metadata": { "resume": true } });
    let again = turn(rig.client().post_events("/v1/chats/s/send", &again).await).await;
    assert_eq!((said(&again), again.last()), (said(&told), told.last()));
    let nothing = json!({ "content": "", "metadata": { "resume": true } });
    assert_eq!(rig.client().post("/v1/chats/other/send", &nothing).await.status, 404);
}

// D3
#[tokio::test]
async fn the_same_key_is_the_same_turn() {
    let rig = Rig::start().await;
    let client = rig.client().with("idempotency-key", "k");
    let (first, second) = (send(&client, "s", "say hi").await, send(&client, "s", "say hi").await);
    assert_eq!(first.last(), second.last());
    assert_eq!(said(&first), said(&second));
    let other = client.post("/v1/chats/s/send", &json!({ "content": "say ho" })).await;
    assert_eq!(
        (other.status, &other.json()["error"]["category"]),
        (409, &json!("chat_idempotency_conflict"))
    );
}

// D10
#[tokio::test]
async fn what_was_shown_of_a_cancelled_turn_is_kept() {
    let rig = Rig::start().await;
    let mut stream =
        rig.client().post_events("/v1/chats/s/send", &json!({ "content": "slow one two three" })).await;
    let accepted = within(stream.json()).await.unwrap();
    rig.pace.pass(2);
    while within(stream.json()).await.unwrap()["type"] != "content" {}
    let turn = accepted["payload"]["turnId"].as_str().unwrap().parse().unwrap();
    rig.chat.cancel(&turn).await.unwrap().outcome().await;
    let rest = stream.rest().await;
    let [.., error, done, _] = rest.as_slice() else { panic!("{rest:?}") };
    assert_eq!(error.json()["code"], "chat_turn_cancelled");
    let kept = messages(&rig.client(), "s").await;
    assert_eq!((&kept[1]["interrupted"], kept.len()), (&json!(true), 2));
    assert_eq!(done.json()["payload"]["messageIds"], json!([kept[1]["id"]]));
    assert!(stream.raw.matches("\"retracted\"").count() == 0, "{}", stream.raw);
}

#[tokio::test]
async fn a_message_steers_only_a_turn_that_runs() {
    let rig = Rig::start().await;
    let client = rig.client();
    let steer = json!({ "content": "say it otherwise" });
    let answer = client.post("/v1/chats/s/steer", &steer).await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "steered": false })));
    let mut stream = client.post_events("/v1/chats/s/send", &json!({ "content": "slow one" })).await;
    within(stream.json()).await.unwrap();
    let answer = client.post("/v1/chats/s/steer", &steer).await.json();
    assert_eq!(answer["steered"], true);
    rig.pace.run_free();
    stream.rest().await;
    let turn = answer["turnId"].as_str().unwrap().parse().unwrap();
    rig.chat.turn(&turn).await.unwrap().outcome().await;
    let texts: Vec<_> = messages(&client, "s").await.iter().map(|it| it["content"].clone()).collect();
    assert_eq!(texts.last().unwrap(), "You said: it otherwise");
}

// A message that steers is part of the turn once the answer to it is stored.
#[tokio::test]
async fn a_message_that_was_not_taken_after_all_is_retracted_and_has_a_turn_of_its_own() {
    let rig = Rig::start().await;
    let client = rig.client();
    let mut stream = client.post_events("/v1/chats/s/send", &json!({ "content": "wait and look" })).await;
    let mut told = vec![within(stream.json()).await.unwrap()];
    let steering = client.post("/v1/chats/s/steer", &json!({ "content": "fail halfway" })).await.json();
    assert_eq!(steering["steered"], true);
    rig.pace.run_free();
    told.extend(
        stream.rest().await.iter().filter(|it| it.data.as_deref() != Some("[DONE]")).map(|it| it.json()),
    );
    // The turn shows the message once its model gets it, and the model fails.
    let at =
        |name: &str| told.iter().position(|it| it["event"] == name).unwrap_or_else(|| panic!("{told:?}"));
    let (shown, retracted) = (at("user_message"), at("retracted"));
    assert_eq!(told[shown]["payload"]["message"]["content"], "fail halfway");
    let id = &told[shown]["messageId"];
    assert_eq!((&told[retracted]["messageId"], &told[retracted]["payload"]["messageId"]), (id, id));
    let failed = told.iter().position(|it| it["type"] == "error").unwrap();
    assert!(shown < retracted && retracted < failed, "{told:?}");
    assert!(!told.last().unwrap()["payload"]["messageIds"].as_array().unwrap().contains(id), "{told:?}");
    let turn = steering["turnId"].as_str().unwrap().parse().unwrap();
    let outcome = rig.chat.turn(&turn).await.unwrap().outcome().await;
    assert!(
        matches!(outcome.as_ref(), ChatTurnOutcome::Errored(it) if it.error_category == "provider_unavailable")
    );
    let listed = messages(&client, "s").await;
    let listed: Vec<_> =
        listed.iter().filter(|it| it["content"] == "fail halfway").map(|it| &it["id"]).collect();
    assert_eq!(listed, [&json!(format!("{turn}/0"))]);
}

// Times of a page are in order, even when messages waited for others.
#[tokio::test]
async fn a_message_that_waited_its_place_is_not_older_than_what_it_waited_for() {
    let rig = Rig::start().await;
    let first =
        rig.chat.session("s").submit(ChatMessage::user("slow one"), SendOptions::new()).await.unwrap();
    let second =
        rig.chat.session("s").submit(ChatMessage::user("say two"), SendOptions::new()).await.unwrap();
    rig.clock.advance(Duration::from_secs(60));
    rig.pace.run_free();
    first.outcome().await;
    second.outcome().await;
    let times: Vec<_> = messages(&rig.client(), "s").await.iter().map(|it| it["createdAt"].clone()).collect();
    let (early, late) = (json!("2026-01-01T00:00:00.000Z"), json!("2026-01-01T00:01:00.000Z"));
    assert_eq!(times, [early, late.clone(), late.clone(), late.clone()]);
    let page = rig.client().get("/v1/chats/s/messages?from=2").await.json();
    assert_eq!(page["messages"][0]["createdAt"], late);
}
