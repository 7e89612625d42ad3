//! Answers in no session (D16).

use std::sync::Arc;

use serde_json::{Value, json};
use singletree_agent::{Agent, AgentProfile};
use singletree_llm::ScriptedProvider;

use super::{PATH, ask, both, message, says, stream};
use crate::support::agents::{CANARY, script};
use crate::support::rig::within;
use crate::support::{Rig, RigBuilder};

#[tokio::test]
async fn a_list_of_messages_is_answered_whole_or_piece_by_piece_and_forgotten() {
    let mut body = says("say one two");
    body["stream_options"] = json!({ "include_usage": true });
    let (whole, streamed) = both(&body).await;
    assert_eq!((&whole["object"], &whole["model"]), (&json!("chat.completion"), &json!("scripted")));
    assert_eq!(whole["created"], 1_767_225_600);
    assert!(whole["id"].as_str().unwrap().starts_with("chatcmpl-"));
    let message = json!({ "role": "assistant", "content": "You said: one two", "refusal": null });
    assert_eq!(whole["choices"][0]["message"], message);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    let usage = &whole["usage"];
    let [prompt, completion, total] = ["prompt_tokens", "completion_tokens", "total_tokens"];
    let sum = usage[prompt].as_u64().unwrap() + usage[completion].as_u64().unwrap();
    assert!(sum > 0 && usage[total] == sum, "{usage}");
    assert_eq!(streamed.usage.as_ref(), Some(usage));
    assert!(whole.get("singletree").is_none());

    let rig = Rig::start().await;
    ask(&rig.client(), &body).await;
    assert!(rig.chat.sessions(None, 9).await.unwrap().items.is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn all_roles_are_the_whole_input() {
    let rig = Rig::start().await;
    let mut body = says("");
    body["messages"] = json!([
        { "role": "system", "content": "Be kind." },
        { "role": "user", "content": "my name is Ann" },
        { "role": "assistant", "content": "Hello." },
        { "role": "user", "content": [{ "type": "text", "text": "say hi" }] },
    ]);
    assert_eq!(message(&ask(&rig.client(), &body).await)["content"], "You said: hi");
    let asked = rig.world.asked();
    let texts: Vec<_> = asked[0].messages.iter().map(|it| it.text().into_owned()).collect();
    assert_eq!(texts, ["Do as you are told.\n\nBe kind.", "my name is Ann", "Hello.", "say hi"]);
    rig.stop().await;
}

// D16
#[tokio::test]
async fn tools_that_read_are_run_and_those_that_change_something_are_off() {
    let (whole, _) = both(&says("look")).await;
    assert_eq!(whole["choices"][0]["message"]["content"], "All done.");
    let rig = Rig::start().await;
    ask(&rig.client(), &says("look")).await;
    assert_eq!(rig.world.done(), ["look a"]);
    // A call of a tool that changes something gets the answer for an unknown tool (D30).
    let off = ask(&rig.client(), &says("act")).await;
    assert_eq!((off.status, &off.json()["choices"][0]["message"]["content"]), (200, &json!("All done.")));
    assert_eq!(rig.world.done(), ["look a"]);
    assert!(rig.world.asked().iter().all(|it| it.tools.iter().all(|it| it.name() == "look")));
    rig.stop().await;
}

fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "description": "Theirs.", "parameters": {
        "type": "object", "properties": { "what": { "type": "string" } } } } })
}

#[tokio::test]
async fn tools_that_the_client_brings_are_the_clients_to_run() {
    let mut body = says("send");
    body["tools"] = json!([tool("send")]);
    body["tool_choice"] = json!({ "type": "function", "function": { "name": "send" } });
    let (whole, streamed) = both(&body).await;
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["function"], json!({ "name": "send", "arguments": "{\"what\":\"a\"}" }));
    let mut piece = call.clone();
    piece["index"] = 0.into();
    assert_eq!(streamed.calls, [piece]);

    // The client runs it and asks again.
    let rig = Rig::start().await;
    body["tool_choice"] = "auto".into();
    body["messages"] = json!([
        { "role": "user", "content": "send" },
        choice["message"],
        { "role": "tool", "tool_call_id": call["id"], "content": "did it" },
    ]);
    assert_eq!(message(&ask(&rig.client(), &body).await)["content"], "All done.");
    assert!(rig.world.done().is_empty());
    body["tool_choice"] = "none".into();
    ask(&rig.client(), &body).await;
    let offered: Vec<_> = rig.world.asked().iter().map(|it| it.tools.len()).collect();
    assert_eq!(offered, [2, 1]);
    rig.stop().await;
}

#[tokio::test]
async fn what_fails_is_a_status_and_a_body_also_where_pieces_were_asked_for() {
    let rig = Rig::start().await;
    for (text, status, kind, code, again) in [
        ("fail retryable", 503, "server_error", "provider_unavailable", "true"),
        ("fail correctable", 400, "invalid_request_error", "provider_invalid_request", "false"),
        ("canary", 400, "invalid_request_error", "provider_invalid_request", "false"),
    ] {
        for stream in [false, true] {
            let mut body = says(text);
            body["stream"] = stream.into();
            let answer = ask(&rig.client(), &body).await;
            let error = answer.json()["error"].clone();
            assert_eq!((answer.status, &error["type"], &error["code"]), (status, &json!(kind), &json!(code)));
            assert_eq!(answer.header("x-should-retry"), again);
            assert!(!answer.text().contains(CANARY), "{}", answer.text());
        }
    }
    let broken = stream(&rig.client(), &says("fail halfway")).await;
    assert_eq!(broken.text, "Half a");
    assert_eq!(broken.error.unwrap()["code"], "provider_unavailable");
    assert!(!broken.done, "half an answer does not end as a whole one");
    rig.stop().await;
}

// harness §2: who does not wait for the answer does not get one, and nobody pays for it.
#[tokio::test]
async fn who_goes_away_ends_the_run() {
    let rig = Rig::start().await;
    let mut body = says("wait and look");
    body["stream"] = true.into();
    rig.pace.pass(2);
    let mut events = rig.client().post_events(PATH, &body).await;
    while !within(events.json()).await.unwrap().to_string().contains("One") {}
    drop(events);
    // The server hears of it at once; then no pause that may pass makes it go on.
    while rig.pace.waiting() {
        tokio::task::yield_now().await;
    }
    rig.pace.run_free();
    let world = rig.world.clone();
    rig.stop().await;
    assert_eq!((world.done(), world.asked().len()), (Vec::<String>::new(), 1));
}

#[tokio::test]
async fn the_agents_are_the_models() {
    let rig = Rig::start().await;
    let list = rig.client().get("/v1/models").await.json();
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    assert_eq!((&list["object"], ids), (&json!("list"), vec![json!("brief"), json!("scripted")]));
    let brief = rig.client().get("/v1/models/brief").await.json();
    let expect = json!({ "id": "brief", "object": "model", "created": 1_767_225_600, "owned_by": "singletree", "name": "Brief" });
    assert_eq!(brief, expect);
    assert_eq!(list["data"][0], expect);
    let unknown = rig.client().get("/v1/models/nobody").await;
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!("chat_agent_unknown")));
    // A request that names none is answered by the first.
    let mut body = says("look");
    body.as_object_mut().unwrap().remove("model");
    assert_eq!(ask(&rig.client(), &body).await.json()["model"], "scripted");
    rig.stop().await;
}

// S2: the cost of a client's schema is bounded before it is compiled.
#[tokio::test]
async fn schemas_that_would_take_for_ever_are_refused_by_category() {
    let rig = Rig::start().await;
    let level = |at: usize| {
        let before = json!({ "$ref": format!("#/$defs/l{}", at - 1) });
        (format!("l{at}"), json!({ "allOf": [before, before] }))
    };
    let bomb = |levels: usize| {
        let mut defs: serde_json::Map<_, _> = (1..levels).map(level).collect();
        defs.insert("l0".to_owned(), json!({}));
        json!({ "type": "object", "$defs": defs, "$ref": format!("#/$defs/l{}", levels - 1) })
    };
    let itself = json!({ "properties": { "a": { "$ref": "#" } } });
    let patterns: serde_json::Map<_, _> =
        (0..20_000).map(|at| (format!("p{at}"), json!({ "pattern": format!("^{at}[a-z]+$") }))).collect();
    let tool = |parameters: &Value| json!({ "type": "function", "function": { "name": "t", "parameters": parameters } });
    for parameters in [bomb(45), bomb(32), json!({ "type": "object", "properties": patterns })] {
        let mut body = says("say hi");
        body["tools"] = json!([tool(&parameters)]);
        let refused = within(rig.client().post(PATH, &body)).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        let param = refused.json()["error"]["param"].as_str().unwrap().to_owned();
        assert!(param.starts_with("tools"), "{}", refused.text());
    }
    let sixty: serde_json::Map<_, _> =
        (0..60).map(|at| (format!("p{at}"), json!({ "pattern": format!("^{at}$") }))).collect();
    let named = |at: usize| {
        let parameters = json!({ "type": "object", "properties": sixty });
        json!({ "type": "function", "function": { "name": format!("t{at}"), "parameters": parameters } })
    };
    let mut body = says("say hi");
    body["tools"] = (0..5).map(named).collect();
    let refused = within(rig.client().post(PATH, &body)).await;
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("tools")));
    let mut body = says("say hi");
    body["tools"] = json!([tool(&json!({ "type": "object", "allOf": [itself, itself] }))]);
    assert_eq!(message(&ask(&rig.client(), &body).await)["content"], "You said: hi");
    rig.stop().await;
}

// W8, D32: the status depends on the cause.
#[tokio::test]
async fn a_key_that_the_vendor_refuses_is_no_mistake_of_the_caller() {
    let rig = Rig::start().await;
    for (text, status, kind) in [
        ("fail by key", 502, "server_error"),
        ("fail by model", 502, "server_error"),
        ("fail by limit", 429, "rate_limit_error"),
        ("fail correctable", 400, "invalid_request_error"),
        ("fail retryable", 503, "server_error"),
    ] {
        let answer = ask(&rig.client(), &says(text)).await;
        assert_eq!((answer.status, answer.json()["error"]["type"].as_str()), (status, Some(kind)), "{text}");
    }
    let limited = ask(&rig.client(), &says("fail by limit")).await;
    assert_eq!(limited.header("retry-after"), "8");
    rig.stop().await;
}

// F14
#[tokio::test]
async fn agents_that_people_do_not_pick_are_no_models() {
    let made = "2026-01-01T00:00:00Z";
    let scripted = AgentProfile::new("scripted", "Scripted", made);
    let hidden = AgentProfile { is_builtin: Some(true), ..AgentProfile::new("brief", "Brief", made) };
    let rig = Rig::builder().server(|server| server.listed_agents([scripted, hidden])).start().await;
    let list = rig.client().get("/v1/models").await.json();
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(ids, ["scripted"]);
    assert_eq!(rig.client().get("/v1/models/brief").await.status, 404);
    rig.stop().await;
}

// W10, D19
#[tokio::test]
async fn what_the_model_thinks_is_told_where_its_agent_shows_it_and_nowhere_else() {
    let thinker = |rig: RigBuilder| {
        rig.also(|pace| {
            let model = Arc::new(ScriptedProvider::new(script()).with_pace(pace.clone()));
            Agent::new("thinker", model).show_thinking(true).build().unwrap()
        })
    };
    let rig = thinker(Rig::builder()).start().await;
    rig.pace.run_free();
    for session in [None, Some("s")] {
        let client =
            session.iter().fold(rig.client(), |client, session| client.with("x-session-id", session));
        let mut body = says("think");
        body["model"] = "thinker".into();
        let whole = message(&ask(&client, &body).await);
        assert_eq!(whole["reasoning_content"], "Nobody may see this.", "{session:?}");
        assert_eq!(whole["content"], "I have thought.");
        body["stream"] = true.into();
        let mut events = client.post_events(PATH, &body).await;
        let chunks: Vec<Value> = events
            .rest()
            .await
            .iter()
            .filter(|event| event.data.as_deref() != Some("[DONE]"))
            .map(|event| event.json())
            .collect();
        let told = |name: &str| -> String {
            chunks.iter().filter_map(|event| event["choices"][0]["delta"][name].as_str()).collect()
        };
        assert_eq!(
            (told("reasoning_content"), told("content")),
            ("Nobody may see this.".into(), "I have thought.".into())
        );
        let quiet = ask(&client.with("x-session-id", "quiet"), &says("think")).await;
        if session.is_none() {
            assert!(!quiet.text().contains("Nobody may see this"), "{}", quiet.text());
        }
    }
    rig.stop().await;
}
