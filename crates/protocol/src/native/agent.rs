//! Agents, as clients list them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The agents that answer here, in the order in which people pick them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents.
    pub items: Vec<Agent>,
}

/// An agent: the `ChatAgent` of the Steerable chat specification, with what anybody may see. What is said to its model is not
/// among it. Fields of the agent's own may stand beside those listed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its id: what sessions and sends name it by.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// A short name, of what may stand in an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The names of the tools that it may use; all of its tools where there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_ids: Option<Vec<String>>,
    /// Whether the list is lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_external_skills: Option<bool>,
    /// Whether it is part of the program: then people do not pick it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_builtin: Option<bool>,
    /// Whether it is put away; one that is, is not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_archived: Option<bool>,
    /// Where it stands in lists; 0 otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_order: Option<i64>,
    /// A picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// A colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// When it was made.
    pub created_at: String,
    /// When it was changed last.
    pub updated_at: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
