//! Agent sessions: records of who runs where.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The scenario of a session of which nothing is said.
fn default_scenario() -> String {
    "agent-entry".to_owned()
}

/// A session. Closed: it has these fields and no other (spec: steerable runtime, AgentSession).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSession {
    /// The key of its row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its id.
    pub session_id: String,
    /// Whose it is.
    pub user_id: String,
    /// The project that it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The chat that it is bound to.
    pub chat_id: String,
    /// How far it is.
    pub current_stage: String,
    /// How it may go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_stage: Option<String>,
    /// What runs in it.
    #[serde(default = "default_scenario")]
    pub scenario: String,
    /// What it knows of its stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_data: Option<Map<String, Value>>,
    /// Whether it takes turns.
    pub is_active: bool,
    /// When it was made: a date-time in UTC.
    pub created_at: String,
    /// When it was changed last.
    pub updated_at: String,
}

/// What the framework's hook sends to make a session. What we do not keep is ignored: a project, and data of a stage, which is
/// the server's to say.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateAgentSession {
    /// The chat, which is a session's id; drawn when there is none.
    #[serde(default)]
    pub chat_id: Option<String>,
    /// Who asks. It must be who the server knows the caller to be, or nobody.
    #[serde(default)]
    pub user_id: Option<String>,
    /// What runs in it: an agent by its name, or the specification's `agent-entry` for the first.
    #[serde(default)]
    pub scenario: Option<String>,
}
