//! Runs that end by themselves.

use serde_json::{Value, json};

use super::{Front, in_step};
use crate::support::Rig;
use crate::support::rig::within;

#[tokio::test]
async fn a_run_is_told_message_by_message_and_the_front_end_has_the_transcript() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    let ran = front.send("u1", "say hello there").await;
    let expect = [
        "RUN_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(ran.types(), expect);
    assert_eq!(ran.events[0]["protocolVersion"], "1.0");
    assert_eq!(ran.last()["outcome"], json!({ "type": "success" }));
    assert_eq!(front.messages[1]["content"], "You said: hello there");
    in_step(&front, &rig.chat).await;

    let ran = front.send("u2", "both").await;
    let expect = [
        "RUN_STARTED",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(ran.types(), expect);
    assert_eq!(front.messages[3]["toolCalls"][1]["function"]["arguments"], "{\"what\":\"b\"}");
    in_step(&front, &rig.chat).await;
    assert_eq!(rig.world.done(), ["look a", "act b"]);
    rig.stop().await;
}

#[tokio::test]
async fn the_agent_is_named_by_the_path_or_by_what_is_passed_through() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "by-path");
    front.path = "/v1/agui/brief".into();
    front.send("u1", "say a").await;
    assert_eq!(rig.chat.session("by-path").info().await.unwrap().agent, "brief");

    let mut front = Front::new(rig.client(), "by-props");
    front.says("u1", "say a");
    let mut input = front.input("r");
    input["forwardedProps"] = json!({ "agent": "brief", "other": 1 });
    assert_eq!(front.post(input).await.end(), "success");
    assert_eq!(rig.chat.session("by-props").info().await.unwrap().agent, "brief");

    let mut front = Front::new(rig.client(), "nobody");
    front.path = "/v1/agui/nobody".into();
    assert_eq!(front.send("u1", "say a").await.end(), "chat_agent_unknown");
    rig.stop().await;
}

// D11, INV-16
#[tokio::test]
async fn a_failed_run_says_why_and_the_front_end_keeps_what_it_wanted_to_say() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.send("u1", "say a").await;
    let before = front.messages.clone();
    let ran = front.send("u2", "fail halfway").await;
    assert_eq!(ran.end(), "provider_unavailable");
    let ours = &ran.last()["metadata"]["dev.singletree"];
    assert_eq!((&ours["bucket"], &ours["retry_safe"]), (&json!("retryable_transient"), &json!(true)));
    // The partial answer is gone; the user's message is still there, so that it can be sent again.
    let kept = json!({ "id": "u2", "role": "user", "content": "fail halfway" });
    assert_eq!(front.messages, [before.as_slice(), &[kept]].concat());
    let types = ran.types();
    assert_eq!(types[types.len() - 2..], ["MESSAGES_SNAPSHOT", "RUN_ERROR"]);

    for (text, category) in [
        ("fail correctable", "provider_invalid_request"),
        ("fail terminating", "provider_model_not_loaded"),
        ("canary", "provider_invalid_request"),
    ] {
        let mut front = Front::new(rig.client(), text);
        let ran = front.send("u1", text).await;
        assert_eq!(ran.end(), category);
        assert!(!ran.last().to_string().contains(crate::support::agents::CANARY), "{:?}", ran.last());
    }
    rig.stop().await;
}

// A front end drops a message of somebody else that the run has shown, and not taken after all.
#[tokio::test]
async fn a_message_that_was_not_taken_after_all_is_gone_at_the_end_of_the_run() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    let client = rig.client();
    let steer = async {
        while !rig.pace.waiting() {
            tokio::task::yield_now().await;
        }
        let steer = json!({ "content": "fail retryable" });
        let steered = client.post("/v1/chats/t/steer", &steer).await.json();
        rig.pace.run_free();
        steered["turnId"].as_str().unwrap().to_owned()
    };
    let (ran, turn) = within(async { tokio::join!(front.send("u1", "wait and look"), steer) }).await;
    assert_eq!(ran.end(), "provider_unavailable");
    let types = ran.types();
    assert_eq!(types[types.len() - 2..], ["MESSAGES_SNAPSHOT", "RUN_ERROR"]);
    let is_shown = |it: &Value| it["type"] == "TEXT_MESSAGE_CONTENT" && it["delta"] == "fail retryable";
    assert!(ran.events.iter().any(is_shown), "{:?}", ran.events);
    rig.chat.turn(&turn.parse().unwrap()).await.unwrap().outcome().await;
    let said: Vec<_> = front.messages.iter().map(|it| (&it["role"], &it["content"])).collect();
    assert!(!said.contains(&(&json!("user"), &json!("fail retryable"))), "{said:?}");
    rig.stop().await;
}

// D11: another run with a failed message sends it again; the same run gets the same answer again.
#[tokio::test]
async fn what_failed_for_good_is_told_again_to_the_same_run_and_tried_again_with_another() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    front.says("u1", "fail correctable");
    let turn = async |run: &str| {
        let mut front = front.clone();
        let ran = front.post(front.input(run)).await;
        assert_eq!(ran.end(), "provider_invalid_request");
        ran.last()["metadata"]["dev.singletree"]["turn"].as_str().unwrap().to_owned()
    };
    let first = turn("r1").await;
    assert_eq!(turn("r1").await, first);
    let second = turn("r2").await;
    assert_ne!(second, first);
    assert_eq!(turn("r2").await, second);
    assert_eq!(turn("r1").await, first);
    assert_eq!(rig.chat.session("t").turns(0, 10).await.unwrap().items.len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_before_the_stream() {
    let rig = Rig::start().await;
    let front = Front::new(rig.client(), "t");
    let check = async |input: serde_json::Value, status: u16, code: &str, field: &str| {
        let answer = rig.client().post("/v1/agui", &input).await;
        let told = answer.json();
        assert_eq!(
            (answer.status, &told["type"], &told["code"]),
            (status, &json!("RUN_ERROR"), &json!(code))
        );
        assert_eq!(told["metadata"]["dev.singletree"]["field"], field, "{told}");
    };
    let with = |name: &str, value: serde_json::Value| {
        let mut input = front.input("r");
        input[name] = value;
        input
    };
    let invalid = "server_request_invalid";
    check(with("runId", json!("")), 400, invalid, "runId").await;
    check(with("runId", json!(7)), 400, invalid, "runId").await;
    check(with("messages", json!({})), 400, invalid, "messages").await;
    let user = |content: serde_json::Value| json!([{ "id": "u", "role": "user", "content": content }]);
    check(with("messages", user(json!(7))), 400, invalid, "messages[0].content").await;
    check(with("messages", json!([{ "role": "user", "content": "a" }])), 400, invalid, "messages[0].id")
        .await;
    let film = json!([{ "type": "text", "text": "see" }, { "type": "video", "source": {} }]);
    check(with("messages", user(film)), 400, invalid, "messages[0].content[1]").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_message_that_says_nothing_and_a_thread_that_is_no_name_are_refused_by_category() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    assert_eq!(front.send("u1", "").await.end(), "chat_message_shape_invalid");
    let mut front = Front::new(rig.client(), "");
    assert_eq!(front.send("u1", "say a").await.end(), "harness_session_id_unresolved");
    rig.stop().await;
}

/// The least picture there is.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[tokio::test]
async fn a_picture_in_a_message_is_kept_by_its_digest_and_stays_the_clients_own_copy() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    let source = json!({ "type": "data", "value": PICTURE, "mimeType": "image/png" });
    let content = json!([{ "type": "text", "text": "say see" }, { "type": "image", "source": source }]);
    front.messages.push(json!({ "id": "u1", "role": "user", "content": content }));
    assert_eq!(front.run().await.end(), "success");
    let kept = rig.chat.session("t").history(0..1).await.unwrap();
    let image = serde_json::to_value(&kept[0].message.content).unwrap()[1].clone();
    assert!(image["source"]["url"].as_str().unwrap().starts_with("blob:"), "{image}");
    // The client keeps its messages, also when it gets a snapshot.
    assert!(!front.send("u2", "say a").await.types().contains(&"MESSAGES_SNAPSHOT"));
    rig.chat.session("t").send(singletree_llm::ChatMessage::user("say b")).await;
    assert!(front.send("u3", "say c").await.types().contains(&"MESSAGES_SNAPSHOT"));
    assert_eq!(front.messages[0]["content"], content);
    // Who was not there is told by its name.
    let mut other = Front::new(rig.client(), "t");
    other.run().await;
    assert_eq!(other.messages[0]["content"][1]["source"]["value"], image["source"]["url"]);

    for (source, code) in [
        (json!({ "type": "data", "value": "?", "mimeType": "image/png" }), "server_request_invalid"),
        (json!({ "type": "url", "value": "http://example.com/a.png" }), "server_request_invalid"),
        (json!({ "type": "url", "value": "blob:00" }), "chat_blob_unknown"),
    ] {
        let mut front = Front::new(rig.client(), "wrong");
        let content = json!([{ "type": "image", "source": source }]);
        front.messages.push(json!({ "id": "u", "role": "user", "content": content }));
        assert_eq!(front.run().await.end(), code);
    }
    rig.stop().await;
}

// INV-9: narration is beside the messages, and none of them.
#[tokio::test]
async fn what_is_narrated_comes_beside_the_messages() {
    let rig = Rig::start().await;
    let mut front = Front::new(rig.client(), "t");
    let ran = front.send("u1", "send").await;
    let narrated: Vec<_> = ran.events.iter().filter(|it| it["type"] == "CUSTOM").collect();
    assert!(!narrated.is_empty());
    for it in narrated {
        assert_eq!(it["name"], "dev.singletree.narration");
        assert!(it["value"]["content"].is_string() && it["value"]["role"].is_string(), "{it}");
    }
    in_step(&front, &rig.chat).await;
    rig.stop().await;
}
