//! The signal that a suspended run waits for (suspension §4), and the terms of the wait (D2).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_durable::Timestamp;

/// The signal descriptor: exactly the fields of the suspension specification (§4). Opaque to the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// The name of the awaited signal.
    pub signal_id: String,
    /// Data of the application about the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}

/// When a wait expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// This long after the suspension.
    In(Duration),
    /// At this time.
    At(Timestamp),
}

/// The terms of a wait, recorded beside its descriptor (D2).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WaitTerms {
    /// The digest of the exact action that an answer approves; makes the wait an approval.
    pub action: Option<String>,
    /// When it expires.
    pub deadline: Option<Deadline>,
    /// The JSON Schema that the answer must fit.
    pub payload_schema: Option<Value>,
    /// The fields with which the graph goes on when the deadline passes; without them the invocation ends errored.
    pub on_deadline: Option<Map<String, Value>>,
}
