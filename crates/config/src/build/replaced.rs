//! Agents of a file whose models and tools are replaced: for simulations, in which nothing reaches outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_llm::Provider;
use singletree_tools::{Tool, ToolTraits};

use super::{AgentDependencies, BuiltAgents, model, tools};
use crate::config::Config;
use crate::error::{Error, Result};

/// The parts that take the place of those of a file.
#[derive(Debug, Clone)]
pub struct ReplacedParts {
    /// The model that answers for each model.
    pub model: Arc<dyn Provider>,
    /// The tools of each agent, by its name; an agent that is missing has none.
    pub tools: BTreeMap<String, Vec<Arc<dyn Tool>>>,
}

impl Config {
    /// Describes the tools of each agent, by its name. MCP servers are started or reached, asked for their tools, and
    /// stopped again; no tool is called.
    ///
    /// # Errors
    /// `tool_unavailable` when a server cannot be reached; otherwise those of [`build`](Self::build).
    ///
    /// # Cancellation
    /// Dropping the future stops the servers that were started.
    pub async fn describe_tools(
        &self,
        means: &AgentDependencies,
    ) -> Result<BTreeMap<String, Vec<ToolTraits>>> {
        let shared = tools::SharedResources::new(self, means)?;
        let mut described = BTreeMap::new();
        for table in &self.file.agents {
            let name = table.name.value.clone();
            let Some(live) = shared.build_toolbox(table)? else { continue };
            let toolbox = live.current_toolbox().await;
            if let Some(missing) = toolbox.unavailable_toolsets().first() {
                return Err(Error::ToolsUnavailable { agent: name, source: missing.error.clone() });
            }
            let definitions = toolbox.definitions();
            let found = definitions.iter().filter_map(|definition| toolbox.find_tool(definition.name()));
            described.insert(name, found.map(ToolTraits::of_tool).collect());
        }
        Ok(described)
    }

    /// Makes the agents as [`build`](Self::build) does, with other models and tools: no server is described or reached.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_with_parts(&self, means: &AgentDependencies, parts: &ReplacedParts) -> Result<BuiltAgents> {
        let models = model::replace_models(self, &parts.model);
        let shared = tools::SharedResources::with_replaced_tools(self, means, &parts.tools);
        self.build_agents(&models, (&shared, means))
    }
}
