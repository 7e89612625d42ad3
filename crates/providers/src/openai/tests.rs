//! The mapping, field by field.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use singletree_llm::{
    ChatMessage, ContentBlock, ImageContentSource, ImageDetailLevel, Map, ResponseDelta, Schema, ToolCall,
    ToolChoicePolicy, ToolDefinition, canonical_json,
};

use super::*;
use crate::mapping::StreamProgress;

const WHOLE: ComposeOptions = ComposeOptions { streaming: false, structured_output: true };

fn body(request: &Request, manner: ComposeOptions) -> Value {
    OpenAiMapping.compose_request("m", request, manner).unwrap().body
}

fn messages(messages: Vec<ChatMessage>) -> Value {
    let request = Request::new(messages.into_iter().map(Arc::new).collect());
    body(&request, WHOLE)["messages"].clone()
}

fn question() -> Request {
    Request::new(vec![Arc::new(ChatMessage::user("Hi"))])
}

// spec: llm-provider §8.1.1
#[test]
fn messages_of_every_role_are_written() {
    let call =
        ToolCall::new("id", "calculate", serde_json::from_value(json!({ "b": 1, "a": "2+2" })).unwrap());
    let written = messages(vec![
        ChatMessage::system("Be brief."),
        ChatMessage::user("2+2?"),
        ChatMessage::assistant("").with_tool_calls([call]),
        ChatMessage::tool("id", ""),
        ChatMessage::assistant("4."),
        ChatMessage::user("Sure?"),
    ]);
    let expected = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "2+2?" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "id", "type": "function", "function": { "name": "calculate", "arguments": r#"{"a":"2+2","b":1}"# } }
        ] },
        { "role": "tool", "content": "", "tool_call_id": "id" },
        { "role": "assistant", "content": "4." },
        { "role": "user", "content": "Sure?" },
    ]);
    assert_eq!(written, expected);
}

// spec: llm-provider §8.1.1.1; fixtures 009, 011
#[test]
fn blocks_of_a_user_are_parts_also_when_there_is_one() {
    let image = |source, media_type: Option<&str>, detail| ContentBlock::Image {
        source,
        media_type: media_type.map(str::to_owned),
        detail,
    };
    let blocks = vec![
        ContentBlock::from_text("What is it?"),
        image(
            ImageContentSource::Url { url: "https://example.com/x.png".to_owned() },
            Some("image/png"),
            None,
        ),
        image(
            ImageContentSource::Inline { base64_data: "AAAA".to_owned() },
            Some("image/webp"),
            Some(ImageDetailLevel::High),
        ),
    ];
    let expected = json!([{ "role": "user", "content": [
        { "type": "text", "text": "What is it?" },
        { "type": "image_url", "image_url": { "url": "https://example.com/x.png" } },
        { "type": "image_url", "image_url": { "url": "data:image/webp;base64,AAAA", "detail": "high" } },
    ] }]);
    assert_eq!(messages(vec![ChatMessage::user(blocks)]), expected);
    let one = messages(vec![ChatMessage::user(vec![ContentBlock::from_text("Hi")])]);
    assert_eq!(one, json!([{ "role": "user", "content": [{ "type": "text", "text": "Hi" }] }]));
}

// spec: llm-provider §3.1.7, §8.1.1; fixture 053
#[test]
fn reasoning_and_signatures_of_others_are_left_out() {
    let signed = |text: &str| ContentBlock::Text { text: text.to_owned(), signature: Some("sig".to_owned()) };
    let thinking = ContentBlock::Thinking { text: "Hm.".to_owned(), signature: Some("sig".to_owned()) };
    let redacted = ContentBlock::RedactedThinking { data: "blob".to_owned() };
    let call = ToolCall { signature: Some("sig".to_owned()), ..ToolCall::new("id", "f", Map::new()) };
    let written = messages(vec![
        ChatMessage::user("a"),
        ChatMessage::assistant(vec![thinking.clone(), signed("b"), signed("c")]).with_tool_calls([call]),
        ChatMessage::tool("id", "d"),
        ChatMessage::assistant(vec![thinking, redacted]),
        ChatMessage::user("e"),
    ]);
    let text = written.to_string();
    assert!(!text.contains("sig") && !text.contains("Hm.") && !text.contains("blob"), "{text}");
    assert_eq!(written[1]["content"], "bc");
    // Nothing is left of the message that was only reasoning.
    assert_eq!(written[3], json!({ "role": "user", "content": "e" }));
}

#[test]
fn a_call_that_could_not_be_read_is_sent_back_without_arguments() {
    let call = ToolCall { arguments: None, ..ToolCall::new("id", "f", Map::new()) };
    let written = messages(vec![
        ChatMessage::user("a"),
        ChatMessage::assistant("").with_tool_calls([call]),
        ChatMessage::tool("id", "failed"),
    ]);
    assert_eq!(written[1]["tool_calls"][0]["function"]["arguments"], "{}");
}

// spec: llm-provider §6, null-skip; §8.1.1; fixture 005
#[test]
fn what_is_not_set_is_not_sent() {
    assert_eq!(
        body(&question(), WHOLE),
        json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] })
    );
    let mut request = question();
    request.config.temperature = Some(0.7);
    request.config.max_tokens = Some(100);
    request.config.top_p = Some(0.95);
    request.config.seed = Some(42);
    request.config.frequency_penalty = Some(0.5);
    request.config.presence_penalty = Some(-0.5);
    request.config.stop_sequences = Some(vec!["STOP".to_owned()]);
    request.config.extras.insert("repetition_penalty".to_owned(), json!(1.05));
    let expected = json!({
        "model": "m", "messages": [{ "role": "user", "content": "Hi" }], "temperature": 0.7, "max_tokens": 100, "top_p": 0.95,
        "seed": 42, "frequency_penalty": 0.5, "presence_penalty": -0.5, "stop": ["STOP"], "repetition_penalty": 1.05
    });
    assert_eq!(body(&request, WHOLE), expected);
}

// spec: llm-provider §8.1.1, §8.1.6; fixtures 030, 059
#[test]
fn tools_the_choice_among_them_and_streaming_are_written() {
    let tool = ToolDefinition::new("f", "Does it.", json!({ "type": "object", "properties": {} })).unwrap();
    let written = json!([{ "type": "function", "function": { "name": "f", "description": "Does it.", "parameters": { "type": "object", "properties": {} } } }]);
    let forced = json!({ "type": "function", "function": { "name": "f" } });
    let choices = [
        (ToolChoicePolicy::Auto, json!("auto")),
        (ToolChoicePolicy::Required, json!("required")),
        (ToolChoicePolicy::None, json!("none")),
        (ToolChoicePolicy::Tool("f".to_owned()), forced),
    ];
    for (choice, expected) in choices {
        let request = question().with_tools(vec![tool.clone()]).with_tool_choice(choice);
        let body = body(&request, ComposeOptions { streaming: true, structured_output: true });
        assert_eq!((&body["tools"], &body["tool_choice"]), (&written, &expected));
        assert_eq!(
            (&body["stream"], &body["stream_options"]),
            (&json!(true), &json!({ "include_usage": true }))
        );
    }
}

// spec: llm-provider §8.1.5; fixtures 027, 028, 072
#[test]
fn a_schema_is_sent_natively_or_written_into_the_system_message() {
    let schema = json!({ "type": "object", "properties": { "v": { "type": "integer" } }, "required": ["v"], "additionalProperties": false });
    let request = question().with_response_schema(Arc::new(Schema::compile(schema.clone()).unwrap()));
    let native = body(&request, WHOLE)["response_format"].clone();
    assert_eq!(
        (&native["type"], &native["json_schema"]["schema"], &native["json_schema"]["strict"]),
        (&json!("json_schema"), &schema, &json!(true))
    );
    let fallback = ComposeOptions { streaming: false, structured_output: false };
    let mut with_extra = request.clone();
    with_extra.config.extras.insert("response_format".to_owned(), json!({ "type": "json_object" }));
    assert_eq!(
        OpenAiMapping.compose_request("m", &with_extra, WHOLE).unwrap_err().category(),
        "provider_invalid_request"
    );
    let body = body(&with_extra, fallback);
    assert_eq!(body["response_format"], json!({ "type": "json_object" }));
    assert!(body["messages"][0]["content"].as_str().unwrap().contains(&canonical_json(&schema)));
    assert_eq!(request.messages.len(), 1);
}

fn answer(message: Value, usage: Value) -> Value {
    json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": usage })
}

// spec: llm-provider §7, malformed usage counter; fixtures 068, 069
#[test]
fn a_malformed_counter_is_not_reported_and_stays_as_it_was_on_raw() {
    for bad in [json!("5"), json!(5.0), json!(-1), json!(true), json!(null), json!([5]), json!(1e3)] {
        let usage = json!({ "prompt_tokens": bad, "completion_tokens": 5, "total_tokens": 15, "prompt_tokens_details": { "cached_tokens": bad } });
        let response = response::read_response(answer(json!({ "content": "a" }), usage.clone())).unwrap();
        let told = (
            response.usage.prompt_tokens,
            response.usage.completion_tokens,
            response.usage.total_tokens,
            response.usage.cached_tokens,
        );
        assert_eq!(told, (None, Some(5), Some(15), None), "{bad}");
        assert_eq!(response.raw["usage"], usage);
    }
    for bad in [json!(null), json!(7), json!([]), json!("x"), json!({})] {
        assert_eq!(
            response::read_response(answer(json!({ "content": "a" }), bad)).unwrap().usage,
            singletree_llm::TokenUsage::default()
        );
    }
}

// spec: llm-provider §8.1.2, §6 raw
#[test]
fn raw_is_the_body_verbatim() {
    let body = json!({ "id": "x", "own": { "a": [1.5] }, "choices": [{ "message": { "content": "a" }, "finish_reason": "stop", "logprobs": { "b": 1 } }] });
    assert_eq!(response::read_response(body.clone()).unwrap().raw, body);
}

#[test]
fn an_answer_that_is_none_is_refused() {
    let bodies = [
        json!(null),
        json!([]),
        json!("x"),
        json!({}),
        json!({ "choices": [] }),
        json!({ "choices": {} }),
        json!({ "choices": [{}] }),
        json!({ "choices": [{ "message": "x" }] }),
        json!({ "choices": [{ "message": { "content": 5 } }] }),
        json!({ "choices": [{ "message": { "tool_calls": 5 } }] }),
        json!({ "choices": [{ "message": { "tool_calls": [{}] } }] }),
    ];
    for body in bodies {
        assert_eq!(
            response::read_response(body.clone()).unwrap_err().category(),
            "provider_invalid_response",
            "{body}"
        );
    }
}

// spec: llm-provider §5 ready; fixture 007
#[test]
fn a_probe_tells_unknown_from_not_loaded() {
    let of = |status: Value| json!({ "data": [{ "id": "other" }, { "id": "m", "status": status }] });
    let check = |body: Value, expected: Result<(), &str>| {
        assert_eq!(OpenAiMapping.read_probe("m", &body).map_err(|it| it.category()), expected, "{body}");
    };
    check(of(json!("loaded")), Ok(()));
    check(of(json!(null)), Ok(()));
    check(of(json!("not_loaded")), Err("provider_model_not_loaded"));
    check(of(json!("loading")), Err("provider_model_not_loaded"));
    check(json!({ "data": [{ "id": "other" }] }), Err("provider_invalid_model"));
    check(json!({ "data": [] }), Err("provider_invalid_model"));
    check(json!({ "models": [] }), Err("provider_invalid_response"));
}

#[test]
fn how_long_to_wait_is_kept_whatever_the_category() {
    let refusal = FailedResponse { status: 503, body: None, retry_after: Some(Duration::from_secs(9)) };
    let error = refusal::classify_failure(&refusal);
    assert_eq!(
        (error.category(), error.http_status(), error.retry_after()),
        ("provider_unavailable", Some(503), Some(Duration::from_secs(9)))
    );
    assert_eq!(error.to_string(), "the server answered 503");
}

fn json_like() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "index",
        "id",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "usage",
        "error",
        "code",
        "refusal",
        "reasoning",
    ]);
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!("stop")),
        Just(json!("{")),
        Just(json!(true))
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|it| it.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_answer_makes_the_mapping_panic(body in json_like()) {
        let read = response::read_response(body.clone());
        prop_assert!(read.is_err() || body.get("choices").is_some());
        let refusal = FailedResponse { status: 400, body: Some(&body), retry_after: None };
        prop_assert!(!refusal::classify_failure(&refusal).category().is_empty());
        prop_assert!(OpenAiMapping.read_probe("m", &body).is_err());
    }

    #[test]
    fn no_chunks_make_the_decoder_panic_or_finish_twice(chunks in prop::collection::vec(json_like(), 0..6)) {
        let mut decoder = stream::ChunkDecoder::default();
        let mut out = Vec::new();
        let failed = chunks.iter().any(|it| decoder.decode_event(None, &it.to_string(), &mut out).is_err());
        if !failed {
            let done = decoder.decode_event(None, "[DONE]", &mut out);
            prop_assert!(matches!(done, Ok(StreamProgress::Done) | Err(_)));
        }
        let finishes = out.iter().filter(|it| matches!(it, ResponseDelta::Finish { .. })).count();
        prop_assert!(finishes <= 1);
    }
}
