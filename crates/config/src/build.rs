//! From a sound file to agents that answer.

mod model;
mod tools;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use singletree_agent::{AgentLoop, Approve};
use singletree_harness::{Agent, Limits};
use singletree_llm::Pace;

use crate::agent::AgentTable;
use crate::approval::Approval;
use crate::check::model_of;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::selector::Selector;

/// What agents are given from outside: time, chance, and where they may write.
#[derive(Clone)]
pub struct Means {
    /// The folder in which tools keep what they write, unless the file says otherwise.
    pub data: PathBuf,
    /// Where the time comes from.
    pub now: Arc<dyn Fn() -> SystemTime + Send + Sync>,
    /// Lets time pass: between attempts to reach a model, and between the words of a script.
    pub pace: Arc<dyn Pace>,
    /// Draws from 0 up to 1, for the jitter of those pauses.
    pub fraction: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl fmt::Debug for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Means").field("data", &self.data).field("pace", &self.pace).finish_non_exhaustive()
    }
}

/// The agents of a file. What they share, as connections, lives as long as any of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Built {
    /// The agents; the one that answers unless another is asked for comes first.
    pub agents: Vec<Agent>,
    /// The bounds of the chat that they are for.
    pub limits: Limits,
}

impl Config {
    /// Makes the agents. Nothing is sent and nothing is started: servers are reached when they are first needed.
    ///
    /// # Errors
    /// Those of what agents are made of: `provider_invalid_request`, `http_request_invalid`, `tool_duplicate`,
    /// `mcp_configuration_invalid` and their kin. None of them for a file that was found sound, except what no check sees.
    pub fn build(&self, means: &Means) -> Result<Built> {
        let models = model::build(self, means)?;
        let shared = tools::Shared::new(self, means)?;
        let mut agents = Vec::new();
        for name in self.agents() {
            let Some(table) = self.file.agents.iter().find(|it| it.name.value == name) else { continue };
            let model = model_of(&self.file, table).and_then(|it| models.get(it.name.value.as_str()));
            let Some(model) = model else { continue };
            agents.push(self.agent(table, model, &shared)?);
        }
        Ok(Built { agents, limits: self.file.limits.clone() })
    }

    fn agent(&self, table: &AgentTable, model: &model::Ready, shared: &tools::Shared<'_>) -> Result<Agent> {
        let name = table.name.value.as_str();
        let mut agent = AgentLoop::builder(model.provider.clone()).sampling(model.sampling.clone());
        if let Some(system) = system(table) {
            agent = agent.system(system);
        }
        if let Some(time) = model.answer {
            agent = agent.model_time(time);
        }
        if let Some(toolbox) = shared.toolbox(table)? {
            agent = agent.toolbox(toolbox);
        }
        if let Some(window) = table.window {
            agent = agent.window(window);
        }
        if let Some(calls) = table.model_calls {
            agent = agent.max_model_calls(calls);
        }
        let approval = table.approval.as_ref().or(self.file.approval.as_ref());
        agent = agent.approve(approval.map(|it| self.approve(it)).unwrap_or_default());
        if let Some(expires) = approval.and_then(|it| it.expires) {
            agent = agent.approval_expires_in(expires);
        }
        let failed = |source| Error::Agent { name: name.to_owned(), source };
        let mut agent = agent.agent(name).map_err(failed)?.budget(table.budget);
        if let Some(policy) = table.while_suspended {
            agent = agent.while_suspended(policy);
        }
        Ok(match &table.durability {
            Some(durability) => agent.durability(durability.value),
            None => agent,
        })
    }

    fn approve(&self, approval: &Approval) -> Approve {
        let approve = Approve::effects(approval.effects());
        let names = |name: &str| match Selector::find(name, &self.file.servers) {
            Ok(selector) => tools::names(selector, &self.file.servers),
            Err(_) => Vec::new(),
        };
        let asked = approval.asked().flat_map(|it| names(&it.value));
        let approve = asked.fold(approve, Approve::asking);
        approval.trust.iter().flat_map(|it| names(&it.value)).fold(approve, Approve::trusting)
    }

    /// Makes a path of the file whole.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }
}

/// Returns what an agent's model is told about it.
fn system(table: &AgentTable) -> Option<String> {
    let forbidden = table.forbidden.as_ref().map(|it| format!("You must not do this:\n{it}"));
    let parts: Vec<String> = table.instructions.iter().map(|it| it.trim().to_owned()).chain(forbidden).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}
