//! From a sound file to agents that answer.

mod model;
mod picked;
mod replaced;
mod server;
mod team;
mod tools;
mod watched;

pub use replaced::ReplacedParts;
pub(crate) use server::build_mcp_server;
pub(crate) use team::reachable_agents;
pub(crate) use tools::model_tool_name;
pub(crate) use watched::describe_unoffered_server;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use singletree_agent::{
    Agent, AgentProfile, AgentResources, ApprovalPolicy, Artifacts, SnapshotSource, ToolDocuments,
};
use singletree_env::Env;
use singletree_harness::{GraphAgent, Limits};
use singletree_tools::DefinitionPins;

use crate::agent::AgentTable;
use crate::approval::ApprovalTable;
use crate::check::model_of_agent;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::replies::RepliesTable;
use crate::report::{MistakeCollector, MistakeKind};
use crate::selector::ToolSelector;
use crate::unoffered::OnUnoffered;

/// The dependencies that agents get from outside: time, chance, and the stores of their tools.
#[derive(Clone)]
pub struct AgentDependencies {
    /// Where built-in tools keep notes and messages; without it they answer that they cannot be used.
    pub tool_documents: Option<Arc<ToolDocuments>>,
    /// Where the first known definitions of the tools of MCP servers are kept; without it they last as long as the
    /// agents.
    pub definition_pins: Option<Arc<dyn DefinitionPins>>,
    /// The environment of the agents' graphs. Its clock tells the time to the tool `clock`; its timer performs the pauses
    /// between the words of a script. The waits between attempts to reach a model are those of the chat.
    pub env: Env,
    /// Where the state comes from that models are shown with commands; none otherwise.
    pub snapshots: Option<Arc<dyn SnapshotSource>>,
    /// Where artifacts are kept, of which models are shown the approved ones with commands; none otherwise.
    pub artifacts: Option<Arc<Artifacts>>,
    /// Who is told of tools of servers that are not offered, once for each server and reason; nobody otherwise.
    pub unoffered: Option<OnUnoffered>,
}

impl fmt::Debug for AgentDependencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentDependencies")
            .field("tool_documents", &self.tool_documents)
            .field("env", &self.env)
            .finish_non_exhaustive()
    }
}

/// The agents of a file. Shared resources, as connections, live as long as any of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct BuiltAgents {
    /// The agents; the one that answers unless another is asked for comes first.
    pub agents: Vec<GraphAgent>,
    /// The model, the tools and the permissions of each, for campaigns.
    pub resources: Vec<AgentResources>,
    /// How clients list them, in the order in which people pick them.
    pub listed: Vec<AgentProfile>,
    /// The bounds of the chat that they are for.
    pub limits: Limits,
}

impl Config {
    /// Makes the agents. Nothing is sent and nothing is started: servers are reached when they are first needed.
    ///
    /// # Errors
    /// Those of the parts of agents: `provider_invalid_request`, `http_request_invalid`, `tool_duplicate`,
    /// `mcp_configuration_invalid` and their kin. A file without mistakes causes none of them, except for mistakes
    /// that no check can see.
    pub fn build(&self, means: &AgentDependencies) -> Result<BuiltAgents> {
        let models = model::build_models(self, means)?;
        self.build_agents(&models, (&tools::SharedResources::new(self, means)?, means))
    }

    fn build_agents(
        &self,
        models: &model::Models<'_>,
        (shared, means): (&tools::SharedResources<'_>, &AgentDependencies),
    ) -> Result<BuiltAgents> {
        let (mut agents, mut resources) = (Vec::new(), Vec::new());
        for name in self.agent_names() {
            let Some(table) = self.file.agents.iter().find(|agent| agent.name.value == name) else {
                continue;
            };
            let (agent, own) = self.build_chat_agent(table, models, (shared, means))?;
            let mut agent = agent.budget(table.budget);
            agent = agent.replies(RepliesTable::merge_error_replies(
                self.file.replies.as_ref(),
                table.replies.as_ref(),
            ));
            if let Some(policy) = table.while_suspended {
                agent = agent.while_suspended(policy);
            }
            if let Some(policy) = table.on_disconnect {
                agent = agent.on_disconnect(policy);
            }
            if let Some(policy) = table.prompt_policy {
                agent = agent.prompt_policy(policy);
            }
            if let Some(durability) = &table.durability {
                agent = agent.durability(durability.value);
            }
            agents.push(agent);
            resources.push(own);
        }
        let (listed, limits) = (self.agent_records(), self.file.limits.clone());
        Ok(BuiltAgents { agents, resources, listed, limits })
    }

    /// Describes the agents, in the order in which people pick them.
    fn agent_records(&self) -> Vec<AgentProfile> {
        let tables = |name: &str| self.file.agents.iter().find(|agent| agent.name.value == name);
        let found = self.agent_names().into_iter().filter_map(tables);
        let described =
            |(order, table)| AgentProfile { sort_order: Some(order), ..team::agent_record(table) };
        (0..).zip(found).map(described).collect()
    }

    fn build_single_agent(
        &self,
        table: &AgentTable,
        models: &model::Models<'_>,
        (shared, means): (&tools::SharedResources<'_>, &AgentDependencies),
    ) -> Result<Agent> {
        let name = table.name.value.as_str();
        let model = model_of_agent(&self.file, table).and_then(|named| models.get(named.name.value.as_str()));
        // A sound file has a model for each agent.
        let Some(model) = model else { return Err(Error::NoModel { agent: name.to_owned() }) };
        let prompt = self.resolved.prompts.get(name);
        let sampling = match prompt.and_then(|prompt| prompt.sampling.as_ref()) {
            Some(own) => model.sampling.overridden_by(own),
            None => model.sampling.clone(),
        };
        let mut agent = Agent::from_profile(team::agent_record(table), model.provider.clone())
            .sampling(sampling)
            .retry(model.retry.clone())
            .env(means.env.clone());
        if let Some(system) = system_message(table, prompt.map(|prompt| prompt.text.as_str())) {
            agent = agent.instructions(system);
        }
        if let Some(time) = model.answer {
            agent = agent.model_time(time);
        }
        if let Some(toolbox) = shared.build_toolbox(table)? {
            agent = agent.toolbox(toolbox);
        }
        agent = agent.show_thinking(table.show_thinking);
        if let Some(repairs) = table.repairs {
            agent = agent.repairs(repairs);
        }
        if let Some(window) = table.window {
            agent = agent.window(window);
        }
        if let Some(snapshots) = &means.snapshots {
            agent = agent.snapshots(snapshots.clone());
        }
        if let Some(artifacts) = &means.artifacts {
            agent = agent.artifacts(artifacts.clone());
        }
        let approval = table.approval.as_ref().or(self.file.approval.as_ref());
        agent = agent.ask_before(approval.map(|approval| self.approval_policy(approval)).unwrap_or_default());
        if let Some(expires) = approval.and_then(|approval| approval.expires) {
            agent = agent.approval_expires_in(expires);
        }
        Ok(agent)
    }

    fn approval_policy(&self, approval: &ApprovalTable) -> ApprovalPolicy {
        let approve = ApprovalPolicy::effects(approval.effects_to_approve());
        let names = |name: &str| match ToolSelector::from_name(name, &self.file.servers) {
            Ok(selector) => tools::model_tool_names(selector, &self.file.servers),
            Err(_) => Vec::new(),
        };
        let asked = approval.asked_tool_names().flat_map(|it| names(&it.value));
        let approve = asked.fold(approve, ApprovalPolicy::asking);
        approval.trust.iter().flat_map(|it| names(&it.value)).fold(approve, ApprovalPolicy::trusting)
    }

    /// Makes the clients of the MCP servers, and drops them again: only the crate that uses a variable or a header
    /// can tell whether it is valid.
    pub(crate) fn check_server_clients(&self, faults: &MistakeCollector) {
        for ready in &self.resolved.servers {
            let name = self.file.servers.get(ready.index).map(|server| &server.name);
            if let (Some(name), Err(error)) = (name, server::build_mcp_server(self, ready, None)) {
                faults.add_mistake(
                    name.at,
                    MistakeKind::Value,
                    singletree_engine::format_error_chain(&error),
                );
            }
        }
    }

    /// Makes a path of the file whole.
    pub(crate) fn resolve_path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }
}

/// Returns the system message of an agent's model.
fn system_message(table: &AgentTable, prompt: Option<&str>) -> Option<String> {
    let forbidden = table.forbidden.as_ref().map(|forbidden| format!("You must not do this:\n{forbidden}"));
    let parts: Vec<String> = table
        .instructions
        .as_deref()
        .or(prompt)
        .map(|instructions| instructions.trim().to_owned())
        .into_iter()
        .chain(forbidden)
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}
