//! Agents that hand conversations to each other.

use serde_json::{Value, json};
use singletree_agent::{AgentProfile, AgentResources, Team};
use singletree_harness::{GraphAgent, TurnPromptPolicy, WhileSuspended};

use super::{AgentDependencies, model::Models, tools::SharedResources};
use crate::agent::AgentTable;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::file::ConfigFile;

/// Records of files have no times of their own.
const MADE_AT: &str = "1970-01-01T00:00:00Z";

/// Returns an agent and all that a conversation with it can come to, each once, it first.
pub(crate) fn reachable_agents<'f>(file: &'f ConfigFile, first: &'f AgentTable) -> Vec<&'f AgentTable> {
    let mut reached = vec![first];
    let mut next = 0;
    while let Some(agent) = reached.get(next).copied() {
        for name in &agent.hand_offs {
            let other = file.agents.iter().find(|agent| agent.name.value == name.value);
            if let Some(other) =
                other.filter(|other| reached.iter().all(|it| it.name.value != other.name.value))
            {
                reached.push(other);
            }
        }
        next += 1;
    }
    reached
}

impl Config {
    /// Makes one agent of the chat: the loop of one, or a team where it may hand over. Beside it are the resources for
    /// campaigns: those of the agent alone.
    pub(super) fn build_chat_agent(
        &self,
        table: &AgentTable,
        models: &Models<'_>,
        (shared, means): (&SharedResources<'_>, &AgentDependencies),
    ) -> Result<(GraphAgent, AgentResources)> {
        let name = table.name.value.as_str();
        let failed = |it| Error::Agent { name: name.to_owned(), source: Box::new(it) };
        let members = reachable_agents(&self.file, table);
        if members.len() == 1 {
            let mut agent = self.build_single_agent(table, models, (shared, means))?;
            if let Some(calls) = table.model_calls {
                agent = agent.max_model_calls(calls);
            }
            if let Some(compaction) = table.compaction.as_ref() {
                agent = agent.compaction(compaction.to_compaction());
            }
            return agent.build_with_resources().map_err(failed);
        }
        let mut team = Team::new(name);
        for member in members {
            let id = member.name.value.as_str();
            let agent = self.build_single_agent(member, models, (shared, means))?;
            let to = member.hand_offs.iter().map(|hand_off| hand_off.value.as_str());
            team = team.member(agent).hands_off(id, to);
        }
        if let Some(calls) = table.model_calls {
            team = team.max_model_calls(calls);
        }
        if let Some(compaction) = table.compaction.as_ref() {
            team = team.compaction(compaction.to_compaction());
        }
        let alone = self.build_single_agent(table, models, (shared, means))?;
        let (_, resources) = alone.build_with_resources().map_err(failed)?;
        Ok((team.build().map_err(failed)?, resources))
    }
}

/// Makes the record of an agent. The instructions for its model are in its loop.
pub(super) fn agent_record(table: &AgentTable) -> AgentProfile {
    let id = table.name.value.as_str();
    // Servers read this (D19): without the entry nobody sees thoughts.
    let shown = table.show_thinking.then(|| ("showThinking".to_owned(), Value::Bool(true)));
    // A page offers these before the first message.
    let examples = (!table.examples.is_empty()).then(|| ("examples".to_owned(), json!(table.examples)));
    // Pages use it to tell the user, before a message is sent, how it is handled while the session waits for a person.
    let policy = match table.while_suspended {
        None | Some(WhileSuspended::Reject) => None,
        Some(WhileSuspended::Queue) => Some("queue"),
        Some(WhileSuspended::Supersede) => Some("supersede"),
    };
    let policy = policy.map(|policy| ("whileSuspended".to_owned(), json!(policy)));
    // Pages show it before the first message of a new session.
    let commands = table.prompt_policy.filter(|policy| *policy == TurnPromptPolicy::Command);
    let commands = commands.map(|policy| ("promptPolicy".to_owned(), json!(policy)));
    AgentProfile {
        slug: Some(id.to_owned()),
        description: table.description.clone(),
        icon: table.icon.clone(),
        color: table.color.clone(),
        is_builtin: table.hidden.then_some(true),
        other: shown.into_iter().chain(examples).chain(policy).chain(commands).collect(),
        ..AgentProfile::new(id, table.title.as_deref().unwrap_or(id), MADE_AT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spot::LocatedValue;

    // Finding F15
    #[test]
    fn what_people_see_of_an_agent_is_in_its_record() {
        let text = |text: &str| Some(text.to_owned());
        let table = AgentTable {
            title: text("Support"),
            icon: text("\u{1f4da}"),
            color: text("#3366cc"),
            hidden: true,
            ..AgentTable::with_name_only(LocatedValue::new("support".to_owned(), 0))
        };
        let record = agent_record(&table);
        assert_eq!((record.id.as_str(), record.name.as_str()), ("support", "Support"));
        assert_eq!((record.icon, record.color), (table.icon, table.color));
        assert_eq!(record.is_builtin, Some(true));
    }
}
