//! Building the loop: a provider, tools, and an approval policy.

use std::sync::Arc;
use std::time::Duration;

use singletree_engine::Graph;
use singletree_harness::{Agent, Durability};
use singletree_llm::{ChatMessage, InvalidOutput, ModelRetryPolicy, Provider, RuntimeConfig, Schema, Timer};
use singletree_tools::{Effect, IntoTool, LiveToolbox, Tool, ToolLimits, Toolbox};

use crate::approve::Approve;
use crate::command::{Artifacts, SnapshotSource};
use crate::compaction::Compaction;
use crate::error::Result;
use crate::graph::{build_graph, build_stateless_graph};
use crate::member::{AgentMember, CallRetryContext};
use crate::parts::AgentLoopParts;
use crate::repair::REPAIRS_MAX;
use crate::state::AgentState;

/// How often a model is asked in one invocation, unless something else is said.
pub(crate) const MODEL_CALLS_MAX: u64 = 32;
/// How long one answer of a model may take, unless something else is said.
const MODEL_TIME_MAX: Duration = Duration::from_secs(10 * 60);

/// Makes an agent of a model, its tools and an approval policy; everything else as [`AgentLoop::builder`] has it.
///
/// # Errors
/// As [`AgentLoopBuilder::agent`].
pub fn agent(
    name: impl Into<String>,
    model: Arc<dyn Provider>,
    tools: impl Into<LiveToolbox>,
    policy: Approve,
) -> Result<Agent> {
    AgentLoop::builder(model).toolbox(tools).approve(policy).agent(name)
}

/// The loop of an agent: ask the model, run the tools that it calls, ask again.
#[derive(Debug, Clone, Copy)]
pub struct AgentLoop;

impl AgentLoop {
    /// Starts an agent on a model, with no tools and no system prompt.
    #[must_use]
    pub fn builder(provider: Arc<dyn Provider>) -> AgentLoopBuilder {
        AgentLoopBuilder {
            member: AgentMember {
                id: None,
                provider,
                sampling: RuntimeConfig::default(),
                system: None,
                window: None,
                tools: None,
                allowed: None,
                hand_offs: Vec::new(),
                snapshots: None,
                artifacts: None,
                approve: Approve::default(),
                approval_expires_in: None,
                model_time_max: MODEL_TIME_MAX,
                retrying: CallRetryContext::default(),
                reply_schema: None,
                repairs_max: REPAIRS_MAX,
                shows_thinking: false,
            },
            tools: Ok(Vec::new()),
            compaction: None,
            model_calls_max: MODEL_CALLS_MAX,
        }
    }
}

/// Collects the parts of an agent.
#[derive(Debug)]
pub struct AgentLoopBuilder {
    member: AgentMember,
    /// The tools that were added one by one, or the error of the first that cannot be made.
    tools: Result<Vec<Arc<dyn Tool>>>,
    compaction: Option<Compaction>,
    model_calls_max: u64,
}

impl AgentLoopBuilder {
    /// Sets the system prompt: sent first with every request, never part of the history. Empty is none.
    #[must_use]
    pub fn system(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.member.system = (!text.is_empty()).then(|| Arc::new(ChatMessage::system(text)));
        self
    }

    /// Sets how the model samples; as the provider does otherwise.
    #[must_use]
    pub fn sampling(mut self, config: RuntimeConfig) -> Self {
        self.member.sampling = config;
        self
    }

    /// Shows the model only the end of the conversation, and holds no more of it in memory: the last so many messages,
    /// and before them the other messages of the same turn (D22). All of it otherwise.
    #[must_use]
    pub fn window(mut self, messages: u64) -> Self {
        self.member.window = Some(messages);
        self
    }

    /// Sets the tools: a [`Toolbox`](singletree_tools::Toolbox), or a [`LiveToolbox`] whose tools may come and go.
    /// Asked for at each call of the model, and again when its calls are run.
    #[must_use]
    pub fn toolbox(mut self, toolbox: impl Into<LiveToolbox>) -> Self {
        self.member.tools = Some(toolbox.into());
        self
    }

    /// Adds a tool, behind those of the toolbox: a function with `#[tool]`, or any [`Tool`]. Its limits are
    /// [`ToolLimits::standard`], or those of [`AgentLoopBuilder::toolbox`]. An error of it is told by
    /// [`AgentLoopBuilder::agent`].
    #[must_use]
    pub fn tool<Kind>(mut self, tool: impl IntoTool<Kind>) -> Self {
        self.tools = self.tools.and_then(|mut tools| {
            tools.push(tool.into_tool()?);
            Ok(tools)
        });
        self
    }

    /// Names the tools that the agent may use, of those that it has; all of them otherwise. The model is told of no
    /// other, and a call of another is answered as one of a tool that is not there, also one that the model was told of
    /// before.
    #[must_use]
    pub fn allow(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.member.allowed = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Asks the model again after errors that may go away, within [`AgentLoopBuilder::model_time`]. Otherwise it is
    /// asked once; an agent with a schema of its replies asks again where they do not fit.
    ///
    /// `pace` lets the waits pass, `fraction` draws from 0 up to 1 for their jitter.
    #[must_use]
    pub fn retry(
        mut self,
        retry: ModelRetryPolicy,
        pace: Arc<dyn Timer>,
        fraction: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        self.member.retrying = CallRetryContext { retry: Some(retry), pace, fraction: Arc::new(fraction) };
        self
    }

    /// Requires the agent's replies to be JSON of this schema: the reply that ends a turn fits it, or the turn ends
    /// with `structured_output_invalid`. If a reply does not fit, the model is told so and asked again, twice at most;
    /// the rejected replies are no part of the conversation. Tool calls are not affected.
    #[must_use]
    pub fn reply_schema(mut self, schema: Arc<Schema>) -> Self {
        self.member.reply_schema = Some(schema);
        if self.member.retrying.retry.is_none() {
            let only_unfit = |it: &singletree_llm::Error| it.category() == "structured_output_invalid";
            self.member.retrying.retry =
                Some(ModelRetryPolicy::new().classifier(only_unfit).reask(build_correction));
        }
        self
    }

    /// Bounds how many answers of the model in a row may need a repair; 3 otherwise (D30). An answer needs one when it
    /// calls a tool that there is not, or with arguments that are no JSON object or do not fit the tool's schema: the
    /// calls that fit run, the others are answered with their error, and the model is asked again. One more such answer
    /// ends the turn with its category, `provider_invalid_response`; with 0 the first one does.
    #[must_use]
    pub fn repairs(mut self, answers: u64) -> Self {
        self.member.repairs_max = answers;
        self
    }

    /// Shows the model's thinking to people while it is produced, as
    /// [`ThinkingDelta`](singletree_harness::ChatEventKind::ThinkingDelta) (D19). By default it is not shown.
    #[must_use]
    pub fn show_thinking(mut self, shown: bool) -> Self {
        self.member.shows_thinking = shown;
        self
    }

    /// Summarises the beginning of long conversations for the model (D27); never otherwise. The compaction then
    /// determines which messages stay unsummarised and in memory, not [`AgentLoopBuilder::window`].
    #[must_use]
    pub fn compaction(mut self, compaction: Compaction) -> Self {
        self.compaction = Some(compaction);
        self
    }

    /// Sets where the state comes from that the model is shown with a command, in sessions whose prompt policy is
    /// [`TurnPromptPolicy::Command`](singletree_harness::TurnPromptPolicy::Command); none otherwise. Conversations are not
    /// shown it.
    #[must_use]
    pub fn snapshots(mut self, source: Arc<dyn SnapshotSource>) -> Self {
        self.member.snapshots = Some(source);
        self
    }

    /// Sets where artifacts are kept, of which the model is shown the approved ones with a command, as with
    /// [`AgentLoopBuilder::snapshots`].
    #[must_use]
    pub fn artifacts(mut self, artifacts: Arc<Artifacts>) -> Self {
        self.member.artifacts = Some(artifacts);
        self
    }

    /// Sets which calls a person must approve; [`Effect::Destructive`] ones otherwise.
    #[must_use]
    pub fn approve(mut self, approve: Approve) -> Self {
        self.member.approve = approve;
        self
    }

    /// Lets approvals expire: nobody answering for so long ends the turn with `chat_signal_expired`. Never otherwise.
    #[must_use]
    pub fn approval_expires_in(mut self, span: Duration) -> Self {
        self.member.approval_expires_in = Some(span);
        self
    }

    /// Bounds how often the model is asked for one message of the user, suspensions included; 32 otherwise. One more is
    /// `chat_budget_exhausted` (D13).
    #[must_use]
    pub fn max_model_calls(mut self, calls: u64) -> Self {
        self.model_calls_max = calls;
        self
    }

    /// Bounds how long one answer of the model may take; 10 minutes otherwise. Longer is `provider_unavailable` (D20).
    #[must_use]
    pub fn model_time(mut self, time: Duration) -> Self {
        self.member.model_time_max = time;
        self
    }

    /// Makes the graph. As it is it may be the graph of a chat's agent, or a node of another graph, by
    /// [`GraphBuilder::subgraph`](singletree_engine::GraphBuilder::subgraph) with a projection of its own: then its
    /// messages are its own, too, and nothing of it is streamed or steered.
    ///
    /// # Errors
    /// `tool_duplicate` when two tools have the same name, the error of a tool that cannot be made, the categories of
    /// [`singletree_engine::GraphBuilder::compile`].
    pub fn graph(self) -> Result<Graph<AgentState>> {
        build_graph(self.into_loop_parts()?)
    }

    /// Makes the agent. With tools it runs at [`Durability::Step`]: no committed call is run again (D26). In no session
    /// ([`Chat::stateless`](singletree_harness::Chat::stateless)) it answers with the tools that only read and that
    /// nobody has to approve.
    ///
    /// # Errors
    /// As [`AgentLoopBuilder::graph`].
    pub fn agent(self, name: impl Into<String>) -> Result<Agent> {
        build_agent(name, self.into_loop_parts()?)
    }

    fn into_loop_parts(self) -> Result<AgentLoopParts> {
        let (compaction, model_calls_max) = (self.compaction.clone(), self.model_calls_max);
        let first = self.into_member()?;
        Ok(AgentLoopParts { first, others: Vec::new(), compaction, model_calls_max, stateless: false })
    }

    /// Returns the agent with all its tools.
    pub(crate) fn into_member(self) -> Result<AgentMember> {
        let Self { mut member, tools, .. } = self;
        let added = tools?;
        if !added.is_empty() {
            member.tools = Some(match member.tools {
                Some(toolbox) => toolbox.with_tools(added)?,
                None => Toolbox::new(added, ToolLimits::standard())?.into(),
            });
        }
        Ok(member)
    }
}

/// Makes an agent of the parts of its graph.
pub(crate) fn build_agent(name: impl Into<String>, parts: AgentLoopParts) -> Result<Agent> {
    let tools = parts.all_members().filter_map(|member| member.tools.as_ref());
    let effects: Vec<Effect> = tools.flat_map(LiveToolbox::possible_effects).collect();
    // A hand-off is a call, too.
    let calls = parts.is_team() || !effects.is_empty();
    let durability = if calls { Durability::Step } else { Durability::Turn };
    let effectful = effects.into_iter().any(Effect::has_side_effects);
    // The longest of them all, and all when one wants all.
    let windows = parts.all_members().map(|it| it.window).collect::<Option<Vec<_>>>();
    let window = match &parts.compaction {
        Some(compaction) => Some(compaction.held_message_limit()),
        None => windows.and_then(|it| it.into_iter().max()),
    };
    let stateless = build_stateless_graph(&parts)?;
    let agent = Agent::new(name, &build_graph(parts)?).durability(durability).effectful_tools(effectful);
    let agent = agent.stateless(&stateless);
    Ok(match window {
        Some(messages) => agent.window(messages),
        None => agent,
    })
}

/// Returns the correction for a model whose reply does not fit.
fn build_correction(invalid: &InvalidOutput) -> String {
    format!(
        "That reply does not fit the schema it must have: {}. Reply again, with JSON that fits and nothing else.",
        invalid.error_message
    )
}
