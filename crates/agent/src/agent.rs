//! The agent: a model, its tools, and the calls that a person must approve.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use singletree_engine::Graph;
use singletree_env::Env;
use singletree_harness::{Durability, GraphAgent, IntoAgent};
use singletree_llm::{ChatMessage, InvalidOutput, ModelRetryPolicy, Provider, RuntimeConfig, Schema};
use singletree_tools::{Effect, IntoTool, LiveToolbox, Tool, ToolLimits, Toolbox};

use crate::approval_policy::ApprovalPolicy;
use crate::chat_settings::ChatSettings;
use crate::command::{Artifacts, SnapshotSource};
use crate::compaction::Compaction;
use crate::error::Result;
use crate::graph::{build_graph, build_stateless_graph};
use crate::member::AgentMember;
use crate::parts::AgentLoopParts;
use crate::profile::AgentProfile;
use crate::repair::REPAIRS_MAX;
use crate::state::AgentState;

/// How often a model is asked in one invocation, unless something else is said.
pub(crate) const MODEL_CALLS_MAX: u64 = 32;
/// How long one answer of a model may take, unless something else is said.
const MODEL_TIME_MAX: Duration = Duration::from_secs(10 * 60);
/// When an agent was made whose record has no time.
const UNDATED: &str = "1970-01-01T00:00:00Z";

/// An agent: it asks its model, runs the tools that the model calls, and asks again, until the model calls none.
///
/// A chat takes it as it is ([`ChatBuilder::agent`](singletree_harness::ChatBuilder::agent)), a [`Team`](crate::Team)
/// as a member, and another graph as a node ([`Agent::graph`]). Settings never fail: the first error of a part, such as
/// a tool that cannot be made, is kept and returned when the agent is built, which a chat does when it is opened.
#[derive(Debug)]
#[must_use]
pub struct Agent {
    profile: AgentProfile,
    member: AgentMember,
    /// The tools that were added one by one, or the first error of a part.
    tools: Result<Vec<Arc<dyn Tool>>>,
    compaction: Option<Compaction>,
    model_calls_max: u64,
    env: Option<Env>,
    pub(crate) settings: ChatSettings,
}

impl Agent {
    /// Makes an agent of a name and a model, with no tools and no instructions. The name is stored with its sessions.
    pub fn new(name: impl Into<String>, model: impl Provider + 'static) -> Self {
        let name = name.into();
        Self::from_profile(AgentProfile::new(name.clone(), name, UNDATED), model)
    }

    /// Makes an agent of a record and a model. Its name is the id of the record, the prompts of the record follow its
    /// instructions, and it may use the tools that the record lists.
    pub fn from_profile(profile: AgentProfile, model: impl Provider + 'static) -> Self {
        Self {
            profile,
            member: AgentMember {
                id: None,
                provider: Arc::new(model),
                sampling: RuntimeConfig::default(),
                system: None,
                window: None,
                tools: None,
                allowed: None,
                hand_offs: Vec::new(),
                snapshots: None,
                artifacts: None,
                approval: ApprovalPolicy::default(),
                approval_expires_in: None,
                model_time_max: MODEL_TIME_MAX,
                retry: None,
                reply_schema: None,
                repairs_max: REPAIRS_MAX,
                shows_thinking: false,
            },
            tools: Ok(Vec::new()),
            compaction: None,
            model_calls_max: MODEL_CALLS_MAX,
            env: None,
            settings: ChatSettings::default(),
        }
    }

    /// Returns how clients list it and other agents see it.
    #[must_use]
    pub fn profile(&self) -> &AgentProfile {
        &self.profile
    }

    /// Describes its purpose, for people and for the models of other agents of its team. Its own model is given the
    /// [`Agent::instructions`].
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.profile.description = Some(text.into());
        self
    }

    /// Sets the instructions for its model (the system prompt): sent first with every request, never part of the
    /// history. An empty text is none.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.member.system = (!text.is_empty()).then(|| Arc::new(ChatMessage::system(text)));
        self
    }

    /// Sets how the model samples; as the provider does otherwise.
    pub fn sampling(mut self, config: RuntimeConfig) -> Self {
        self.member.sampling = config;
        self
    }

    /// Shows the model only the end of the conversation, and holds no more of it in memory: the last so many messages,
    /// and before them the other messages of the same turn (D22). All of it otherwise.
    pub fn window(mut self, messages: u64) -> Self {
        self.member.window = Some(messages);
        self
    }

    /// Sets the tools: a [`Toolbox`](singletree_tools::Toolbox), or a [`LiveToolbox`] whose tools may come and go.
    /// Asked for at each call of the model, and again when its calls are run.
    pub fn toolbox(mut self, toolbox: impl Into<LiveToolbox>) -> Self {
        self.member.tools = Some(toolbox.into());
        self
    }

    /// Adds a tool, behind those of the toolbox: a function with `#[tool]`, a function that makes a tool, or any
    /// [`Tool`]. Its limits are [`ToolLimits::standard`], or those of [`Agent::toolbox`]. If it cannot be made, building
    /// the agent returns the error.
    pub fn tool<Kind>(self, tool: impl IntoTool<Kind>) -> Self {
        self.tools([tool])
    }

    /// Adds several tools of one kind, as [`Agent::tool`] adds one.
    pub fn tools<Kind>(mut self, tools: impl IntoIterator<Item = impl IntoTool<Kind>>) -> Self {
        self.tools = self.tools.and_then(|mut added| {
            for tool in tools {
                added.push(tool.into_tool()?);
            }
            Ok(added)
        });
        self
    }

    /// Names the tools that the agent may use, of those that it has; all of them otherwise. The model is told of no
    /// other, and a call of another is answered as one of a tool that is not there, also one that the model was told of
    /// before.
    pub fn allow(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.member.allowed = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Asks the model again after errors that may go away, within [`Agent::model_time`]. Otherwise it is asked once; an
    /// agent with a schema of its replies asks again where they do not fit.
    ///
    /// The waits pass by the timer of the chat, and their jitter is drawn from its random numbers
    /// ([`ChatBuilder::env`](singletree_harness::ChatBuilder::env)).
    pub fn retry(mut self, retry: ModelRetryPolicy) -> Self {
        self.member.retry = Some(retry);
        self
    }

    /// Requires the agent's replies to be JSON of this type, which is read from them by
    /// [`CompletedTurn::reply_as`](singletree_harness::CompletedTurn::reply_as). Everything else as
    /// [`Agent::reply_schema`]; building the agent returns an error if the type has no valid schema.
    pub fn reply_type<T: JsonSchema>(mut self) -> Self {
        match Schema::compile(schemars::schema_for!(T).to_value()) {
            Ok(schema) => self.reply_schema(schema),
            Err(error) => {
                self.tools = self.tools.and(Err(error.into()));
                self
            }
        }
    }

    /// Requires the agent's replies to be JSON of this schema: the reply that ends a turn fits it, or the turn ends
    /// with `structured_output_invalid`. If a reply does not fit, the model is told so and asked again, twice at most;
    /// the rejected replies are no part of the conversation. Tool calls are not affected.
    pub fn reply_schema(mut self, schema: impl Into<Arc<Schema>>) -> Self {
        self.member.reply_schema = Some(schema.into());
        self
    }

    /// Bounds how many answers of the model in a row may need a repair; 3 otherwise (D30). An answer needs one when it
    /// calls a tool that there is not, or with arguments that are no JSON object or do not fit the tool's schema: the
    /// calls that fit run, the others are answered with their error, and the model is asked again. One more such answer
    /// ends the turn with its category, `provider_invalid_response`; with 0 the first one does.
    pub fn repairs(mut self, answers: u64) -> Self {
        self.member.repairs_max = answers;
        self
    }

    /// Shows the model's thinking to people while it is produced, as
    /// [`ThinkingDelta`](singletree_harness::ChatEventKind::ThinkingDelta) (D19). By default it is not shown.
    pub fn show_thinking(mut self, shown: bool) -> Self {
        self.member.shows_thinking = shown;
        self
    }

    /// Summarises the beginning of long conversations for the model (D27); never otherwise. The compaction then
    /// determines which messages stay unsummarised and in memory, not [`Agent::window`].
    pub fn compaction(mut self, compaction: Compaction) -> Self {
        self.compaction = Some(compaction);
        self
    }

    /// Sets where the state comes from that the model is shown with a command, in sessions whose prompt policy is
    /// [`TurnPromptPolicy::Command`](singletree_harness::TurnPromptPolicy::Command); none otherwise. Conversations are not
    /// shown it.
    pub fn snapshots(mut self, source: Arc<dyn SnapshotSource>) -> Self {
        self.member.snapshots = Some(source);
        self
    }

    /// Sets where artifacts are kept, of which the model is shown the approved ones with a command, as with
    /// [`Agent::snapshots`].
    pub fn artifacts(mut self, artifacts: impl Into<Arc<Artifacts>>) -> Self {
        self.member.artifacts = Some(artifacts.into());
        self
    }

    /// Sets the calls that a person must approve before they run: by the effect of their tool, or by an
    /// [`ApprovalPolicy`]. Without it those with [`Effect::Destructive`].
    pub fn ask_before(mut self, policy: impl Into<ApprovalPolicy>) -> Self {
        self.member.approval = policy.into();
        self
    }

    /// Lets approvals expire: nobody answering for so long ends the turn with `chat_signal_expired`. Never otherwise.
    pub fn approval_expires_in(mut self, span: Duration) -> Self {
        self.member.approval_expires_in = Some(span);
        self
    }

    /// Bounds how often the model is asked for one message of the user, suspensions included; 32 otherwise. One more is
    /// `chat_budget_exhausted` (D13).
    pub fn max_model_calls(mut self, calls: u64) -> Self {
        self.model_calls_max = calls;
        self
    }

    /// Bounds how long one answer of the model may take; 10 minutes otherwise. Longer is `provider_unavailable` (D20).
    pub fn model_time(mut self, time: Duration) -> Self {
        self.member.model_time_max = time;
        self
    }

    /// Sets the environment of its graph: clock, identifiers and tasks (INV-11); the real one otherwise. The chat that
    /// serves it has an environment of its own.
    pub fn env(mut self, env: Env) -> Self {
        self.env = Some(env);
        self
    }

    /// Makes the graph of its loop, for use as a node of another graph, by
    /// [`GraphBuilder::subgraph`](singletree_engine::GraphBuilder::subgraph) with a projection of its own: then its
    /// messages are its own, too, and nothing of it is streamed or steered.
    ///
    /// # Errors
    /// `tool_duplicate` when two tools have the same name, the error of a tool that cannot be made, the categories of
    /// [`singletree_engine::GraphBuilder::compile`].
    pub fn graph(self) -> Result<Graph<AgentState>> {
        build_graph(self.into_loop_parts()?)
    }

    /// Builds the agent in the form in which a chat serves it, to find its errors early. A chat does the same.
    ///
    /// With tools it runs at [`Durability::Step`]: no committed call is run again (D26). In no session
    /// ([`Chat::stateless`](singletree_harness::Chat::stateless)) it answers with the tools that only read and that
    /// nobody has to approve.
    ///
    /// # Errors
    /// As [`Agent::graph`].
    pub fn build(self) -> Result<GraphAgent> {
        let (name, settings) = (self.profile.id.clone(), self.settings.clone());
        Ok(settings.apply_to(build_graph_agent(name, self.into_loop_parts()?)?))
    }

    pub(crate) fn into_loop_parts(self) -> Result<AgentLoopParts> {
        let (compaction, model_calls_max, env) =
            (self.compaction.clone(), self.model_calls_max, self.env.clone());
        let first = self.into_member()?;
        Ok(AgentLoopParts { first, others: Vec::new(), compaction, model_calls_max, stateless: false, env })
    }

    /// Returns the environment of the graph, if one was set.
    pub(crate) fn environment(&self) -> Option<&Env> {
        self.env.as_ref()
    }

    /// Returns the agent with all its tools, and with the prompts and the limits of its record.
    pub(crate) fn into_member(self) -> Result<AgentMember> {
        let Self { profile, mut member, tools, .. } = self;
        let added = tools?;
        if !added.is_empty() {
            member.tools = Some(match member.tools {
                Some(toolbox) => toolbox.with_tools(added)?,
                None => Toolbox::new(added, ToolLimits::standard())?.into(),
            });
        }
        if let Some(listed) = profile.allowed_tools() {
            let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
            // Of two lists both hold.
            member.allowed = Some(match member.allowed {
                Some(allowed) => allowed.intersection(&listed).cloned().collect(),
                None => listed,
            });
        }
        if let Some(prompt) = profile.build_prompt() {
            let own = member.system.map(|system| system.text().into_owned());
            let text = own.into_iter().chain([prompt]).collect::<Vec<_>>().join("\n\n");
            member.system = Some(Arc::new(ChatMessage::system(text)));
        }
        if member.reply_schema.is_some() && member.retry.is_none() {
            let only_unfit = |error: &singletree_llm::Error| error.category() == "structured_output_invalid";
            member.retry = Some(ModelRetryPolicy::new().classifier(only_unfit).reask(build_correction));
        }
        Ok(member)
    }
}

crate::chat_settings::chat_settings!(Agent);

impl IntoAgent for Agent {
    fn into_agent(self) -> Result<GraphAgent, singletree_harness::Error> {
        let agent = self.profile.id.clone();
        self.build().map_err(|error| error.for_agent(agent))
    }
}

/// Makes the agent of a chat of the parts of its graph.
pub(crate) fn build_graph_agent(name: impl Into<String>, parts: AgentLoopParts) -> Result<GraphAgent> {
    let tools = parts.all_members().filter_map(|member| member.tools.as_ref());
    let effects: Vec<Effect> = tools.flat_map(LiveToolbox::possible_effects).collect();
    // A hand-off is a call, too.
    let calls = parts.is_team() || !effects.is_empty();
    let durability = if calls { Durability::Step } else { Durability::Turn };
    let effectful = effects.into_iter().any(Effect::has_side_effects);
    // The longest of them all, and all when one wants all.
    let windows = parts.all_members().map(|member| member.window).collect::<Option<Vec<_>>>();
    let window = match &parts.compaction {
        Some(compaction) => Some(compaction.held_message_limit()),
        None => windows.and_then(|windows| windows.into_iter().max()),
    };
    let stateless = build_stateless_graph(&parts)?;
    let agent = GraphAgent::new(name, &build_graph(parts)?).durability(durability).effectful_tools(effectful);
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
