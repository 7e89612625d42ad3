//! The record of an agent, as the Steerable chat specification has it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An agent, as clients list it and as files keep it: the specification's `ChatAgent`. Fields that we do not know are
/// kept.
///
/// `role_prompt` and `forbidden_prompt` are for models: [`AgentProfile::without_prompts`] leaves them out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentProfile {
    /// Its id, which messages refer to as their owner.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// A short name, of characters that may occur in a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slug: Option<String>,
    /// Its purpose. Other agents' models read it to know when to hand over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who it is, said to its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_prompt: Option<String>,
    /// Actions that it must not take, given to its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden_prompt: Option<String>,
    /// The names of the tools that it may use: held to when they are called. All of its tools, when there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill_ids: Option<Vec<String>>,
    /// Lifts the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_external_skills: Option<bool>,
    /// Whether it is part of the program: then people do not pick it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_builtin: Option<bool>,
    /// Whether it is put away: not listed, and nothing is handed to it. Conversations that are its own go on.
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
    /// When it was made: a date-time in UTC, as text.
    pub created_at: String,
    /// When it was changed last.
    pub updated_at: String,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl AgentProfile {
    /// Makes a record of an id, a name and a time.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, created_at: impl Into<String>) -> Self {
        let created_at = created_at.into();
        let updated_at = created_at.clone();
        Self { id: id.into(), name: name.into(), created_at, updated_at, ..Self::default() }
    }

    /// Returns the public fields: without the prompts for its model.
    #[must_use]
    pub fn without_prompts(&self) -> Self {
        Self { role_prompt: None, forbidden_prompt: None, ..self.clone() }
    }

    /// Returns the tools that it may use, by name; nothing where it may use all that it has.
    pub(crate) fn allowed_tools(&self) -> Option<impl Iterator<Item = &str>> {
        let listed = self.skill_ids.as_ref().filter(|_| self.allow_external_skills != Some(true));
        listed.map(|listed| listed.iter().map(String::as_str))
    }

    /// Returns the prompt that describes it to its model.
    pub(crate) fn build_prompt(&self) -> Option<String> {
        let forbidden = self
            .forbidden_prompt
            .as_ref()
            .map(|forbidden_prompt| format!("You must not do this:\n{forbidden_prompt}"));
        let parts: Vec<String> = self.role_prompt.iter().cloned().chain(forbidden).collect();
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }
}

/// Lists agents in their order: by `sortOrder`, then by when they were made. Without those that are put away.
#[must_use]
pub fn list_active_agents<'a>(agents: impl IntoIterator<Item = &'a AgentProfile>) -> Vec<&'a AgentProfile> {
    let mut listed: Vec<_> = agents.into_iter().filter(|agent| agent.is_archived != Some(true)).collect();
    listed.sort_by(|a, b| {
        let key = |it: &AgentProfile| it.sort_order.unwrap_or_default();
        key(a).cmp(&key(b)).then_with(|| a.created_at.cmp(&b.created_at))
    });
    listed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // spec: steerable chat, ChatAgent
    #[test]
    fn a_record_keeps_what_it_does_not_know_and_shows_no_prompt() {
        let record = json!({
            "id": "a1", "name": "Ann", "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-02T00:00:00Z",
            "rolePrompt": "You are Ann.", "forbiddenPrompt": "No jokes.", "skillIds": ["look"],
            "allowExternalSkills": false, "sortOrder": 2, "metadata": { "team": "x" },
        });
        let agent: AgentProfile = serde_json::from_value(record.clone()).unwrap();
        assert_eq!(serde_json::to_value(&agent).unwrap(), record);
        assert_eq!(agent.allowed_tools().unwrap().collect::<Vec<_>>(), ["look"]);
        assert_eq!(agent.build_prompt().unwrap(), "You are Ann.\n\nYou must not do this:\nNo jokes.");
        let public = serde_json::to_string(&agent.without_prompts()).unwrap();
        assert!(!public.contains("You are Ann") && !public.contains("No jokes"), "{public}");
        let lifted = AgentProfile { allow_external_skills: Some(true), ..agent };
        assert!(lifted.allowed_tools().is_none());
    }

    // spec: steerable chat, ChatAgent: an order of its own, for some with a number and some without
    #[test]
    fn agents_are_listed_by_their_order_and_then_by_age() {
        let agent = |id: &str, order: Option<i64>, made: &str| AgentProfile {
            sort_order: order,
            ..AgentProfile::new(id, id, made)
        };
        let gone = AgentProfile { is_archived: Some(true), ..agent("gone", None, "2020") };
        let agents =
            [agent("c", Some(1), "2024"), agent("b", None, "2025"), agent("a", Some(0), "2024"), gone];
        let listed: Vec<_> = list_active_agents(&agents).into_iter().map(|it| it.id.as_str()).collect();
        assert_eq!(listed, ["a", "b", "c"]);
    }
}
