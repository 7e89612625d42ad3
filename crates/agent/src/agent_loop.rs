//! Building the loop: a provider, tools, and what a person must approve.

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::{END, Graph, SessionShape, Target};
use singletree_harness::{Agent, Durability, HISTORY};
use singletree_llm::{ChatMessage, Provider, RuntimeConfig};
use singletree_tools::{Effect, Toolbox};

use crate::approve::Approve;
use crate::error::Result;
use crate::gate::gate;
use crate::model::model;
use crate::parts::{GATE, MODEL, Parts, TOOLS};
use crate::state::AgentState;
use crate::tools::tools;

/// How often a model is asked in one invocation, unless something else is said.
const MODEL_CALLS_MAX: u64 = 32;
/// How long one answer of a model may take, unless something else is said.
const MODEL_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// The loop of an agent: ask the model, run the tools that it calls, ask again.
#[derive(Debug, Clone, Copy)]
pub struct AgentLoop;

impl AgentLoop {
    /// Starts an agent on a model, with no tools and no system prompt.
    #[must_use]
    pub fn builder(provider: Arc<dyn Provider>) -> AgentLoopBuilder {
        AgentLoopBuilder {
            parts: Parts {
                provider,
                sampling: RuntimeConfig::default(),
                system: None,
                window: None,
                toolbox: None,
                approve: Approve::default(),
                approval_expires_in: None,
                model_calls_max: MODEL_CALLS_MAX,
                model_time_max: MODEL_TIME_MAX,
            },
        }
    }
}

/// Collects what an agent is made of.
#[derive(Debug)]
pub struct AgentLoopBuilder {
    parts: Parts,
}

impl AgentLoopBuilder {
    /// Sets the system prompt: sent first with every request, never part of the history. Empty is none.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.parts.system = (!text.is_empty()).then(|| Arc::new(ChatMessage::system(text)));
        self
    }

    /// Sets how the model samples; as the provider does otherwise.
    #[must_use]
    pub fn sampling(mut self, config: RuntimeConfig) -> Self {
        self.parts.sampling = config;
        self
    }

    /// Shows the model only the end of the conversation, and holds no more of it in memory: the last so many messages, and
    /// before them what belongs to the same turn (D22). All of it otherwise.
    #[must_use]
    pub fn window(mut self, messages: u64) -> Self {
        self.parts.window = Some(messages);
        self
    }

    /// Sets the tools.
    #[must_use]
    pub fn toolbox(mut self, toolbox: Toolbox) -> Self {
        self.parts.toolbox = Some(toolbox);
        self
    }

    /// Sets which calls a person must approve; [`Effect::Destructive`] ones otherwise.
    #[must_use]
    pub fn approve(mut self, approve: Approve) -> Self {
        self.parts.approve = approve;
        self
    }

    /// Lets approvals expire: nobody answering for so long ends the turn with `chat_signal_expired`. Never otherwise.
    #[must_use]
    pub fn approval_expires_in(mut self, span: Duration) -> Self {
        self.parts.approval_expires_in = Some(span);
        self
    }

    /// Bounds how often the model is asked for one message of the user, suspensions included; 32 otherwise. One more is
    /// `chat_budget_exhausted` (D13).
    #[must_use]
    pub fn max_model_calls(mut self, calls: u64) -> Self {
        self.parts.model_calls_max = calls;
        self
    }

    /// Bounds how long one answer of the model may take; 10 minutes otherwise. Longer is `provider_unavailable` (D20).
    #[must_use]
    pub fn model_time(mut self, time: Duration) -> Self {
        self.parts.model_time_max = time;
        self
    }

    /// Makes the graph.
    ///
    /// # Errors
    /// The categories of [`singletree_engine::GraphBuilder::compile`].
    pub fn graph(self) -> Result<Graph<AgentState>> {
        let parts = Arc::new(self.parts);
        let [asking, deciding, running, after_model, after_gate] =
            std::array::from_fn(|_| Arc::clone(&parts));
        let graph = Graph::<AgentState>::builder()
            .node(MODEL, move |cx| model(Arc::clone(&asking), cx))
            .node(GATE, move |cx| gate(Arc::clone(&deciding), cx))
            .node(TOOLS, move |cx| tools(Arc::clone(&running), cx))
            .conditional_edge_to(MODEL, targets(), move |state| after_model.next(state))
            .conditional_edge_to(GATE, targets(), move |state| after_gate.next(state))
            .edge(TOOLS, MODEL)
            .entry(MODEL)
            // What was approved is no part of the conversation.
            .session_shape(SessionShape::fields([HISTORY]))
            .compile()?;
        Ok(graph)
    }

    /// Makes the agent. With tools it runs at [`Durability::Step`]: no committed call is run again (D26).
    ///
    /// # Errors
    /// As [`AgentLoopBuilder::graph`].
    pub fn agent(self, name: impl Into<String>) -> Result<Agent> {
        let effects = self.effects();
        let durability = if effects.is_empty() { Durability::Turn } else { Durability::Step };
        let effectful = effects.into_iter().any(Effect::changes);
        let window = self.parts.window;
        let agent = Agent::new(name, &self.graph()?).durability(durability).effectful_tools(effectful);
        Ok(match window {
            Some(messages) => agent.window(messages),
            None => agent,
        })
    }

    fn effects(&self) -> Vec<Effect> {
        let Some(toolbox) = &self.parts.toolbox else { return Vec::new() };
        let definitions = toolbox.definitions();
        let tools = definitions.iter().filter_map(|it| toolbox.get(it.name()));
        tools.map(|it| it.effect()).collect()
    }
}

fn targets() -> [Target; 3] {
    [GATE.into(), TOOLS.into(), END.into()]
}
