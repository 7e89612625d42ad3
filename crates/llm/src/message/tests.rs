//! Reading, writing and checking messages.

use serde_json::json;

use super::*;
use crate::content::ContentBlock;

fn refused(value: Value, expected: &str) {
    let error = ChatMessage::from_json(value.clone()).expect_err(&value.to_string());
    assert_eq!(error.category(), "provider_invalid_request");
    assert_eq!(error.to_string(), expected, "{value}");
}

// spec: llm-provider §3
#[test]
fn a_malformed_message_is_refused_by_field_path() {
    let blocks = |block: Value| json!({"role": "user", "content": [{"type": "text", "text": "x"}, block]});
    for (value, expected) in [
        (json!(3), "must be an object, not a number"),
        (json!({"content": "x"}), "role: is required"),
        (
            json!({"role": "bot", "content": "x"}),
            "role: must be system, user, assistant or tool, not \"bot\"",
        ),
        (json!({"role": "user"}), "content: is required on a user message"),
        (json!({"role": "user", "content": null}), "content: is required on a user message"),
        (json!({"role": "user", "content": ""}), "content: must not be empty on a user message"),
        (json!({"role": "user", "content": []}), "content: must not be empty on a user message"),
        (
            json!({"role": "user", "content": 1}),
            "content: must be a string or a list of content blocks, not a number",
        ),
        (json!({"role": "user", "content": "x", "name": "y"}), "name: is not a known field"),
        (
            json!({"role": "user", "content": "x", "tool_calls": []}),
            "tool_calls: must be absent on a user message",
        ),
        (
            json!({"role": "user", "content": "x", "tool_call_id": "a"}),
            "tool_call_id: must be absent on a user message",
        ),
        (blocks(json!({"type": "text", "text": ""})), "content[1].text: must not be empty"),
        (blocks(json!({"type": "text"})), "content[1].text: is required"),
        (
            blocks(json!({"type": "audio"})),
            "content[1].type: must be text, image, thinking or redacted_thinking, not \"audio\"",
        ),
        (
            blocks(json!({"type": "thinking", "text": "hm"})),
            "content[1]: a thinking block is not allowed here",
        ),
        (blocks(json!({"type": "image"})), "content[1].source: is required"),
        (
            blocks(json!({"type": "image", "source": {"type": "inline", "base64_data": "AA"}})),
            "content[1].media_type: is required for an inline image",
        ),
        (
            blocks(json!({"type": "image", "source": {"type": "url", "url": "u", "base64_data": "A"}})),
            "content[1].source.base64_data: is not a known field",
        ),
        (
            blocks(json!({"type": "image", "source": {"type": "url", "url": "u"}, "detail": "ultra"})),
            "content[1].detail: must be auto, low or high, not \"ultra\"",
        ),
    ] {
        refused(value, expected);
    }
}

// spec: llm-provider §3
#[test]
fn each_role_has_its_own_rules() {
    for (value, expected) in [
        (
            json!({"role": "system", "content": [{"type": "text", "text": "x"}]}),
            "content: must be a string on a system message",
        ),
        (json!({"role": "system", "content": ""}), "content: must not be empty on a system message"),
        (
            json!({"role": "assistant"}),
            "content: must not be empty on an assistant message without tool calls",
        ),
        (
            json!({"role": "assistant", "content": [{"type": "image", "source": {"type": "url", "url": "u"}}]}),
            "content[0]: a image block is not allowed here",
        ),
        (
            json!({"role": "assistant", "tool_calls": [{"id": "a", "name": "t"}]}),
            "tool_calls[0].arguments: is required (null when not readable)",
        ),
        (
            json!({"role": "assistant", "tool_calls": [
                {"id": "a", "name": "t", "arguments": {}}, {"id": "a", "name": "t", "arguments": {}}]}),
            "tool_calls[1].id: \"a\" is used twice in one message",
        ),
        (
            json!({"role": "assistant", "tool_calls": [{"id": "a", "name": "t", "arguments": "{}"}]}),
            "tool_calls[0].arguments: must be an object or null, not a string",
        ),
        (json!({"role": "tool", "content": "x"}), "tool_call_id: is required on a tool message"),
        (json!({"role": "tool", "tool_call_id": "a"}), "content: is required on a tool message"),
        (
            json!({"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}]}),
            "content: must be a string on a tool message",
        ),
    ] {
        refused(value, expected);
    }
}

// spec: llm-provider §3
#[test]
fn a_valid_message_reads_and_is_written_with_absent_fields_omitted() {
    let call = json!({"id": "a", "name": "t", "arguments": {"x": [1]}, "signature": "s"});
    for (value, written) in [
        (json!({"role": "user", "content": "x", "tool_calls": null}), None),
        (json!({"role": "tool", "tool_call_id": "a", "content": ""}), None),
        (json!({"role": "assistant", "content": null, "tool_calls": [call]}), None),
        (json!({"role": "assistant", "content": "", "tool_calls": [call]}), None),
        (json!({"role": "assistant", "content": [], "tool_calls": [call]}), None),
        (
            json!({"role": "assistant", "content": [
            {"type": "thinking", "text": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "x", "signature": "s"}]}),
            None,
        ),
        (
            json!({"role": "user", "content": [
            {"type": "image", "source": {"type": "inline", "base64_data": "AA"}, "media_type": "image/png"},
            {"type": "image", "source": {"type": "url", "url": "u"}, "detail": "low"}]}),
            None,
        ),
    ]
    .into_iter()
    .map(|(value, _): (Value, Option<Value>)| {
        let mut written = value.clone();
        let fields = written.as_object_mut().expect("an object");
        let empty = |it: &Value| it.is_null() || it == "" || *it == json!([]);
        fields.retain(|name, it| {
            !it.is_null() && !(empty(it) && (name != "content" || value["role"] == "assistant"))
        });
        (value, written)
    }) {
        let message = ChatMessage::from_json(value.clone()).expect("valid");
        assert_eq!(serde_json::to_value(&message).expect("writes"), written, "{value}");
    }
}

// spec: llm-provider §3.1.1
#[test]
fn one_unsigned_text_block_is_equal_to_its_string() {
    let signed = ContentBlock::Text { text: "x".to_owned(), signature: Some("s".to_owned()) };
    let one = ChatMessage::user(vec![ContentBlock::from_text("x")]);
    assert_eq!(one, ChatMessage::user("x"));
    assert_ne!(one, ChatMessage::user("y"));
    assert_ne!(ChatMessage::assistant(vec![signed]), ChatMessage::assistant("x"));
    let two = ChatMessage::user(vec![ContentBlock::from_text("x"), ContentBlock::from_text("y")]);
    assert_ne!(two, ChatMessage::user("xy"));
    assert_eq!(two.text(), "xy");
}

#[test]
fn the_debug_text_of_a_picture_holds_no_picture() {
    let message = ChatMessage::from_json(json!({"role": "user", "content": [
        {"type": "image", "source": {"type": "inline", "base64_data": "SECRET"}, "media_type": "image/png"},
        {"type": "image", "source": {"type": "url", "url": "data:image/png;base64,SECRET"}}]}))
    .expect("valid");
    assert!(!format!("{message:?}").contains("SECRET"));
}
