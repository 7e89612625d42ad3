//! The processes that share a database.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process that is registered as an owner of conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Its number: a process that lost its lease and goes on has a new one.
    pub incarnation: u64,
    /// Its name.
    pub name: String,
    /// Where the other servers reach it, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether its lease lasts.
    pub alive: bool,
    /// How long its lease lasts, in milliseconds; 0 when it has ended.
    pub lease_left_ms: u64,
    /// How many conversations it holds.
    pub sessions: u64,
    /// Whether it is being stopped: it takes no more work, and gives its conversations back as their turns end.
    #[serde(default)]
    pub draining: bool,
}

/// The processes that share the database, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeList {
    /// The processes; none where the server has its database alone.
    pub items: Vec<Node>,
}
