//! Messages, as a chat shows them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::tool::{ToolCall, ToolResult};

/// Who speaks, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The human.
    User,
    /// The model.
    Assistant,
    /// A tool, answering one call.
    Tool,
    /// The application.
    System,
}

/// A message. It belongs to one agent at most (spec: steerable chat, ChatMessage).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatMessage {
    /// Its id: the same whenever it is read.
    pub id: String,
    /// Who speaks.
    pub role: Role,
    /// Its text; may be empty.
    pub content: String,
    /// When it was made: a date-time in UTC.
    pub created_at: String,
    /// The chat that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// The agent that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The calls that it makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// What a call gave, in a message of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<ToolResult>,
    /// Which call a message of a tool answers: an extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// When it was changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<String>,
    /// The blocks of a message that is more than one text: an extension that later versions of the framework publish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ContentPart>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One block of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentPart {
    /// What it is: `text` or `image`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Where the picture is. The bytes of a picture are never here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The media type of the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// A part of a chat's messages: an envelope of ours, the specification has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessagePage {
    /// The messages, in their order.
    pub messages: Vec<ChatMessage>,
    /// Where the next page begins, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
    /// From where on to listen so that nothing is missed: what `after` of the chat's events takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_event_id: Option<String>,
}
