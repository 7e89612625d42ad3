//! The agents that are simulated: those of the simulation itself, or those of a user.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use singletree_env::{BoxError, Env};
use singletree_harness::{GraphAgent, Limits};
use singletree_llm::Provider;
use singletree_tools::{Tool, ToolTraits};

use crate::model::SimulatedModel;
use crate::tool::{SimulatedTool, ToolWorld};

/// Agents of a user. They are made anew for each simulated process.
pub trait SimulatedAgents: fmt::Debug + Send + Sync {
    /// Returns the names of the agents; the default one comes first.
    fn agent_names(&self) -> Vec<String>;

    /// Returns the bounds of their chat. The simulation makes those of memory smaller.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Makes the agents, in the order of their names, with the environment, the model and the tools of the simulation. What
    /// reaches outside past these fails: a timer or a task of tokio panics.
    ///
    /// # Errors
    /// Whatever keeps them from being made: the run reports it.
    fn build_agents(&self, parts: &SimulatedAgentParts) -> Result<Vec<GraphAgent>, BoxError>;
}

/// The parts that a simulated process has for agents of a user.
#[derive(Debug, Clone)]
pub struct SimulatedAgentParts {
    pub(crate) env: Env,
    pub(crate) model: Arc<SimulatedModel>,
    pub(crate) world: ToolWorld,
    pub(crate) tools: KnownTools,
}

impl SimulatedAgentParts {
    /// Returns the environment of the process.
    #[must_use]
    pub fn env(&self) -> Env {
        self.env.clone()
    }

    /// Returns the model. Its answers are drawn from the seed: it calls the tools that it is offered with arguments that
    /// fit their schemas, repeats some of the calls whose outcome it is told to be unknown, and then answers.
    #[must_use]
    pub fn model(&self) -> Arc<dyn Provider> {
        self.model.clone()
    }

    /// Makes the tool that takes the place of one with these properties. Its effect happens outside of the process: once
    /// for a key where the tool is idempotent, each time that it is called otherwise.
    #[must_use]
    pub fn make_tool(&self, traits: &ToolTraits) -> Arc<dyn Tool> {
        self.tools.add_tool(traits);
        Arc::new(SimulatedTool::of_user(traits.clone(), self.world.clone(), self.tools.clone()))
    }
}

/// A tool of a user's agents, and how often it was called.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolTally {
    /// Its properties.
    pub traits: ToolTraits,
    /// Calls that reached it.
    pub calls: u64,
}

/// The tools of a user's agents by name. A clone is the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownTools(Arc<Mutex<BTreeMap<String, ToolTally>>>);

impl KnownTools {
    fn add_tool(&self, traits: &ToolTraits) {
        let mut tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = || ToolTally { traits: traits.clone(), calls: 0 };
        tools.entry(traits.definition.name().to_owned()).or_insert_with(tally);
    }

    pub(crate) fn count_call(&self, name: &str) {
        if let Some(tally) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(name) {
            tally.calls += 1;
        }
    }

    /// Returns all of them.
    pub(crate) fn tallies(&self) -> BTreeMap<String, ToolTally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
