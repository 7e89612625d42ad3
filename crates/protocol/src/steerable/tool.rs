//! Calls of tools, and what they gave.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A call that an assistant asks for. Closed: it has these fields and no other (spec: steerable tools, ToolCall).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}

/// What a call gave (spec: steerable tools, ToolResult).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// Whether it succeeded.
    pub success: bool,
    /// Whether it ends the run, said outright.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    /// Whether the model is asked again although it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_followup: Option<bool>,
    /// What a program may do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<String>,
    /// A text to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// Which call it answers: an extension, by which the framework's own hook pairs calls and results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ToolResult {
    /// Tells whether it ends the run (spec: steerable tools, Completion semantics).
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.terminal == Some(true) || (!self.success && self.needs_followup != Some(true))
    }
}
