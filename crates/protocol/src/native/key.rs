//! API keys: who may do what for a tenant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use super::whole::{read_optional_whole_number, read_query_number};

/// What a key may do. A wider scope does not contain a narrower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Read sessions, turns, events, agents.
    Read,
    /// Send messages, cancel, steer, fork, upload.
    Write,
    /// Answer what waits for a person.
    Approve,
    /// Delete sessions, read usage and audits, pair devices, manage the tenant's keys.
    Admin,
}

/// Whether a key is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// It is.
    Active,
    /// Its time is over.
    Expired,
    /// It was taken back.
    Revoked,
}

/// A key, without its secret: that is shown once, when it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiKey {
    /// Its id: the second part of the key's text. No secret.
    pub id: String,
    /// The tenant that it belongs to.
    pub tenant: String,
    /// What people call it.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<KeyScope>,
    /// Whether it is good.
    pub state: KeyState,
    /// When it was made.
    pub created_at: Time,
    /// When its time is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
    /// When it was used last, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Time>,
    /// Until when the secret before the last rotation is good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_secret_until: Option<Time>,
}

/// A page of keys, ordered by id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyList {
    /// The keys.
    pub items: Vec<ApiKey>,
    /// Where the next page begins, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which keys to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyQuery {
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

/// Whose key it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyOfTenant {
    /// The caller's own otherwise. Only the operator names another's.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// A key that is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// What people call it: 1 to 128 bytes; `key` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[ -~]*[!-~][ -~]*$"), length(min = 1, max = 128))]
    pub name: Option<String>,
    /// What it may do; `read`, `write` and `approve` otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub scopes: Option<Vec<KeyScope>>,
    /// After how many seconds its time is over; never otherwise.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_whole_number"
    )]
    #[schemars(range(min = 1, max = 315_360_000))]
    pub expires_in: Option<u64>,
    /// Whose; the caller's own otherwise. Only the operator names another's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// How a key gets a new secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RotateKey {
    /// For how many seconds the old secret stays good; 86400, a day, otherwise. 0 ends it at once.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_whole_number"
    )]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub grace: Option<u64>,
}

/// A key with its secret, which is never shown again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyWithSecret {
    /// The key.
    pub key: ApiKey,
    /// What stands behind `Bearer` in requests.
    pub secret: String,
}
