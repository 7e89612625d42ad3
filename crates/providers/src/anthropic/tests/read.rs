//! Answers that come whole (spec: llm-provider §8.2.2).

use serde_json::{Value, json};
use singletree_llm::{
    ChatMessage, ContentBlock, MessageContent, ModelFinishReason, Response, Result, TokenUsage, ToolCall,
};

use super::{AnthropicMapping, OLD, WireMapping, asked, compose, read, schema};

fn body(content: Value, stop_reason: &str) -> Value {
    json!({
        "type": "message", "id": "m", "model": "claude-test", "role": "assistant", "content": content,
        "stop_reason": stop_reason, "usage": {"input_tokens": 12, "output_tokens": 3},
    })
}

const USAGE: TokenUsage = TokenUsage {
    prompt_tokens: Some(12),
    completion_tokens: Some(3),
    total_tokens: Some(15),
    cached_tokens: None,
    cache_creation_tokens: None,
};

#[track_caller]
fn check(content: Value, stop_reason: &str, message: ChatMessage, reason: ModelFinishReason) {
    let body = body(content, stop_reason);
    assert_eq!(read(body.clone()).unwrap(), Response::new(message, reason, USAGE, body));
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn one_text_block_is_a_string() {
    check(json!([text("Hi.")]), "end_turn", ChatMessage::assistant("Hi."), ModelFinishReason::Stop);
}

#[test]
fn text_in_pieces_is_one_text_and_the_pieces_stay_on_raw() {
    check(
        json!([text("Hi, "), text("you.")]),
        "end_turn",
        ChatMessage::assistant("Hi, you."),
        ModelFinishReason::Stop,
    );
}

#[test]
fn calls_leave_the_content_and_keep_their_order() {
    let content = json!([
        text("See."),
        {"type": "tool_use", "id": "b", "name": "two", "input": {"x": 0.1, "y": [1]}},
        {"type": "tool_use", "id": "a", "name": "one", "input": {}},
        {"type": "tool_use", "id": "c", "name": "odd", "input": "no object"},
    ]);
    let arguments = |value: Value| value.as_object().unwrap().clone();
    let mut odd = ToolCall::new("c", "odd", arguments(json!({})));
    odd.arguments = None;
    let calls = [
        ToolCall::new("b", "two", arguments(json!({"x": 0.1, "y": [1]}))),
        ToolCall::new("a", "one", arguments(json!({}))),
        odd,
    ];
    let message = ChatMessage::assistant("See.").with_tool_calls(calls);
    let body = body(content, "tool_use");
    let response = Response::new(message, ModelFinishReason::ToolCalls, USAGE, body.clone());
    assert_eq!(read(body).unwrap(), response.with_unread_arguments(2, "\"no object\""));
}

// spec: llm-provider §3.1.4, §3.1.5
#[test]
fn thinking_keeps_its_signature_and_its_place_also_when_its_text_is_withheld() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "thinking", "thinking": "", "signature": "s2"},
        text("Yes."),
    ]);
    let blocks = vec![
        ContentBlock::Thinking { text: "hm".to_owned(), signature: Some("s1".to_owned()) },
        ContentBlock::RedactedThinking { data: "blob".to_owned() },
        ContentBlock::RedactedThinking { data: "thinking-signature:s2".to_owned() },
        ContentBlock::from_text("Yes."),
    ];
    check(content, "end_turn", ChatMessage::assistant(blocks), ModelFinishReason::Stop);
}

#[test]
fn blocks_that_are_no_part_of_a_message_stay_on_raw() {
    let content = json!([
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        text("Found."),
    ]);
    check(content, "end_turn", ChatMessage::assistant("Found."), ModelFinishReason::Stop);
}

#[test]
fn every_stop_reason_has_its_word() {
    for (told, reason) in [
        ("end_turn", ModelFinishReason::Stop),
        ("stop_sequence", ModelFinishReason::Stop),
        ("pause_turn", ModelFinishReason::Stop),
        ("max_tokens", ModelFinishReason::Length),
        ("tool_use", ModelFinishReason::ToolCalls),
        ("refusal", ModelFinishReason::ContentFilter),
        ("something_new", ModelFinishReason::Error),
    ] {
        check(json!([text("t")]), told, ChatMessage::assistant("t"), reason);
    }
    check(
        json!([]),
        "refusal",
        ChatMessage::assistant(MessageContent::Text(String::new())),
        ModelFinishReason::ContentFilter,
    );
}

// spec: llm-provider §7 (malformed usage counter), §8.2.2
#[test]
fn a_counter_that_is_none_takes_the_sum_with_it_and_nothing_else() {
    let none = TokenUsage::default();
    for (told, usage) in [
        (
            json!({"input_tokens": "abc", "output_tokens": 7}),
            TokenUsage { completion_tokens: Some(7), ..none },
        ),
        (json!({"input_tokens": 7, "output_tokens": -1}), TokenUsage { prompt_tokens: Some(7), ..none }),
        (json!({"input_tokens": 7}), TokenUsage { prompt_tokens: Some(7), ..none }),
        (json!({"input_tokens": true, "output_tokens": 1.0}), none),
        (json!(null), none),
        (json!([1]), none),
        (
            json!({"input_tokens": 1, "output_tokens": 0, "cache_read_input_tokens": 9}),
            TokenUsage { prompt_tokens: Some(1), completion_tokens: Some(0), total_tokens: Some(1), ..none },
        ),
    ] {
        let mut body = body(json!([text("t")]), "end_turn");
        body["usage"] = told.clone();
        let response = read(body).unwrap();
        assert_eq!(response.usage, usage, "{told}");
        assert_eq!(response.raw["usage"], told);
    }
}

#[test]
fn what_is_no_answer_is_an_invalid_response() {
    let mut unfinished = body(json!([text("t")]), "end_turn");
    unfinished["stop_reason"] = Value::Null;
    for body in [
        json!(null),
        json!([]),
        json!({}),
        json!({"content": {}}),
        unfinished,
        body(json!(["t"]), "end_turn"),
        body(json!([{"type": "tool_use", "id": "a"}]), "tool_use"),
        body(json!([{"type": "tool_use", "name": "a"}]), "tool_use"),
        body(json!([{"type": "redacted_thinking"}]), "end_turn"),
    ] {
        assert_eq!(read(body.clone()).unwrap_err().category(), "provider_invalid_response", "{body}");
    }
}

fn read_answer(content: Value, stop_reason: &str) -> Result<Response> {
    let request = asked().with_response_schema(schema());
    let composed = compose(&request, OLD).unwrap();
    AnthropicMapping.read_response(body(content, stop_reason), &composed)?.validate_against(&request)
}

// spec: llm-provider §8.2.5.1
#[test]
fn the_made_up_tool_gives_the_answer_and_is_no_call() {
    let answer = json!({"type": "tool_use", "id": "t", "name": "structured_answer", "input": {"value": 42}});
    for content in
        [json!([answer.clone()]), json!([text("Here it is:"), answer.clone()]), json!([answer, text("!")])]
    {
        let response = read_answer(content, "tool_use").unwrap();
        assert_eq!(response.message, ChatMessage::assistant(r#"{"value":42}"#));
        assert_eq!(
            (response.finish_reason, response.parsed),
            (ModelFinishReason::Stop, Some(json!({"value": 42})))
        );
    }
}

#[test]
fn an_answer_outside_the_made_up_tool_counts_if_it_fits() {
    let response = read_answer(json!([text(r#" {"value": 1}"#)]), "end_turn").unwrap();
    assert_eq!(response.message.text(), r#" {"value": 1}"#);
    assert_eq!(response.parsed, Some(json!({"value": 1})));
    let wrong =
        json!([{"type": "tool_use", "id": "t", "name": "structured_answer", "input": {"value": "x"}}]);
    for (content, told) in
        [(json!([text("I cannot.")]), "refusal"), (wrong, "tool_use"), (json!([]), "max_tokens")]
    {
        assert_eq!(read_answer(content, told).unwrap_err().category(), "structured_output_invalid");
    }
    let other = json!([{"type": "tool_use", "id": "t", "name": "another", "input": {}}]);
    assert_eq!(read_answer(other, "tool_use").unwrap_err().category(), "provider_invalid_response");
}
