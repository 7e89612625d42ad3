//! The requests that are sent (spec: llm-provider §8.2.1, §8.2.5).

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, ImageDetailLevel, Map, Request, RuntimeConfig, ToolCall,
    ToolChoicePolicy,
};

use super::{OLD, STREAMED, WHOLE, asked, compose, request, schema, weather};
use crate::mapping::ComposeOptions;

fn object(value: Value) -> Map {
    value.as_object().unwrap().clone()
}

/// Checks the messages of a conversation that begins and ends with the user.
#[track_caller]
fn check_messages(between: Vec<ChatMessage>, wire: Value) {
    let all = [vec![ChatMessage::user("q")], between, vec![ChatMessage::user("go on")]].concat();
    let body = compose(&request(all), WHOLE).unwrap().body;
    let sent = body["messages"].as_array().unwrap();
    assert_eq!(Value::from(&sent[1..sent.len() - 1]), wire);
}

#[track_caller]
fn check_body(request: &Request, manner: ComposeOptions, more: Value) {
    let mut body = object(json!({
        "model": "claude-test", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]
    }));
    body.extend(object(more));
    let composed = compose(request, manner).unwrap();
    assert_eq!(composed.body, Value::Object(body));
    assert_eq!(composed.path, "/v1/messages");
}

#[track_caller]
fn check_refused(config: RuntimeConfig, named: &str) {
    let error = compose(&asked().with_config(config), WHOLE).unwrap_err();
    assert_eq!(error.category(), "provider_invalid_request");
    assert!(error.to_string().contains(named), "{error}");
}

fn call(id: &str) -> ToolCall {
    ToolCall::new(id, "get_weather", object(json!({"location": "SF"})))
}

fn signed(text: &str) -> ContentBlock {
    ContentBlock::Thinking { text: text.to_owned(), signature: Some("sig".to_owned()) }
}

#[test]
fn the_system_message_is_a_field_of_its_own() {
    let messages = vec![ChatMessage::system("Be kind."), ChatMessage::user("hi")];
    check_body(&request(messages), WHOLE, json!({"system": "Be kind."}));
}

#[test]
fn calls_are_blocks_and_a_run_of_results_is_one_message() {
    let asks = ChatMessage::assistant("Let me see.").with_tool_calls([call("a"), call("b")]);
    let results = [ChatMessage::tool("a", "72F"), ChatMessage::tool("b", "")];
    let call =
        |id: &str| json!({"type": "tool_use", "id": id, "name": "get_weather", "input": {"location": "SF"}});
    let wire = json!([
        {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, call("a"), call("b")]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "72F"},
            {"type": "tool_result", "tool_use_id": "b", "content": ""},
        ]},
        {"role": "assistant", "content": "It is warm."},
    ]);
    check_messages(
        [vec![asks], results.to_vec(), vec![ChatMessage::assistant("It is warm.")]].concat(),
        wire,
    );
}

#[test]
fn arguments_that_nobody_could_read_go_back_as_none() {
    let mut unread = call("a");
    unread.arguments = None;
    let asks = ChatMessage::assistant("").with_tool_calls([unread]);
    let wire = json!([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "get_weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "no"}]},
    ]);
    check_messages(vec![asks, ChatMessage::tool("a", "no")], wire);
}

// spec: llm-provider §3.1.4, §3.1.5, §8.2.1.1
#[test]
fn thinking_that_anthropic_signed_goes_back_as_it_came() {
    let blocks = vec![
        signed("hm"),
        ContentBlock::RedactedThinking { data: "b64==".to_owned() },
        ContentBlock::RedactedThinking { data: "thinking-signature:s2".to_owned() },
        ContentBlock::from_text("yes"),
    ];
    let wire = json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "b64=="},
        {"type": "thinking", "thinking": "", "signature": "s2"},
        {"type": "text", "text": "yes"},
    ]}]);
    check_messages(vec![ChatMessage::assistant(blocks)], wire);
}

// spec: llm-provider §3.1.7
#[test]
fn what_only_another_provider_can_have_made_is_stripped() {
    let foreign = |text: &str| ContentBlock::Thinking { text: text.to_owned(), signature: None };
    let blocks = vec![
        foreign("from Gemini"),
        ContentBlock::Text { text: "Yes.".to_owned(), signature: Some("g".to_owned()) },
    ];
    let mut asks = call("a");
    asks.signature = Some("g".to_owned());
    let wire = json!([
        {"role": "assistant", "content": [
            {"type": "text", "text": "Yes."},
            {"type": "tool_use", "id": "a", "name": "get_weather", "input": {"location": "SF"}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
    ]);
    let turn = ChatMessage::assistant(blocks).with_tool_calls([asks]);
    check_messages(vec![turn, ChatMessage::tool("a", "r")], wire);
    check_messages(vec![ChatMessage::assistant(vec![foreign("nothing else")])], json!([]));
}

#[test]
fn thinking_at_the_end_of_a_message_is_not_sent_because_anthropic_refuses_it() {
    check_messages(vec![ChatMessage::assistant(vec![signed("cut")])], json!([]));
    let redacted = ContentBlock::RedactedThinking { data: "blob".to_owned() };
    let blocks = vec![signed("hm"), ContentBlock::from_text("So"), signed("cut"), redacted];
    let wire = json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "So"},
    ]}]);
    check_messages(vec![ChatMessage::assistant(blocks)], wire);
}

#[test]
fn blank_text_of_the_model_is_not_sent_because_anthropic_refuses_it() {
    check_messages(vec![ChatMessage::assistant(" \n")], json!([]));
    let blocks = vec![ContentBlock::from_text("\n\n"), ContentBlock::from_text("b")];
    let wire = json!([{"role": "assistant", "content": [{"type": "text", "text": "b"}]}]);
    check_messages(vec![ChatMessage::assistant(blocks)], wire);
    let asks = ChatMessage::assistant("\n").with_tool_calls([call("a")]);
    let wire = json!([
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "get_weather", "input": {"location": "SF"}},
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "r"}]},
    ]);
    check_messages(vec![asks, ChatMessage::tool("a", "r")], wire);
}

// spec: llm-provider §8.2.1.1
#[test]
fn images_lose_their_detail_and_nothing_else() {
    let image = |source, media_type: Option<&str>| ContentBlock::Image {
        source,
        media_type: media_type.map(str::to_owned),
        detail: Some(ImageDetailLevel::High),
    };
    let blocks = vec![
        image(ImageContentSource::Inline { base64_data: "aGk=".to_owned() }, Some("image/png")),
        image(ImageContentSource::Url { url: "https://example.com/x.png".to_owned() }, None),
        ContentBlock::from_text("?"),
    ];
    let wire = json!([{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}},
        {"type": "text", "text": "?"},
    ]}]);
    check_messages(vec![ChatMessage::user(blocks)], wire);
}

#[test]
fn every_tool_choice_has_its_word() {
    let tools = json!([{
        "name": "get_weather",
        "description": "Weather.",
        "input_schema": {"type": "object", "properties": {"location": {"type": "string"}}},
    }]);
    check_body(&asked().with_tools([weather()]), WHOLE, json!({"tools": tools.clone()}));
    let rows = [
        (ToolChoicePolicy::Auto, json!({"type": "auto"})),
        (ToolChoicePolicy::Required, json!({"type": "any"})),
        (ToolChoicePolicy::None, json!({"type": "none"})),
        (ToolChoicePolicy::Tool("get_weather".to_owned()), json!({"type": "tool", "name": "get_weather"})),
    ];
    for (choice, wire) in rows {
        let request = asked().with_tools([weather()]).with_tool_choice(choice);
        check_body(&request, WHOLE, json!({"tools": tools.clone(), "tool_choice": wire}));
    }
}

#[test]
fn declared_fields_keep_their_names_and_what_anthropic_does_not_know_is_refused() {
    let known = RuntimeConfig {
        temperature: Some(0.5),
        max_tokens: Some(64),
        top_p: Some(0.25),
        stop_sequences: Some(vec!["END".to_owned()]),
        ..RuntimeConfig::default()
    };
    let wire = json!({"temperature": 0.5, "top_p": 0.25, "stop_sequences": ["END"]});
    check_body(&asked().with_config(known.clone()), WHOLE, wire);
    check_refused(RuntimeConfig { max_tokens: None, ..known.clone() }, "max_tokens");
    check_refused(RuntimeConfig { seed: Some(1), ..known.clone() }, "seed");
    check_refused(RuntimeConfig { frequency_penalty: Some(0.0), ..known.clone() }, "frequency_penalty");
    check_refused(RuntimeConfig { presence_penalty: Some(0.0), ..known }, "presence_penalty");
}

// spec: llm-provider §6 (managed-field collision), §8.2.1
#[test]
fn extras_ride_at_the_root_unless_the_mapping_wrote_that_field() {
    let with = |extras: Value| {
        let stop_sequences = Some(vec!["A".to_owned()]);
        let config = RuntimeConfig { max_tokens: Some(64), stop_sequences, ..RuntimeConfig::default() };
        asked().with_config(RuntimeConfig { extras: object(extras), ..config })
    };
    let stop = |all: Value| json!({"stop_sequences": all});
    check_body(&with(json!({"stop_sequences": ["B", "A"]})), WHOLE, stop(json!(["A", "B"])));
    check_body(&with(json!({"stop_sequences": "B"})), WHOLE, stop(json!(["A"])));
    check_body(&with(json!({"stream": false, "max_tokens": 64.0})), WHOLE, stop(json!(["A"])));
    check_body(
        &with(json!({"top_k": 3, "temperature": null})),
        WHOLE,
        json!({"stop_sequences": ["A"], "top_k": 3, "temperature": null}),
    );
    check_body(&with(json!({"stream": true})), STREAMED, json!({"stop_sequences": ["A"], "stream": true}));
    for (extras, manner) in [
        (json!({"stream": true}), WHOLE),
        (json!({"stream": "yes"}), WHOLE),
        (json!({"stream": false}), STREAMED),
        (json!({"max_tokens": 65}), WHOLE),
        (json!({"model": "other"}), WHOLE),
        (json!({"messages": []}), WHOLE),
    ] {
        let error = compose(&with(extras.clone()), manner).unwrap_err();
        assert_eq!(error.category(), "provider_invalid_request", "{extras}");
    }
}

// spec: llm-provider §8.2.5, §8.2.5.1
#[test]
fn a_response_schema_takes_one_of_three_paths() {
    let asks = asked().with_response_schema(schema());
    let shape = schema().as_value().clone();
    let format = json!({"output_config": {"format": {"type": "json_schema", "schema": shape}}});
    check_body(&asks, WHOLE, format);

    let composed = compose(&asks, OLD).unwrap();
    let name = composed.answer_tool.unwrap();
    assert_eq!(composed.body["tool_choice"], json!({"type": "tool", "name": name}));
    let tools = composed.body["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!((&tools[0]["name"], &tools[0]["input_schema"]), (&json!(name), &shape));
    assert!(!tools[0]["description"].as_str().unwrap().is_empty());

    let mut thinking = asks.clone();
    thinking.config.extras = object(json!({"thinking": {"type": "enabled", "budget_tokens": 32}}));
    let composed = compose(&thinking, OLD).unwrap();
    assert_eq!((composed.answer_tool, composed.body.get("tools")), (None, None));
    assert!(composed.body["system"].is_string());

    let composed = compose(&asks.with_tools([weather()]), OLD).unwrap();
    assert_eq!(composed.answer_tool, None);
    assert_eq!(composed.body.get("tool_choice"), None);
    assert_eq!(composed.body["tools"].as_array().unwrap().len(), 1);
    let system = composed.body["system"].as_str().unwrap();
    assert!(system.contains(r#""required":["value"]"#), "{system}");
}
