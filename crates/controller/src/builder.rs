//! How a controller is put together with the chat in which its cycles run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use singletree_agent::{AgentResources, Artifacts};
use singletree_campaign::CampaignStore;
use singletree_durable::DocumentStore;
use singletree_env::Env;
use singletree_harness::{Chat, GraphAgent, Redact};
use singletree_narration::{Locale, NarrationSink, NarrationVerbosity, NoNarration};

use crate::controller::Controller;
use crate::core::ControllerCore;
use crate::cycle::build_cycle_agent;
use crate::error::{Error, Result};
use crate::limits::ControllerLimits;
use crate::narrate::CampaignNarrator;
use crate::queue::RunnerQueue;
use crate::template::CampaignTemplate;

/// Builds a [`Controller`] in two steps: first its parts, of which the chat needs one agent, then the controller over
/// that chat.
#[derive(Debug)]
pub struct ControllerBuilder {
    documents: Arc<dyn DocumentStore>,
    agents: Vec<AgentResources>,
    templates: Vec<CampaignTemplate>,
    verify_tools: BTreeSet<(String, String)>,
    limits: ControllerLimits,
    env: Env,
    narrator: CampaignNarrator,
}

/// The parts of a controller, before there is a chat.
#[derive(Debug)]
pub struct ControllerParts {
    core: Arc<ControllerCore>,
    cycle_agent: GraphAgent,
}

impl ControllerBuilder {
    pub(crate) fn new(documents: Arc<dyn DocumentStore>) -> Self {
        Self {
            documents,
            agents: Vec::new(),
            templates: Vec::new(),
            verify_tools: BTreeSet::new(),
            limits: ControllerLimits::default(),
            env: Env::from_system(),
            narrator: CampaignNarrator::new(Arc::new(NoNarration)),
        }
    }

    /// Adds an agent that may pursue campaigns: its model proposes, its tools are called, its policy says which calls a
    /// person approves. The first one pursues the campaigns that name none.
    #[must_use]
    pub fn agent(mut self, agent: AgentResources) -> Self {
        self.agents.push(agent);
        self
    }

    /// Adds a template.
    #[must_use]
    pub fn template(mut self, template: CampaignTemplate) -> Self {
        self.templates.push(template);
        self
    }

    /// Permits a tool of an MCP server to read proofs (`[campaigns] verify_tools`). The hints of a server permit
    /// nothing.
    #[must_use]
    pub fn verify_tool(mut self, server: impl Into<String>, tool: impl Into<String>) -> Self {
        self.verify_tools.insert((server.into(), tool.into()));
        self
    }

    /// Sets the bounds (INV-12).
    #[must_use]
    pub fn limits(mut self, limits: ControllerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets where time, identifiers and waits come from (INV-11); the real ones otherwise. The chat has its own.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Sets where narration goes; nowhere otherwise (INV-9).
    #[must_use]
    pub fn narration(mut self, sink: Arc<dyn NarrationSink>) -> Self {
        self.narrator.sink = sink;
        self
    }

    /// Sets the language of the narration; English otherwise.
    #[must_use]
    pub fn narrate_in(mut self, locale: Locale) -> Self {
        self.narrator.locale = locale;
        self
    }

    /// Sets how much is narrated; [`NarrationVerbosity::Normal`] otherwise.
    #[must_use]
    pub fn narrate_as(mut self, verbosity: NarrationVerbosity) -> Self {
        self.narrator.verbosity = verbosity;
        self
    }

    /// Sets the redactor that removes secrets from narrated arguments and from diagnostics (INV-16).
    #[must_use]
    pub fn redacting(mut self, redact: Redact) -> Self {
        self.narrator.redact = redact;
        self
    }

    /// Makes the parts.
    ///
    /// # Errors
    /// `campaign_agent_unknown` for a template whose agent is none of those that were added; the category of a graph
    /// that does not compile: none with this crate as it is.
    pub fn build(self) -> Result<ControllerParts> {
        let default_agent = self.agents.first().map(|agent| agent.name().to_owned());
        let agents: BTreeMap<String, AgentResources> =
            self.agents.into_iter().map(|agent| (agent.name().to_owned(), agent)).collect();
        let named = self.templates.iter().filter_map(|template| template.agent.as_ref());
        if let Some(agent) = named.into_iter().find(|agent| !agents.contains_key(*agent)) {
            return Err(Error::AgentUnknown { agent: agent.clone() });
        }
        let redact = self.narrator.redact.clone();
        let core = Arc::new(ControllerCore {
            store: CampaignStore::new(self.documents.clone()),
            artifacts: Artifacts::new(self.documents, self.env.clock.clone()),
            agents,
            default_agent,
            templates: self.templates,
            verify_tools: self.verify_tools,
            limits: self.limits,
            env: self.env,
            narrator: self.narrator,
            followers: Arc::default(),
            queue: RunnerQueue::default(),
        });
        let cycle_agent = build_cycle_agent(&core)?.redacting(redact);
        Ok(ControllerParts { core, cycle_agent })
    }
}

impl ControllerParts {
    /// Returns the agent that runs the cycles of campaigns: the chat has to be built with it
    /// ([`ChatBuilder::agent`](singletree_harness::ChatBuilder::agent)), behind its other agents. It answers in the
    /// sessions of campaigns only, and is not listed.
    #[must_use]
    pub fn cycle_agent(&self) -> GraphAgent {
        self.cycle_agent.clone()
    }

    /// Makes the controller over a chat that has the agent of [`ControllerParts::cycle_agent`] and stores its sessions
    /// where the documents are.
    #[must_use]
    pub fn with_chat(self, chat: Chat) -> Controller {
        Controller::new(self.core, chat)
    }
}
