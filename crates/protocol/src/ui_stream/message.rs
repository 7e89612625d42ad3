//! Messages, as a page keeps them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UiRole {
    /// The human.
    User,
    /// The model.
    Assistant,
}

/// What is known beside a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The session in which it stands. That is the chat's id, until something was said otherwise or asked for again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The turn that is told: what cancels it names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// How far its turn is, where that is not as it seems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<MessageStatus>,
}

/// How far the turn of a message is, where the message alone does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStatus {
    /// It has not ended: its answer comes by the stream.
    Open,
    /// It failed.
    Failed,
}

/// What a person was asked about a call, and has said; from `ai` 6 on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolApproval {
    /// By what it is answered.
    pub id: String,
    /// Whether it was approved, once that is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A message: the user's, or all that the assistant did in answer to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UiMessage {
    /// Its id: a user's is the client's own where it gave one; an assistant's is that of its invocation.
    pub id: String,
    /// Who speaks.
    pub role: UiRole,
    /// What is known beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
    /// What it is made of.
    pub parts: Vec<UiPart>,
}

/// One part of a message, as the client of a stream keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum UiPart {
    /// One answer of the model begins.
    StepStart,
    /// Text.
    Text {
        /// The text.
        text: String,
        /// `done`, for an assistant's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
    },
    /// A file, such as a picture.
    File {
        /// Its media type.
        media_type: String,
        /// Where it is.
        url: String,
    },
    /// A call of a tool, and what it gave.
    DynamicTool {
        /// The tool.
        tool_name: String,
        /// The call's id.
        tool_call_id: String,
        /// `input-available`, `output-available` or `output-error`; from `ai` 6 on also `approval-requested` and `output-denied`.
        state: String,
        /// The arguments.
        input: Value,
        /// What it gave.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_text: Option<String>,
        /// What a person was asked about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ToolApproval>,
        /// Whether the tool runs elsewhere than at the client.
        provider_executed: bool,
    },
    /// What the model thought, where people may see it.
    Reasoning {
        /// The text.
        text: String,
        /// `done`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
    },
    /// Why the turn failed: `category`, `bucket`, `retrySafe`, `turnId` and `message`.
    DataError {
        /// The turn.
        id: String,
        /// Why.
        data: Value,
    },
    /// Something that waits, or waited, for a person.
    DataSuspended {
        /// What it is about.
        id: String,
        /// What waits, and how far it is.
        data: Value,
    },
    /// The message that a person has sent to the turn while it ran.
    DataSteered {
        /// The message's id.
        id: String,
        /// The message.
        data: Value,
    },
}

/// A chat's messages: an envelope of ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UiMessagePage {
    /// The messages, in their order.
    pub messages: Vec<UiMessage>,
    /// The session that they stand in.
    pub session_id: String,
}
