//! What waits for a person, or for another system.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Time;
use super::whole::read_query_number;

/// A wait: a turn suspended, and an answer lets its invocation go on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wait {
    /// The session that waits.
    pub session: String,
    /// The invocation that waits.
    pub invocation: String,
    /// The number of the wait in its session.
    pub number: u64,
    /// The id of the signal that answers it.
    pub signal: String,
    /// What the agent says about it; of an approval the tool and its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// The digest of the exact action that an answer approves or rejects. Where there is one, an answer must carry it, and the
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// The JSON Schema of the answer's `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_schema: Option<Value>,
    /// Since when it waits; not said in outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// What waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitList {
    /// The waits, ordered by session and number.
    pub items: Vec<Wait>,
}

/// How much of what waits to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// How many at most: 1 to 1000; 100 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// A signal that came before anything waited for it, and is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptSignal {
    /// The signal's id.
    pub signal: String,
    /// When it is too old to be taken.
    pub kept_until: Time,
}
