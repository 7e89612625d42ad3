//! What a client posts to run an agent.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request to run an agent. What else a client posts (its state, its tools, its context) is not looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput {
    /// The conversation.
    pub thread_id: String,
    /// The run.
    pub run_id: String,
    /// The run that spawned this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// The conversation as the client has it.
    #[serde(default)]
    pub messages: Vec<Held>,
    /// The answers to what ended an earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Vec<ResumeEntry>>,
    /// The version of the protocol that the client speaks; clients before 1.0 say none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// What the application passes through.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub forwarded_props: Value,
}

/// A message as a client holds it: any object. What it says is the client's view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Held(pub Map<String, Value>);

impl Held {
    /// Returns its id, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.text_field("id")
    }

    /// Returns its role, if it has one.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.text_field("role")
    }

    fn text_field(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }
}

/// An answer to an interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeEntry {
    /// Which interrupt.
    pub interrupt_id: String,
    /// Whether it is answered or given up.
    pub status: ResumeStatus,
    /// The answer.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub payload: Value,
}

/// Whether an interrupt is answered or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResumeStatus {
    /// Answered.
    Resolved,
    /// Given up.
    Cancelled,
}
