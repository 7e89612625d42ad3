//! The identity of the prompt that a request was rendered from.

use crate::Map;
use crate::budget::TokenBudget;

/// The identity of a managed prompt, as it accompanies a request made of it (spec: prompt-management §12).
///
/// It is never sent to a provider. Reports of the call carry it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActivePrompt {
    /// The prompt's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The label under which it was fetched.
    pub label: String,
    /// The hash of the template.
    pub template_hash: String,
    /// The hash of the rendered messages.
    pub rendered_hash: String,
    /// The group that the call belongs to, if it belongs to one (prompt-management §10).
    pub group_name: Option<String>,
    /// How many tokens a call with the prompt is expected to use at most.
    pub token_budget: Option<TokenBudget>,
    /// References to the prompt in observability backends, by backend (prompt-management §3).
    pub observability_entities: Option<Map>,
}

impl ActivePrompt {
    /// Notes the group that the call belongs to.
    #[must_use]
    pub fn in_group(mut self, group_name: impl Into<String>) -> Self {
        self.group_name = Some(group_name.into());
        self
    }
}
