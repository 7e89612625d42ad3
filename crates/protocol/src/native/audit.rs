//! The audit: who did what that cannot be undone, or that lets others do something.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Time;
use super::whole::read_query_number;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Its id; later ones come first.
    pub id: String,
    /// When.
    pub at: Time,
    /// Who did it, when known: the id of a key, the subject of a token, `local` or `operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// What was done, such as `key.created`, `signal.answered`, `session.deleted`.
    pub action: String,
    /// To what: an id.
    pub subject: String,
    /// What else is worth knowing; never content of a conversation, never a secret.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// A page of the audit, the last entry first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditList {
    /// The entries.
    pub items: Vec<AuditEntry>,
    /// Where the next page begins, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which entries to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Where to begin: the `next` of the page before.
    #[serde(default)]
    pub from: Option<String>,
    /// How many at most: 1 to 1000; 100 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
    /// Whose; the caller's own otherwise. Only the operator names another's.
    #[serde(default)]
    pub tenant: Option<String>,
}
