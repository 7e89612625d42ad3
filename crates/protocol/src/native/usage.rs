//! What was used of models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was used of models: by turns that have ended or were suspended, as far as providers report it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// By model, ordered by name.
    pub models: Vec<ModelUsage>,
    /// All of them together.
    pub total: UsageCounts,
}

/// What was used of one model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelUsage {
    /// The model.
    pub model: String,
    /// How much of it.
    #[serde(flatten)]
    pub counts: UsageCounts,
}

/// How much was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageCounts {
    /// How many answers were reported on.
    pub calls: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Tokens of answers.
    pub completion_tokens: u64,
    /// Tokens of prompts that came from a cache; they are among those of prompts.
    pub cached_tokens: u64,
    /// Tokens of prompts that were written to a cache.
    pub cache_creation_tokens: u64,
}
