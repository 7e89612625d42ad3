//! Tools that are ready to be called.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_tools::{LiveToolbox, Tool, ToolLimits, Toolbox, Toolset};

use super::picked::SelectedToolset;
use super::server::BuiltServer;
use super::{AgentDependencies, server};
use crate::agent::AgentTable;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::selector::ToolSelector;
use crate::server::McpServerTable;
use crate::tool::{BuiltinDependencies, BuiltinToolset};

/// The settings and servers that agents share.
#[derive(Debug)]
pub(crate) struct SharedResources<'c> {
    config: &'c Config,
    means: &'c AgentDependencies,
    servers: BTreeMap<usize, BuiltServer>,
    /// The tools that take the place of those of the file, by agent.
    replaced: Option<&'c ToolsByAgent>,
}

/// Tools by the name of their agent.
pub(crate) type ToolsByAgent = BTreeMap<String, Vec<Arc<dyn Tool>>>;

impl<'c> SharedResources<'c> {
    pub(crate) fn new(config: &'c Config, means: &'c AgentDependencies) -> Result<Self> {
        Ok(Self { config, means, servers: server::build_servers(config, means)?, replaced: None })
    }

    /// Takes other tools in the place of those of the file; no server is described.
    pub(crate) fn with_replaced_tools(
        config: &'c Config,
        means: &'c AgentDependencies,
        tools: &'c ToolsByAgent,
    ) -> Self {
        Self { config, means, servers: BTreeMap::new(), replaced: Some(tools) }
    }

    /// Returns the tools of an agent; none when it lists none.
    pub(crate) fn build_toolbox(&self, agent: &AgentTable) -> Result<Option<LiveToolbox>> {
        if agent.tools.is_empty() {
            return Ok(None);
        }
        let failed = |it| Error::Tools { agent: agent.name.value.clone(), source: Box::new(it) };
        if let Some(replaced) = self.replaced {
            let tools = replaced.get(&agent.name.value).cloned().unwrap_or_default();
            return Toolbox::new(tools, self.tool_limits()).map(|fixed| Some(fixed.into())).map_err(failed);
        }
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        let mut sets: Vec<Arc<dyn Toolset>> = Vec::new();
        let mut picked: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for name in &agent.tools {
            match ToolSelector::from_name(&name.value, &self.config.file.servers) {
                Ok(ToolSelector::Builtin(builtin)) => {
                    tools.extend(self.builtin_tools(builtin).map_err(failed)?)
                }
                Ok(ToolSelector::Tool { builtin, name, .. }) => {
                    let all = self.builtin_tools(builtin).map_err(failed)?;
                    tools.extend(all.into_iter().filter(|item| item.definition().name() == name));
                }
                Ok(ToolSelector::Server(index)) => {
                    sets.extend(self.servers.get(&index).map(|server| server.tools.clone()));
                }
                Ok(ToolSelector::ServerTool(index, tool)) => {
                    picked.entry(index).or_default().push(tool.to_owned());
                }
                // A sound file names nothing that is not there.
                Err(_) => {}
            }
        }
        for (index, names) in picked {
            let pick = |it: &BuiltServer| SelectedToolset::new(it.tools.clone(), names, it.teller.clone());
            sets.extend(self.servers.get(&index).map(pick).map(|it| Arc::new(it) as Arc<dyn Toolset>));
        }
        let fixed = Toolbox::new(tools, self.tool_limits()).map_err(failed)?;
        Ok(Some(LiveToolbox::new(fixed, sets)))
    }

    fn tool_limits(&self) -> ToolLimits {
        let mut limits = ToolLimits::standard();
        let settings = &self.config.file.tools;
        limits.time = settings.call_time.unwrap_or(limits.time);
        if let Some(bytes) = settings.output_bytes {
            limits.output_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        limits
    }

    fn builtin_tools(&self, builtin: BuiltinToolset) -> singletree_tools::Result<Vec<Arc<dyn Tool>>> {
        (builtin.build)(BuiltinDependencies {
            settings: &self.config.file.tools,
            documents: self.means.tool_documents.as_ref(),
            clock: &self.means.env.clock,
        })
    }
}

/// Returns the name under which a model calls the tool of a server.
pub(crate) fn model_tool_name(server: &str, tool: &str) -> String {
    format!("{server}__{tool}")
}

/// Returns the names by which a model calls the tools of a selector; a name that ends in `*` stands for all names
/// that begin so.
pub(crate) fn model_tool_names(selector: ToolSelector<'_>, servers: &[McpServerTable]) -> Vec<String> {
    match selector {
        ToolSelector::Builtin(builtin) => builtin.tools.iter().map(|(name, _)| (*name).to_owned()).collect(),
        ToolSelector::Tool { name, .. } => vec![name.to_owned()],
        ToolSelector::Server(index) => vec![model_tool_name(&servers[index].name.value, "*")],
        ToolSelector::ServerTool(index, tool) => vec![model_tool_name(&servers[index].name.value, tool)],
    }
}
