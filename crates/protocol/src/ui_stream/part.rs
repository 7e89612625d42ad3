//! Parts of the stream.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::Metadata;

/// Why a message is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// It is all said.
    Stop,
    /// It was cut.
    Length,
    /// It was held back.
    ContentFilter,
    /// It waits for a tool, or for who must approve it.
    ToolCalls,
    /// It failed.
    Error,
    /// Something else.
    Other,
}

/// One part of the stream. Each is one event whose data is the part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum StreamPart {
    /// An assistant's message begins, or goes on where it has an id that is known.
    Start {
        /// Its id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// What is known beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_metadata: Option<Metadata>,
    },
    /// One answer of the model begins.
    StartStep,
    /// It has ended.
    FinishStep,
    /// A text begins.
    TextStart {
        /// Its id in the stream.
        id: String,
    },
    /// More of it.
    TextDelta {
        /// Its id in the stream.
        id: String,
        /// What is new.
        delta: String,
    },
    /// It has ended.
    TextEnd {
        /// Its id in the stream.
        id: String,
        /// What is known beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider_metadata: Option<Value>,
    },
    /// A call of a tool, whole.
    ToolInputAvailable {
        /// Its id.
        tool_call_id: String,
        /// The tool.
        tool_name: String,
        /// The arguments.
        input: Value,
        /// Whether the tool runs elsewhere than at the client.
        provider_executed: bool,
        /// Whether the client knows nothing of the tool.
        dynamic: bool,
    },
    /// What a call gave.
    ToolOutputAvailable {
        /// The call's id.
        tool_call_id: String,
        /// What it gave.
        output: Value,
        /// As with the call.
        provider_executed: bool,
        /// As with the call.
        dynamic: bool,
    },
    /// Why a call failed.
    ToolOutputError {
        /// The call's id.
        tool_call_id: String,
        /// Why.
        error_text: String,
        /// As with the call.
        provider_executed: bool,
        /// As with the call.
        dynamic: bool,
    },
    /// A call waits for a person's approval; from `ai` 6 on.
    ToolApprovalRequest {
        /// By what it is answered.
        approval_id: String,
        /// The call's id.
        tool_call_id: String,
    },
    /// A person has denied a call; from `ai` 6 on.
    ToolOutputDenied {
        /// The call's id.
        tool_call_id: String,
    },
    /// A thought begins.
    ReasoningStart {
        /// Its id in the stream.
        id: String,
    },
    /// More of it.
    ReasoningDelta {
        /// Its id in the stream.
        id: String,
        /// What is new.
        delta: String,
    },
    /// It has ended.
    ReasoningEnd {
        /// Its id in the stream.
        id: String,
    },
    /// Something waits for a person: a [`native::Wait`](crate::native::Wait). Another part of the same id replaces it.
    DataSuspended {
        /// What it is about: the wait's invocation and number.
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
    /// Why the turn failed, for programs: `category`, `bucket`, `retrySafe`, `turnId`. It comes before the error, and is no part of
    /// a message.
    DataError {
        /// Why.
        data: Value,
        /// Always true: it is handed on and not kept.
        transient: bool,
    },
    /// The turn failed, for people. What came before it stays; a page reads nothing behind it.
    Error {
        /// What to show.
        error_text: String,
    },
    /// The message is complete, for now.
    Finish {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        finish_reason: Option<Cause>,
        /// What is known beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_metadata: Option<Metadata>,
    },
}
