//! Events of the stream.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventType {
    /// More text of the assistant.
    Content,
    /// The turn failed.
    Error,
    /// Who speaks from here on: `agentId`, or nobody in particular without one.
    Agent,
    /// What happens around the conversation, named by `event`.
    Orchestration,
    /// What to show while nothing comes.
    #[serde(rename = "loader-hint")]
    LoaderHint,
    /// The stream lives.
    Keepalive,
    /// The turn has ended.
    Done,
    /// The turn was stopped by a limit.
    BudgetExhausted,
    /// The assistant asks for a tool.
    ToolCall,
    /// A tool has ended.
    ToolResult,
}

/// One event of the stream (spec: steerable events, SSEEvent).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SseEvent {
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// What it is more exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// More text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What to show while nothing comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What happened, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Which orchestration it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestration_group_id: Option<String>,
    /// Which task it is about: of ours, the invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Which message it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// Who speaks from here on: an extension of `agent` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Everything that is special to its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Map<String, Value>>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl SseEvent {
    /// Makes an event that says nothing but what it is.
    #[must_use]
    pub fn new(kind: EventType) -> Self {
        Self {
            kind,
            event: None,
            content: None,
            hint: None,
            message: None,
            code: None,
            orchestration_group_id: None,
            task_id: None,
            message_id: None,
            agent_id: None,
            payload: None,
            other: Map::new(),
        }
    }
}
