//! Turns of sessions.

use serde_json::{Value, json};
use singletree_llm::ChatMessage;

use super::{PATH, ask, both, message, says, stream};
use crate::support::rig::within;
use crate::support::{Client, Rig};

fn in_session(rig: &Rig, session: &str) -> Client {
    rig.client().with("x-session-id", session)
}

async fn texts(rig: &Rig, session: &str) -> Vec<String> {
    let history = rig.chat.session(session).history(0..100).await.unwrap_or_default();
    history.iter().map(|it| format!("{}: {}", it.message.role, it.message.text())).collect()
}

#[tokio::test]
async fn a_request_that_names_a_session_is_a_turn_of_it() {
    let mut body = says("say one two");
    body["metadata"] = json!({ "session_id": "s" });
    body["stream_options"] = json!({ "include_usage": true });
    let (whole, streamed) = both(&body).await;
    assert_eq!(whole["choices"][0]["message"]["content"], "You said: one two");
    assert_eq!(whole["singletree"]["session"], "s");
    assert_eq!(
        format!("chatcmpl-{}", whole["singletree"]["turn"].as_str().unwrap()),
        whole["id"].as_str().unwrap()
    );
    assert_eq!(streamed.ours, whole["singletree"]);
    assert_eq!(streamed.usage.as_ref(), Some(&whole["usage"]));
    assert!(whole["usage"]["total_tokens"].as_u64().unwrap() > 0);
}

// D16
#[tokio::test]
async fn of_its_messages_only_the_last_one_is_taken() {
    let rig = Rig::start().await;
    let client = in_session(&rig, "s");
    ask(&client, &says("say one")).await;
    let mut body = says("");
    body["messages"] = json!([
        { "role": "system", "content": "Obey." },
        { "role": "user", "content": "never said" },
        { "role": "assistant", "content": "never answered" },
        { "role": "user", "content": "say two" },
    ]);
    assert_eq!(message(&ask(&client, &body).await)["content"], "You said: two");
    let expect = ["user: say one", "assistant: You said: one", "user: say two", "assistant: You said: two"];
    assert_eq!(texts(&rig, "s").await, expect);
    let asked = rig.world.asked();
    let last: Vec<_> = asked.last().unwrap().messages.iter().map(|it| it.text().into_owned()).collect();
    assert_eq!(last, ["Do as you are told.", "say one", "You said: one", "say two"]);

    for last in [json!({ "role": "assistant", "content": "a" }), json!({ "role": "system", "content": "a" })]
    {
        body["messages"].as_array_mut().unwrap().push(last);
        let refused = ask(&client, &body).await;
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("messages")));
    }
    body["messages"] = json!([{ "role": "user", "content": "a" }]);
    body["tools"] = json!([{ "type": "function", "function": { "name": "f" } }]);
    assert_eq!(ask(&client, &body).await.json()["error"]["param"], "tools");
    rig.stop().await;
}

#[tokio::test]
async fn effectful_tools_are_run_in_a_session_and_several_messages_are_one_text() {
    let mut body = says("both");
    body["metadata"] = json!({ "session_id": "s" });
    let (whole, _) = both(&body).await;
    assert_eq!(whole["choices"][0]["message"]["content"], "All done.");
    let rig = Rig::start().await;
    ask(&in_session(&rig, "s"), &says("act")).await;
    assert_eq!(rig.world.done(), ["act a"]);
    rig.pace.run_free();
    let text = "One moment please\n\nAll done.";
    assert_eq!(message(&ask(&in_session(&rig, "s"), &says("wait and look")).await)["content"], text);
    assert_eq!(stream(&in_session(&rig, "s"), &says("wait and look")).await.text, text);
    rig.stop().await;
}

// D1, D2: an OpenAI client cannot answer; it is told which wait is pending, and where to answer it.
#[tokio::test]
async fn what_waits_for_a_person_is_said_in_words_and_as_data() {
    let mut body = says("send");
    body["metadata"] = json!({ "session_id": "s" });
    let (whole, streamed) = both(&body).await;
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(
        text.starts_with("Before the tool `send` is run with {\"what\":\"a\"}, somebody has to approve it."),
        "{text}"
    );
    let ours = &whole["singletree"];
    assert_eq!((&ours["outcome"], &streamed.ours["outcome"]), (&json!("suspended"), &json!("suspended")));
    let wait = &ours["wait"];
    assert_eq!(wait["metadata"]["tool"], "send");
    assert!(text.contains(&format!("POST /v1/sessions/s/signals/{}", wait["signal"].as_str().unwrap())));

    let rig = Rig::start().await;
    let client = in_session(&rig, "s");
    let wait = ask(&client, &says("send")).await.json()["singletree"]["wait"].clone();
    let refused = ask(&client, &says("say a")).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (409, &json!("chat_session_suspended")));
    assert_eq!(refused.header("x-should-retry"), "false");
    let path = format!("/v1/sessions/s/signals/{}", wait["signal"].as_str().unwrap());
    let answer = json!({ "payload": { "approved": true }, "wait": wait["number"], "action": wait["action"] });
    assert_eq!(rig.client().post(&path, &answer).await.json()["status"], "completed");
    assert_eq!(message(&ask(&client, &says("say a")).await)["content"], "You said: a");
    rig.stop().await;
}

// D3
#[tokio::test]
async fn a_key_makes_it_one_turn() {
    let rig = Rig::start().await;
    let client = in_session(&rig, "s").with("idempotency-key", "k");
    let one = ask(&client, &says("say a")).await.json();
    let two = stream(&client, &says("say a")).await;
    assert_eq!((two.text.as_str(), &two.ours["turn"]), ("You said: a", &one["singletree"]["turn"]));
    let other = ask(&client, &says("say b")).await;
    assert_eq!((other.status, &other.json()["error"]["code"]), (409, &json!("chat_idempotency_conflict")));
    assert_eq!(other.header("x-should-retry"), "false");
    assert_eq!(texts(&rig, "s").await.len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_session_keeps_its_agent_and_two_names_are_one_too_many() {
    let rig = Rig::start().await;
    rig.chat.session("s").send(ChatMessage::user("say a")).await;
    let mut body = says("say b");
    body["model"] = "brief".into();
    assert_eq!(ask(&in_session(&rig, "s"), &body).await.json()["model"], "scripted");
    assert_eq!(ask(&in_session(&rig, "t"), &body).await.json()["model"], "brief");
    body["metadata"] = json!({ "session_id": "u" });
    let refused = ask(&in_session(&rig, "s"), &body).await;
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("metadata.session_id")));
    body["metadata"] = json!({ "session_id": "" });
    let nameless = ask(&rig.client(), &body).await;
    assert_eq!(nameless.json()["error"]["code"], "harness_session_id_unresolved");
    rig.stop().await;
}

#[tokio::test]
async fn what_fails_in_a_session_fails_with_a_status_and_is_no_part_of_it() {
    let rig = Rig::start().await;
    let client = in_session(&rig, "s");
    let failed = ask(&client, &says("fail retryable")).await;
    assert_eq!((failed.status, failed.header("x-should-retry")), (503, "true"));
    let failed = ask(&client, &says("fail terminating")).await;
    assert_eq!((failed.status, failed.header("x-should-retry")), (500, "false"));
    let broken = stream(&client, &says("fail halfway")).await;
    assert_eq!((broken.text.as_str(), broken.done), ("Half a", false));
    assert_eq!(texts(&rig, "s").await, Vec::<String>::new());
    rig.stop().await;
}

// D9: who goes away stops nothing.
#[tokio::test]
async fn a_stream_that_breaks_off_does_not_end_the_turn() {
    let rig = Rig::start().await;
    let mut body = says("slow one two");
    body["stream"] = true.into();
    rig.pace.pass(1);
    let mut events = in_session(&rig, "s").post_events(PATH, &body).await;
    let mut seen = Value::Null;
    while !seen.to_string().contains("You") {
        seen = within(events.json()).await.unwrap();
    }
    drop(events);
    let turn = rig.chat.session("s").open_turns().await.unwrap()[0].id.clone();
    rig.pace.run_free();
    within(rig.chat.turn(&turn).await.unwrap().outcome()).await;
    assert_eq!(texts(&rig, "s").await, ["user: slow one two", "assistant: You said: one two"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_picture_in_a_message_is_kept_by_its_digest() {
    let rig = Rig::start().await;
    let picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let mut body = says("");
    body["messages"][0]["content"] = json!([
        { "type": "text", "text": "say see" }, { "type": "image_url", "image_url": { "url": picture } } ]);
    assert_eq!(message(&ask(&in_session(&rig, "s"), &body).await)["content"], "You said: see");
    let kept = rig.chat.session("s").history(0..1).await.unwrap();
    let image = serde_json::to_value(&kept[0].message.content).unwrap()[1].clone();
    assert!(image["source"]["url"].as_str().unwrap().starts_with("blob:"), "{image}");
    // In no session it is in the request, as it came.
    assert_eq!(ask(&rig.client(), &body).await.status, 200);
    let asked = rig.world.asked();
    let sent = serde_json::to_value(&asked.last().unwrap().messages[1].content).unwrap();
    assert_eq!(sent[1]["source"]["type"], "inline");
    rig.stop().await;
}

// W9
#[tokio::test]
async fn what_an_sdk_sends_again_by_itself_is_said_once() {
    let rig = Rig::start().await;
    let first = in_session(&rig, "s").with("x-stainless-retry-count", "0");
    let again = in_session(&rig, "s").with("x-stainless-retry-count", "1");
    let begun = ask(&first, &says("say one")).await.json();
    let repeated = ask(&again, &says("say one")).await;
    assert_eq!(repeated.header("idempotent-replayed"), "true");
    let repeated = repeated.json();
    assert_eq!(repeated["singletree"]["turn"], begun["singletree"]["turn"]);
    assert_eq!(texts(&rig, "s").await.len(), 2);
    // While the turn runs, the second request joins it.
    let running = tokio::spawn({
        let first = first.clone();
        async move { ask(&first, &says("slow two")).await.json() }
    });
    within(async {
        while !rig.pace.waiting() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let joined = tokio::spawn({
        let again = again.clone();
        async move { ask(&again, &says("slow two")).await.json() }
    });
    rig.pace.run_free();
    let (running, joined) = (within(running).await.unwrap(), within(joined).await.unwrap());
    assert_eq!(running["singletree"]["turn"], joined["singletree"]["turn"]);
    assert_eq!(texts(&rig, "s").await.len(), 4);
    // If the client knows the answer, the same text is a new message; so is another text.
    let mut knowing = says("");
    knowing["messages"] = json!([
        { "role": "user", "content": "slow two" },
        { "role": "assistant", "content": "You said: two" },
        { "role": "user", "content": "slow two" },
    ]);
    ask(&again, &knowing).await;
    assert_eq!(texts(&rig, "s").await.len(), 6);
    ask(&again, &says("say three")).await;
    assert_eq!(texts(&rig, "s").await.len(), 8);
    // After a long time it is a new message.
    rig.clock.advance(std::time::Duration::from_secs(3600));
    ask(&again, &says("say three")).await;
    assert_eq!(texts(&rig, "s").await.len(), 10);
    rig.stop().await;
}
