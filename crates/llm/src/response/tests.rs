//! Responses before they are believed.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::Map;
use crate::tool::ToolDefinition;

fn request() -> Request {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = ToolDefinition::new("t", "a tool", schema).expect("valid");
    Request::new(vec![Arc::new(ChatMessage::user("u"))]).with_tools([tool])
}

fn calling(name: &str, arguments: Option<Value>) -> ChatMessage {
    let arguments = arguments.map(|it| it.as_object().expect("an object").clone());
    let call = ToolCall { arguments, ..ToolCall::new("x", name, Map::new()) };
    ChatMessage::assistant("").with_tool_calls([call])
}

fn answer(message: ChatMessage, reason: ModelFinishReason) -> Response {
    Response::new(message, reason, TokenUsage::default(), json!({}))
}

// spec: llm-provider §3, §7
#[test]
fn a_malformed_response_is_refused_unless_it_says_that_it_failed() {
    for (message, reason, expected) in [
        (ChatMessage::assistant("a"), ModelFinishReason::Stop, None),
        (calling("t", Some(json!({"n": 1}))), ModelFinishReason::ToolCalls, None),
        (
            calling("u", Some(json!({}))),
            ModelFinishReason::ToolCalls,
            Some("response message.tool_calls[0].name: \"u\" is not a tool of this request"),
        ),
        (
            calling("t", Some(json!({"n": "1"}))),
            ModelFinishReason::ToolCalls,
            Some("response message.tool_calls[0].arguments: at /n: value is not of type \"integer\""),
        ),
        (
            calling("t", None),
            ModelFinishReason::Length,
            Some(
                "response message.tool_calls[0].arguments: are no JSON object (the model hit its token budget)",
            ),
        ),
        (
            ChatMessage::assistant(""),
            ModelFinishReason::ContentFilter,
            Some(
                "response message.content: must not be empty on an assistant message without tool calls (the provider's filter stepped in)",
            ),
        ),
        (ChatMessage::user("a"), ModelFinishReason::Stop, Some("response message.role: must be assistant")),
    ] {
        let response = answer(message, reason);
        let found = response.clone().validate_against(&request());
        assert_eq!(found.map_err(|it| it.to_string()).err().as_deref(), expected);
        let failed = Response { finish_reason: ModelFinishReason::Error, ..response };
        assert_eq!(failed.clone().validate_against(&request()).expect("passes"), failed);
    }
}

#[test]
fn arguments_deeper_than_a_chat_can_store_are_refused_at_any_place_in_them() {
    let tool = ToolDefinition::new("t", "a tool", json!({"type": "object"})).expect("valid");
    let request = Request::new(vec![Arc::new(ChatMessage::user("u"))]).with_tools([tool]);
    let deep = |levels: usize| (1..levels).fold(json!(1), |inner, _| json!([0, inner]));
    for (levels, fits) in [(1, true), (60, true), (61, false), (127, false)] {
        let call = calling("t", Some(json!({"a": 1, "b": deep(levels), "c": []})));
        let found = answer(call, ModelFinishReason::ToolCalls).validate_against(&request);
        let problem = "response message.tool_calls[0].arguments: have more than 60 levels";
        assert_eq!(found.err().map(|it| it.to_string()), (!fits).then(|| problem.to_owned()), "{levels}");
    }
}

// spec: llm-provider §5, §7
#[test]
fn structured_output_is_parsed_or_refused_with_what_was_said() {
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    let request =
        request().with_response_schema(Arc::new(Schema::compile(schema.clone()).expect("compiles")));
    let good = answer(ChatMessage::assistant(r#"{ "age": 3 }"#), ModelFinishReason::Stop);
    assert_eq!(good.validate_against(&request).expect("fits").parsed, Some(json!({"age": 3})));
    let calls = answer(calling("t", Some(json!({"n": 1}))), ModelFinishReason::ToolCalls);
    assert_eq!(calls.validate_against(&request).expect("fits").parsed, None);

    for (content, reason, message) in [
        ("{}", ModelFinishReason::Stop, "at the root: \"age\" is a required property"),
        (r#"{"age": "x"}"#, ModelFinishReason::Stop, "at /age: value is not of type \"integer\""),
        (r#"{"age": "#, ModelFinishReason::Length, "no JSON: EOF while parsing a value at line 1 column 8"),
    ] {
        let error =
            answer(ChatMessage::assistant(content), reason).validate_against(&request).expect_err("refused");
        assert_eq!(error.category(), "structured_output_invalid");
        assert!(!error.is_transient());
        let Error::StructuredOutputInvalid(found) = error else { panic!("{error:?}") };
        let expected = InvalidOutput {
            response_schema: schema.clone(),
            output_content: content.to_owned(),
            error_message: message.to_owned(),
            finish_reason: reason,
            usage: TokenUsage::default(),
            response_id: None,
            response_model: None,
        };
        assert_eq!(*found, expected);
    }
}

// Ruling D30
#[test]
fn an_error_carries_the_response_that_was_refused_and_shows_nothing_of_it() {
    let response = answer(calling("secret-name", None), ModelFinishReason::ToolCalls);
    let response = response.with_unread_arguments(0, &"é".repeat(2000));
    let error = response.clone().validate_against(&request()).expect_err("it is refused");
    assert_eq!(error.refused_response(), Some(&response));
    assert_eq!(response.unread_arguments[&0].len(), crate::UNREAD_ARGUMENTS_MAX);
    assert!(!format!("{error:?}").contains("ééé"), "{error:?}");
    let redacted = error.map_diagnostic(|text| text.replace("secret-name", "***"));
    assert!(!redacted.to_string().contains("secret-name"));
    assert_eq!(redacted.refused_response(), Some(&response));
}
