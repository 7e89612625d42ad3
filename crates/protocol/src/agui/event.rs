//! The events of a run, of the kinds that we send.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::Message;

/// An event. Of one message the order is start, content, end; of one call start, arguments, end, and then what it gave; of a
/// run started, everything else, and finished or error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum Event {
    /// A run begins.
    RunStarted {
        /// The conversation.
        thread_id: String,
        /// The run.
        run_id: String,
        /// The version of the protocol.
        protocol_version: String,
        /// The run that spawned this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<String>,
    },
    /// A message with text begins.
    TextMessageStart {
        /// The message.
        message_id: String,
        /// Who speaks.
        role: TextRole,
        /// Who of several speaks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// More of its text.
    TextMessageContent {
        /// The message.
        message_id: String,
        /// The text; never empty.
        delta: String,
    },
    /// The text of a message is complete.
    TextMessageEnd {
        /// The message.
        message_id: String,
    },
    /// The model thinks.
    ReasoningStart {
        /// The thinking.
        message_id: String,
    },
    /// A message of thinking begins.
    ReasoningMessageStart {
        /// The thinking.
        message_id: String,
        /// Always `reasoning`.
        role: ReasoningRole,
    },
    /// More of it.
    ReasoningMessageContent {
        /// The thinking.
        message_id: String,
        /// The text; never empty.
        delta: String,
    },
    /// A message of thinking is complete.
    ReasoningMessageEnd {
        /// The thinking.
        message_id: String,
    },
    /// The thinking has ended.
    ReasoningEnd {
        /// The thinking.
        message_id: String,
    },
    /// A call begins.
    ToolCallStart {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_call_name: String,
        /// The message that makes it.
        parent_message_id: String,
    },
    /// More of its arguments.
    ToolCallArgs {
        /// The call.
        tool_call_id: String,
        /// The next piece of the arguments' JSON text.
        delta: String,
    },
    /// The arguments of a call are complete.
    ToolCallEnd {
        /// The call.
        tool_call_id: String,
    },
    /// What a call gave.
    ToolCallResult {
        /// The tool message.
        message_id: String,
        /// The call.
        tool_call_id: String,
        /// What it gave.
        content: String,
        /// Always a tool's.
        role: ToolRole,
    },
    /// All messages that there are. Clients drop those that are not among them, keep the others in their place, and put those
    /// that they did not have behind them.
    MessagesSnapshot {
        /// The messages.
        messages: Vec<Message>,
    },
    /// Something of ours.
    Custom {
        /// What.
        name: String,
        /// What it says.
        value: Value,
    },
    /// The run ended.
    RunFinished {
        /// The conversation.
        thread_id: String,
        /// The run.
        run_id: String,
        /// How; absent where the client's version has no word for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        /// What is ours.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        metadata: Map<String, Value>,
    },
    /// The run failed.
    RunError {
        /// What to show.
        message: String,
        /// The category.
        code: String,
        /// What is ours.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        metadata: Map<String, Value>,
    },
}

/// Who speaks in a message of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextRole {
    /// The agent.
    Assistant,
    /// The human.
    User,
}

/// The role of what a call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolRole {
    /// A tool.
    #[default]
    Tool,
}

/// The role of what the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningRole {
    /// Thinking.
    #[default]
    Reasoning,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Outcome {
    /// It is complete.
    Success,
    /// It waits for answers.
    Interrupt {
        /// What it waits for; at least one.
        interrupts: Vec<Interrupt>,
    },
    /// It was stopped, and did not fail.
    Cancelled,
}

/// Something that a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// Its id, by which it is answered.
    pub id: String,
    /// Why the run stopped: `tool_call`, `confirmation` or `input_required`.
    pub reason: String,
    /// What to ask the human.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The JSON Schema of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Map<String, Value>>,
    /// Until when it can be answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// What is ours.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}
