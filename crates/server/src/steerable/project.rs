//! Converts messages of a history to the form of the specification. A projection: the stored history never changes.

use serde_json::{Map, Value, json};
use singletree_durable::Timestamp;
use singletree_harness::{FailedTurnEntry, MessageId, TranscriptEntry};
use singletree_llm as llm;
use singletree_protocol::steerable::{ChatMessage, ContentPart, Role, ToolCall, ToolResult};

use crate::fold::{agent_from_side, has_call_succeeded};
use crate::native::{convert_bucket, convert_time};

/// Converts the messages of one chat, in their order.
#[derive(Debug)]
pub(super) struct SteerableProjection<'a> {
    chat: &'a str,
    /// The time of the last message. Times never go back: a message that waited in the queue gets the time of the
    /// message that it waited for.
    at: Timestamp,
}

impl<'a> SteerableProjection<'a> {
    /// Begins with a time before which no message was made.
    pub(super) fn new(chat: &'a str, at: Timestamp) -> Self {
        Self { chat, at }
    }

    /// Converts a message; `None` for a system message, which is not shown.
    pub(super) fn convert_entry(&mut self, entry: &TranscriptEntry) -> Option<ChatMessage> {
        self.at = self.at.max(entry.at.unwrap_or(self.at));
        // A message without the record of its turn is identified by its position, which never changes.
        let id =
            entry.id.as_ref().map_or_else(|| format!("{}:{}", self.chat, entry.seq), ToString::to_string);
        self.convert_message(id, &entry.message, entry.side.as_ref())
    }

    /// Writes a failed turn that is not in the history (D29): its message, the shown part of its answer, and the reason
    /// of the failure as a system message. Each has `failed: true`.
    pub(super) fn convert_failed_turn(&mut self, failed: &FailedTurnEntry) -> Vec<ChatMessage> {
        self.at = self.at.max(failed.turn.accepted_at);
        let turn = &failed.turn.id;
        let own =
            failed.message.as_ref().map(|said| (MessageId { turn: turn.clone(), k: 0 }.to_string(), said));
        let made = failed.made.iter().zip(1_u64..).map(|(said, k)| match failed.message {
            Some(_) => (MessageId { turn: turn.clone(), k }.to_string(), said),
            // The first messages of the turn are part of the history.
            None => (format!("{turn}/failed.{k}"), said),
        });
        let said = own.into_iter().chain(made);
        let mut shown: Vec<ChatMessage> = said
            .filter_map(|(id, (message, side))| self.convert_message(id, message, side.as_ref()))
            .collect();
        for message in &mut shown {
            message.other.insert("failed".to_owned(), true.into());
        }
        self.at = self.at.max(failed.turn.ended_at.unwrap_or(self.at));
        shown.push(self.build_error_message(failed));
        shown
    }

    fn build_error_message(&self, failed: &FailedTurnEntry) -> ChatMessage {
        let error = json!({
            "code": failed.error.error_category,
            "errorBucket": convert_bucket(failed.error.error_bucket),
            "retrySafe": failed.error.retry_safe,
        });
        ChatMessage {
            id: format!("{}/error", failed.turn.id),
            role: Role::System,
            content: failed.error.reply.text().into_owned(),
            created_at: convert_time(self.at).0,
            chat_id: Some(self.chat.to_owned()),
            agent_id: None,
            tool_calls: Vec::new(),
            tool_result: None,
            tool_call_id: None,
            updated_at: None,
            parts: Vec::new(),
            other: Map::from_iter([("failed".to_owned(), true.into()), ("error".to_owned(), error)]),
        }
    }

    /// Converts a message under this id.
    pub(super) fn convert_message(
        &self,
        id: String,
        message: &llm::ChatMessage,
        side: Option<&Value>,
    ) -> Option<ChatMessage> {
        let role = match message.role {
            llm::Role::User => Role::User,
            llm::Role::Assistant => Role::Assistant,
            llm::Role::Tool => Role::Tool,
            llm::Role::System => return None,
        };
        let content = message.text().into_owned();
        let tool_result = message
            .tool_call_id
            .as_deref()
            .map(|call| convert_tool_result(call, has_call_succeeded(message, side), &content));
        let owner = agent_from_side(side).filter(|_| role != Role::User);
        let known = ["interrupted", "finish_reason", "metadata"];
        let beside = known.into_iter().filter_map(|name| Some((name.to_owned(), side?.get(name)?.clone())));
        Some(ChatMessage {
            id,
            role,
            content,
            created_at: convert_time(self.at).0,
            chat_id: Some(self.chat.to_owned()),
            agent_id: owner.map(str::to_owned),
            tool_calls: message.tool_calls.iter().map(convert_tool_call).collect(),
            tool_result,
            tool_call_id: message.tool_call_id.clone(),
            updated_at: None,
            parts: convert_content_parts(&message.content),
            other: beside.collect(),
        })
    }
}

fn convert_tool_call(call: &llm::ToolCall) -> ToolCall {
    let arguments = call.arguments.clone().unwrap_or_default();
    ToolCall { id: call.id.clone(), name: call.name.clone(), arguments }
}

/// Returns the blocks of a message with pictures; an empty list for a message of text.
fn convert_content_parts(content: &llm::MessageContent) -> Vec<ContentPart> {
    let blocks = content.blocks();
    if !blocks.iter().any(|block| matches!(block, llm::ContentBlock::Image { .. })) {
        return Vec::new();
    }
    blocks.iter().filter_map(convert_block).collect()
}

fn convert_block(block: &llm::ContentBlock) -> Option<ContentPart> {
    match block {
        llm::ContentBlock::Text { text, .. } => {
            let (kind, text) = ("text".to_owned(), Some(text.clone()));
            Some(ContentPart { kind, text, url: None, media_type: None })
        }
        llm::ContentBlock::Image { source, media_type, .. } => {
            let url = match source {
                llm::ImageContentSource::Url { url } => Some(url.clone()),
                llm::ImageContentSource::Inline { .. } => None,
            };
            Some(ContentPart { kind: "image".to_owned(), text: None, url, media_type: media_type.clone() })
        }
        // D19
        llm::ContentBlock::Thinking { .. } | llm::ContentBlock::RedactedThinking { .. } => None,
    }
}

/// Converts the result of a call. A failed call does not end the run, since the model is shown the failure and goes
/// on; a call that was closed with its turn does (spec: steerable tools, Completion semantics).
pub(super) fn convert_tool_result(call: &str, success: bool, content: &str) -> ToolResult {
    let object = serde_json::from_str::<Map<String, Value>>(content).ok();
    let closed = object.as_ref().and_then(|object| object.get("status")).and_then(Value::as_str);
    let over = closed.is_some_and(|closed| closed == "cancelled" || closed == "failed");
    let data = object.unwrap_or_else(|| Map::from_iter([("value".to_owned(), content.into())]));
    ToolResult {
        success,
        needs_followup: (!success && !over).then_some(true),
        error: (!success).then(|| content.to_owned()),
        data: success.then_some(data),
        call_id: Some(call.to_owned()),
        ..ToolResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: steerable tools, ToolResult
    #[test]
    fn what_a_call_gave_is_an_object_and_a_failure_says_why() {
        let check = |success: bool, content: &str, expected: Value, terminal: bool| {
            let result = convert_tool_result("c", success, content);
            assert_eq!(result.is_terminal(), terminal, "{content}");
            assert_eq!(serde_json::to_value(result).unwrap(), expected);
        };
        check(true, "7", json!({ "success": true, "data": { "value": "7" }, "callId": "c" }), false);
        check(true, r#"{"a":1}"#, json!({ "success": true, "data": { "a": 1 }, "callId": "c" }), false);
        check(
            false,
            "no",
            json!({ "success": false, "needsFollowup": true, "error": "no", "callId": "c" }),
            false,
        );
        let cancelled = r#"{"status":"cancelled"}"#;
        check(false, cancelled, json!({ "success": false, "error": cancelled, "callId": "c" }), true);
    }

    #[test]
    fn times_never_go_back_and_the_stage_is_not_shown() {
        let entry = |seq: u64, at: Option<i64>, message: llm::ChatMessage| TranscriptEntry {
            seq,
            id: None,
            at: at.map(Timestamp::from_millis),
            message: message.into(),
            side: None,
        };
        let mut projection = SteerableProjection::new("s", Timestamp::from_millis(1000));
        let entries = [
            entry(0, Some(2000), llm::ChatMessage::user("a")),
            entry(1, Some(5000), llm::ChatMessage::assistant("b")),
            entry(2, None, llm::ChatMessage::system("c")),
            entry(3, Some(3000), llm::ChatMessage::user("d")),
        ];
        let shown: Vec<_> = entries.iter().filter_map(|entry| projection.convert_entry(entry)).collect();
        let shown: Vec<_> = shown.iter().map(|it| (it.id.as_str(), it.created_at.as_str())).collect();
        let late = "1970-01-01T00:00:05.000Z";
        assert_eq!(shown, [("s:0", "1970-01-01T00:00:02.000Z"), ("s:1", late), ("s:3", late)]);
    }
}
