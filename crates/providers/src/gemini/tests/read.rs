//! Answers that come whole (spec: llm-provider §8.3.2).

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, ContentBlock, Map, MessageContent, ModelFinishReason, Response, TokenUsage, ToolCall,
};

use super::{asked, parts, read};

const USAGE: TokenUsage = TokenUsage {
    prompt_tokens: Some(5),
    completion_tokens: Some(2),
    total_tokens: Some(7),
    cached_tokens: None,
    cache_creation_tokens: None,
};

#[track_caller]
fn check(content: Value, finish: &str, message: ChatMessage, reason: ModelFinishReason) {
    let body = parts(content, finish);
    assert_eq!(read(body.clone()).unwrap(), Response::new(message, reason, USAGE, body));
}

fn call(id: &str, signature: Option<&str>) -> ToolCall {
    let arguments: Map = json!({"x": 1}).as_object().unwrap().clone();
    ToolCall { signature: signature.map(str::to_owned), ..ToolCall::new(id, "t", arguments) }
}

#[test]
fn one_text_part_is_a_string_and_so_are_its_pieces() {
    check(json!([{"text": "Hi."}]), "STOP", ChatMessage::assistant("Hi."), ModelFinishReason::Stop);
    let pieces = json!([{"text": "Hi"}, {"text": ""}, {"text": "."}]);
    check(pieces, "STOP", ChatMessage::assistant("Hi."), ModelFinishReason::Stop);
}

// spec: llm-provider §8.3.2 (thought-signature capture)
#[test]
fn signatures_stay_with_their_parts() {
    let content = json!([
        {"text": "hm", "thought": true},
        {"text": "See.", "thoughtSignature": "s1"},
        {"text": " And"},
        {"text": "", "thoughtSignature": "s2"},
        {"functionCall": {"name": "t", "id": "a", "args": {"x": 1}}, "thoughtSignature": "s3"},
        {"functionCall": {"name": "t", "id": "b", "args": {"x": 1}}},
    ]);
    let signed = |text: &str, signature: &str| ContentBlock::Text {
        text: text.to_owned(),
        signature: Some(signature.to_owned()),
    };
    let thought = ContentBlock::Thinking { text: "hm".to_owned(), signature: None };
    let message = ChatMessage::assistant(vec![thought, signed("See.", "s1"), signed(" And", "s2")])
        .with_tool_calls([call("a", Some("s3")), call("b", None)]);
    check(content, "STOP", message, ModelFinishReason::ToolCalls);
}

#[test]
fn a_call_without_arguments_has_none_and_odd_ones_are_unreadable() {
    let content = json!([
        {"functionCall": {"name": "t", "id": "a"}},
        {"functionCall": {"name": "t", "id": "b", "args": null}},
        {"functionCall": {"name": "t", "id": "c", "args": [1]}},
    ]);
    let with = |id: &str, arguments| ToolCall { arguments, ..call(id, None) };
    let calls = [with("a", Some(Map::new())), with("b", Some(Map::new())), with("c", None)];
    let message = ChatMessage::assistant(MessageContent::Text(String::new())).with_tool_calls(calls);
    let body = parts(content, "STOP");
    let response = Response::new(message, ModelFinishReason::ToolCalls, USAGE, body.clone());
    assert_eq!(read(body).unwrap(), response.with_unread_arguments(2, "[1]"));
}

#[test]
fn every_finish_reason_has_its_word() {
    for (told, reason) in [
        ("STOP", ModelFinishReason::Stop),
        ("MAX_TOKENS", ModelFinishReason::Length),
        ("SAFETY", ModelFinishReason::ContentFilter),
        ("RECITATION", ModelFinishReason::ContentFilter),
        ("BLOCKLIST", ModelFinishReason::ContentFilter),
        ("PROHIBITED_CONTENT", ModelFinishReason::ContentFilter),
        ("SPII", ModelFinishReason::ContentFilter),
        ("MALFORMED_FUNCTION_CALL", ModelFinishReason::Error),
        ("IMAGE_SAFETY", ModelFinishReason::Error),
        ("SOMETHING_NEW", ModelFinishReason::Error),
    ] {
        check(json!([{"text": "t"}]), told, ChatMessage::assistant("t"), reason);
        let message = ChatMessage::assistant("").with_tool_calls([call("a", None)]);
        let content = json!([{"functionCall": {"name": "t", "id": "a", "args": {"x": 1}}}]);
        check(content, told, message, ModelFinishReason::ToolCalls);
    }
}

#[test]
fn parts_that_are_no_part_of_a_message_stay_on_raw() {
    let content = json!([
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"text": "Done."},
    ]);
    check(content, "STOP", ChatMessage::assistant("Done."), ModelFinishReason::Stop);
}

#[test]
fn a_blocked_prompt_is_filtered_content() {
    let body = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}});
    let response = read(body.clone()).unwrap();
    let usage = TokenUsage { prompt_tokens: Some(5), ..TokenUsage::default() };
    let message = ChatMessage::assistant(MessageContent::Text(String::new()));
    assert_eq!(response, Response::new(message, ModelFinishReason::ContentFilter, usage, body));
    assert_eq!(response.validate_against(&asked()).unwrap_err().category(), "provider_invalid_response");
}

// spec: llm-provider §7 (malformed usage counter)
#[test]
fn a_counter_that_is_none_is_not_reported_and_the_others_stand() {
    let all = json!({"promptTokenCount": 5, "candidatesTokenCount": "2", "totalTokenCount": 7, "cachedContentTokenCount": 0});
    for (told, usage) in [
        (all, TokenUsage { completion_tokens: None, cached_tokens: Some(0), ..USAGE }),
        (json!({"promptTokenCount": -5, "totalTokenCount": 7.5}), TokenUsage::default()),
        (json!(null), TokenUsage::default()),
        (
            json!({"promptTokenCount": 5, "thoughtsTokenCount": 9}),
            TokenUsage { prompt_tokens: Some(5), ..TokenUsage::default() },
        ),
    ] {
        let mut body = parts(json!([{"text": "t"}]), "STOP");
        body["usageMetadata"] = told.clone();
        let response = read(body).unwrap();
        assert_eq!(response.usage, usage, "{told}");
        assert_eq!(response.raw["usageMetadata"], told);
    }
}

#[test]
fn what_is_no_answer_is_an_invalid_response() {
    let mut unfinished = parts(json!([{"text": "t"}]), "STOP");
    unfinished["candidates"][0]["finishReason"] = Value::Null;
    for body in [
        json!(null),
        json!([]),
        json!({}),
        json!({"candidates": {}}),
        json!({"candidates": []}),
        json!({"candidates": [1]}),
        unfinished,
        parts(json!({}), "STOP"),
        parts(json!(["t"]), "STOP"),
        parts(json!([{"text": 1}]), "STOP"),
        parts(json!([{"functionCall": {"id": "a"}}]), "STOP"),
    ] {
        assert_eq!(read(body.clone()).unwrap_err().category(), "provider_invalid_response", "{body}");
    }
}
