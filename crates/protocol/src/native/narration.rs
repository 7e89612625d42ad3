//! Narration: what people are told beside the conversation, and nothing reads back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NarrationRole {
    /// The controller, telling what happened.
    System,
    /// The agent, telling why it proposes something.
    Agent,
    /// An echo of what the person said.
    User,
}

/// What a piece of narration is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NarrationKind {
    /// What state things are in now.
    Status,
    /// Why something is about to be done, or was not.
    Explanation,
    /// A question to the person. The answer is given where answers are taken, not here.
    Ask,
    /// That work goes on.
    Progress,
    /// What went wrong.
    Error,
}

/// One piece of narration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Narration {
    /// Its id: also the `id:` of its frame, and what `Last-Event-ID` and `after` take.
    pub id: String,
    /// When it was said.
    pub timestamp: Time,
    /// Who said it.
    pub role: NarrationRole,
    /// What it is for.
    pub kind: NarrationKind,
    /// What was said: text for people, with no meaning for programs.
    pub content: String,
}

/// What was narrated about a session, as far as it is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NarrationList {
    /// What was said, in order.
    pub items: Vec<Narration>,
    /// Whether anything is narrated at all.
    pub enabled: bool,
}

/// What of it to read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NarrationQuery {
    /// The id that was seen last: only what was said since. Everything that is held, when the id is of an earlier run of the
    /// server.
    #[serde(default)]
    pub after: Option<String>,
}
