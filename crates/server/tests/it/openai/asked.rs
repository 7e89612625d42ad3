//! Requests that are refused before anything runs.

use serde_json::{Value, json};

use super::{ask, says};
use crate::support::Rig;

#[tokio::test]
async fn what_would_mean_something_else_if_it_were_ignored_is_refused_by_its_name() {
    let rig = Rig::start().await;
    let check = async |name: &str, value: Value, parameter: &str| {
        let mut body = says("say a");
        body[name] = value;
        let answer = ask(&rig.client(), &body).await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, error["param"].as_str()), (400, Some(parameter)), "{error}");
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("invalid_request_error"), &json!("server_request_invalid"))
        );
    };
    check("n", json!(2), "n").await;
    check("response_format", json!({ "type": "json_schema", "json_schema": {} }), "response_format").await;
    check("response_format", json!({ "type": "grammar" }), "response_format").await;
    check("stop", json!(vec!["x"; 17]), "stop").await;
    check("max_tokens", json!(0), "max_tokens").await;
    check("logprobs", json!(true), "logprobs").await;
    check("modalities", json!(["text", "audio"]), "modalities").await;
    check("functions", json!([]), "functions").await;
    check("tools", json!([{ "type": "web_search" }]), "tools[0]").await;
    let named = |name: &str| json!({ "type": "function", "function": { "name": name } });
    check("tools", json!([named("a"), named("a")]), "tools").await;
    check("tools", json!([named("")]), "tools[0]").await;
    check("tool_choice", named("a"), "tool_choice").await;
    check("tool_choice", json!("required"), "tool_choice").await;
    check("messages", json!([{ "role": "function", "name": "f", "content": "a" }]), "messages[0].role").await;
    check("messages", json!("a"), "messages").await;
    check("metadata", json!({ "session_id": 7 }), "metadata.session_id").await;
    assert!(rig.world.asked().is_empty());
    rig.stop().await;
}

#[tokio::test]
async fn what_only_samples_a_model_or_is_not_known_is_ignored() {
    let rig = Rig::start().await;
    let mut body = says("say a");
    for (name, value) in [
        ("temperature", json!(0.1)),
        ("top_p", json!(0.5)),
        ("seed", json!(7)),
        ("user", json!("ann")),
        ("n", json!(1)),
        ("stop", json!(null)),
        ("response_format", json!({ "type": "text" })),
        ("parallel_tool_calls", json!(true)),
        ("something_new", json!({ "a": [1] })),
        ("metadata", json!({ "purpose": "test" })),
    ] {
        body[name] = value;
    }
    assert_eq!(ask(&rig.client(), &body).await.status, 200);
    rig.stop().await;
}

#[tokio::test]
async fn a_conversation_that_no_model_could_answer_and_a_model_that_is_not_there() {
    let rig = Rig::start().await;
    let code = async |messages: Value| {
        let mut body = says("a");
        body["messages"] = messages;
        let answer = ask(&rig.client(), &body).await;
        (answer.status, answer.json()["error"]["code"].as_str().unwrap().to_owned())
    };
    let unfit = (400, "chat_message_shape_invalid".to_owned());
    assert_eq!(code(json!([])).await, unfit);
    assert_eq!(code(json!([{ "role": "assistant", "content": "a" }])).await, unfit);
    let late = json!([{ "role": "user", "content": "a" }, { "role": "system", "content": "b" }, { "role": "user", "content": "c" }]);
    assert_eq!(code(late).await, unfit);
    let mut body = says("a");
    body["model"] = "gpt-9".into();
    let answer = ask(&rig.client(), &body).await;
    let error = answer.json()["error"].clone();
    assert_eq!(
        (answer.status, &error["code"], &error["param"]),
        (404, &json!("chat_agent_unknown"), &json!("model"))
    );
    rig.stop().await;
}

// W9
#[tokio::test]
async fn form_length_and_end_of_an_answer_are_the_clients_where_no_session_is_named() {
    let rig = Rig::start().await;
    let client = rig.client();
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let mut body = says("say a");
    body["max_tokens"] = json!(7);
    body["stop"] = json!("END");
    ask(&client, &body).await;
    body["max_completion_tokens"] = json!(5);
    body["stop"] = json!(["A", "B"]);
    ask(&client, &body).await;
    body["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema } });
    ask(&client, &body).await;
    body["response_format"] = json!({ "type": "json_object" });
    ask(&client, &body).await;
    let asked = rig.world.asked();
    let bounds: Vec<_> = asked.iter().map(|request| request.config.max_tokens.unwrap()).collect();
    assert_eq!(bounds, [7, 5, 5, 5]);
    let stops: Vec<_> =
        asked.iter().map(|request| request.config.stop_sequences.clone().unwrap().concat()).collect();
    assert_eq!(stops, ["END", "AB", "AB", "AB"]);
    let forms: Vec<_> = asked
        .iter()
        .map(|request| request.response_schema.as_ref().map(|request| request.as_value().clone()))
        .collect();
    assert_eq!(forms, [None, None, Some(schema), Some(json!({ "type": "object" }))]);
    rig.stop().await;
}

// W9
#[tokio::test]
async fn in_a_session_a_bound_is_named_as_ignored_and_another_form_is_refused() {
    let rig = Rig::start().await;
    let client = rig.client().with("x-session-id", "s");
    let mut body = says("say a");
    body["max_tokens"] = json!(1);
    let answer = ask(&client, &body).await;
    assert_eq!((answer.status, &answer.json()["singletree"]["ignored"]), (200, &json!(["max_tokens"])));
    for (name, value) in [("stop", json!("x")), ("response_format", json!({ "type": "json_object" }))] {
        let mut body = says("say a");
        body[name] = value;
        let refused = ask(&client, &body).await;
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(name)));
    }
    rig.stop().await;
}

// W9
#[tokio::test]
async fn what_openai_has_and_is_not_served_here_is_told_in_its_own_words() {
    let rig = Rig::start().await;
    for path in ["/v1/responses", "/v1/responses/resp_1", "/v1/embeddings", "/v1/completions"] {
        let answer = rig.client().post(path, &json!({})).await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["type"]), (404, &json!("invalid_request_error")), "{path}");
        assert_eq!((&error["code"], error["message"].is_string()), (&json!("server_route_unknown"), true));
    }
    rig.stop().await;
}
