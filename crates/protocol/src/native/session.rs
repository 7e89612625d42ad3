//! Sessions: conversations under an id.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Time;
use super::whole::{read_optional_whole_number, read_query_number};

/// Which texts reach the model; fixed when a session is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptPolicy {
    /// The conversation.
    #[default]
    Conversation,
    /// Rules, a snapshot and the present command; no earlier message.
    Command,
}

impl PromptPolicy {
    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Command => "command",
        }
    }

    fn is_conversation(&self) -> bool {
        *self == Self::Conversation
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The agent that answers in it.
    pub agent: String,
    /// Which texts reach the model.
    pub prompt_policy: PromptPolicy,
    /// How many messages its history has.
    pub messages: u64,
    /// When it was made.
    pub created_at: Time,
    /// When its state was last written.
    pub updated_at: Time,
    /// Where it was forked from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ForkPoint>,
    /// The campaign whose turns run in it, if it is the session of one. Nothing can be sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
}

/// Where a session was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForkPoint {
    /// The other session; it may be gone by now.
    pub session: String,
    /// How many of its messages were copied.
    pub offset: u64,
}

/// A page of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    /// The sessions.
    pub items: Vec<Session>,
    /// Where the next page begins, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// In which order sessions are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionOrder {
    /// By id.
    #[default]
    Id,
    /// The one whose state was written last first. One that is written while somebody turns pages
    /// comes to the front, and is not in the pages that are left. Going through everything is what the other order is for.
    Recent,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionQuery {
    /// Where to begin: the `next` of the page before, which is of the same order, or the id of a session; by id, any id.
    #[serde(default)]
    #[schemars(regex(pattern = r"^([0-9]{1,16}\.)?([ -~]{0,512}|[^\x00-\x1f\x7f-\x9f]{1,128})$"))]
    pub from: Option<String>,
    /// In which order.
    #[serde(default)]
    pub order: SessionOrder,
    /// How many at most: 1 to 1000; 100 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// A session that is made. `{}` is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    /// Its id: 1 to 512 bytes without control characters; drawn otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::ID_PATTERN))]
    pub id: Option<String>,
    /// The agent that answers in it; the first of the list otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Which texts reach the model; as its agent has it otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_policy: Option<PromptPolicy>,
}

/// A fork that is made. `{}` is enough: all of the history, under an id that is drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkSession {
    /// How many messages are copied: those before this place. All otherwise.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "read_optional_whole_number"
    )]
    #[schemars(range(max = u64::MAX))]
    pub at: Option<u64>,
    /// The id of the new session; drawn otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = super::ID_PATTERN))]
    pub id: Option<String>,
}

/// A session as one portable document: its state and history, without turns and events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionExport {
    /// What this is: `singletree.session`.
    pub kind: String,
    /// The version of this form: 1.
    pub format: u32,
    /// The session's id.
    pub session: String,
    /// The agent that answers in it.
    pub agent: String,
    /// The digest of that agent's graph.
    pub graph: String,
    /// The version of the state's schema.
    pub schema_version: String,
    /// Which texts reach the model; the conversation, where nothing is said.
    #[serde(default, skip_serializing_if = "PromptPolicy::is_conversation")]
    pub prompt_policy: PromptPolicy,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// The fields of the state that are values.
    pub values: Map<String, Value>,
    /// The fields that are lists, with their items and what is known beside each.
    pub lists: BTreeMap<String, Vec<ExportedItem>>,
}

/// One item of a list that was written out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedItem {
    /// The item.
    pub body: Value,
    /// What is known beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Value>,
}
