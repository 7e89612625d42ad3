//! The shapes of the UI message stream.

use serde_json::{Value, json};

use super::*;

#[test]
fn parts_are_named_as_the_version_names_them() {
    let check = |part: StreamPart, expected: Value| assert_eq!(serde_json::to_value(part).unwrap(), expected);
    check(
        StreamPart::Start { message_id: Some("t".into()), message_metadata: None },
        json!({ "type": "start", "messageId": "t" }),
    );
    check(StreamPart::StartStep, json!({ "type": "start-step" }));
    check(
        StreamPart::TextDelta { id: "t/1".into(), delta: "Hi".into() },
        json!({ "type": "text-delta", "id": "t/1", "delta": "Hi" }),
    );
    check(
        StreamPart::ToolInputAvailable {
            tool_call_id: "c".into(),
            tool_name: "look".into(),
            input: json!({}),
            provider_executed: true,
            dynamic: true,
        },
        json!({
            "type": "tool-input-available", "toolCallId": "c", "toolName": "look", "input": {},
            "providerExecuted": true, "dynamic": true,
        }),
    );
    let metadata = Metadata { turn_id: Some("t".into()), ..Metadata::default() };
    check(
        StreamPart::Finish { finish_reason: Some(Cause::ToolCalls), message_metadata: Some(metadata) },
        json!({ "type": "finish", "finishReason": "tool-calls", "messageMetadata": { "turnId": "t" } }),
    );
    check(
        StreamPart::DataSuspended { id: "w".into(), data: json!(1) },
        json!({ "type": "data-suspended", "id": "w", "data": 1 }),
    );
}

#[test]
fn bodies_are_read_whole_or_short() {
    let whole = json!({
        "id": "chat", "trigger": "regenerate-message", "messageId": "m", "mood": 1,
        "messages": [
            { "id": "u", "role": "user", "parts": [{ "type": "text", "text": "hi" }], "metadata": {} },
            { "id": "a", "role": "assistant", "parts": [{ "type": "step-start" }, { "type": "data-x", "data": 1 }] },
        ],
    });
    let read: Posted = serde_json::from_value(whole).unwrap();
    assert_eq!(
        (read.id.as_deref(), read.trigger, read.messages.len()),
        (Some("chat"), Trigger::RegenerateMessage, 2)
    );
    let short = json!({ "sessionId": "s", "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }] } });
    let read: Posted = serde_json::from_value(short).unwrap();
    assert_eq!((read.session_id.as_deref(), read.trigger), (Some("s"), Trigger::SubmitMessage));
    assert_eq!(read.message.unwrap().parts[0].text.as_deref(), Some("hi"));
}
