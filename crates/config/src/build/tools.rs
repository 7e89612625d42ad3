//! Tools that are ready to be called.

use std::sync::Arc;

use singletree_tools::{Calculator, Clock, Notes, Outbox, Tool, ToolLimits, Toolbox};

use super::Means;
use crate::agent::AgentTable;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::selector::Selector;
use crate::server::Server;

/// What agents share: their settings, and servers that run.
#[derive(Debug)]
pub(crate) struct Shared<'c> {
    config: &'c Config,
    means: &'c Means,
}

impl<'c> Shared<'c> {
    pub(crate) fn new(config: &'c Config, means: &'c Means) -> Result<Self> {
        Ok(Self { config, means })
    }

    /// Returns the tools of an agent; none when it lists none.
    pub(crate) fn toolbox(&self, agent: &AgentTable) -> Result<Option<Toolbox>> {
        if agent.tools.is_empty() {
            return Ok(None);
        }
        let failed = |source| Error::Tools { agent: agent.name.value.clone(), source };
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for name in &agent.tools {
            match Selector::find(&name.value, &self.config.file.servers) {
                Ok(Selector::Builtin(builtin)) => tools.extend(self.builtin(builtin.name).map_err(failed)?),
                Ok(Selector::Tool { builtin, name, .. }) => {
                    let all = self.builtin(builtin.name).map_err(failed)?;
                    tools.extend(all.into_iter().filter(|it| it.definition().name() == name));
                }
                Ok(Selector::Server(_) | Selector::ServerTool(..)) | Err(_) => {}
            }
        }
        Toolbox::new(tools, self.limits()).map(Some).map_err(failed)
    }

    fn limits(&self) -> ToolLimits {
        let mut limits = ToolLimits::standard();
        let settings = &self.config.file.tools;
        limits.time = settings.call_time.unwrap_or(limits.time);
        if let Some(bytes) = settings.output_bytes {
            limits.output_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        limits
    }

    fn builtin(&self, name: &str) -> singletree_tools::Result<Vec<Arc<dyn Tool>>> {
        let settings = &self.config.file.tools;
        let place = |named: &Option<std::path::PathBuf>, usual: &str| match named {
            Some(path) => self.config.path(path),
            None => self.means.data.join(usual),
        };
        let now = self.means.now.clone();
        Ok(match name {
            "clock" => vec![Arc::new(Clock::new(move || now())?)],
            "calculator" => vec![Arc::new(Calculator::new()?)],
            "notes" => Notes::new(place(&settings.notes, "notes.txt")).tools()?,
            "outbox" => vec![Arc::new(Outbox::new(place(&settings.outbox, "outbox"))?)],
            _ => Vec::new(),
        })
    }
}

/// Returns the names by which a model calls what a selector means; one that ends in `*` stands for all that begin so.
pub(crate) fn names(selector: Selector<'_>, servers: &[Server]) -> Vec<String> {
    match selector {
        Selector::Builtin(builtin) => builtin.tools.iter().map(|(name, _)| (*name).to_owned()).collect(),
        Selector::Tool { name, .. } => vec![name.to_owned()],
        Selector::Server(index) => vec![format!("{}__*", servers[index].name.value)],
        Selector::ServerTool(index, tool) => vec![format!("{}__{tool}", servers[index].name.value)],
    }
}
