//! An agent that is a graph: its name, its settings and its guarantees.

use std::sync::Arc;

use singletree_engine::{Graph, Snapshot, StateMigrations};
use singletree_session::{
    AgentVersion, BucketTable, Budget, COMMAND, HistoryWindow, TurnPromptPolicy, WhileSuspended,
};

use crate::Error;
use crate::agents::history::check_history_field;
use crate::agents::reply::{ErrorReplies, Redact};

/// The policy for turns whose client disconnects before their end (D31): the stream of the request that began the turn
/// was closed, and nobody else follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDisconnect {
    /// It goes on.
    #[default]
    Continue,
    /// It is cancelled after a while, as by [`Chat::cancel`](crate::Chat::cancel).
    Cancel,
}

/// How often a turn is committed (architecture: durability levels).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is accepted and when it ends. A crash runs the whole turn again.
    #[default]
    Turn,
    /// Also after each node. A crash runs no committed node again.
    Step,
}

/// How callers come by the outcome of a turn that resumed. A subscription is told in any case
/// ([`Session::subscribe`](crate::Session::subscribe)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResumedReply {
    /// By subscription alone.
    #[default]
    Subscription,
    /// The next send of the session returns it, too, before its own: [`Turn::resumed`](crate::Turn::resumed),
    /// [`Session::send_catching_up`](crate::Session::send_catching_up).
    NextSend,
}

/// An agent that is a compiled graph: the form in which a chat serves every agent.
///
/// An agent with a graph of your own is made by [`GraphAgent::new`]. The agents of the crate `agent`, which call a model
/// and run its tools, become one when a chat takes them ([`IntoAgent`]).
#[derive(Debug, Clone)]
pub struct GraphAgent {
    pub(crate) name: String,
    pub(crate) graph: Graph<Snapshot>,
    pub(crate) durability: Durability,
    pub(crate) while_suspended: WhileSuspended,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) prompt_policy: TurnPromptPolicy,
    pub(crate) buckets: BucketTable,
    pub(crate) replies: ErrorReplies,
    pub(crate) migrations: Arc<StateMigrations>,
    state_migrations: Option<Arc<StateMigrations>>,
    pub(crate) budget: Budget,
    pub(crate) resumed_reply: ResumedReply,
    early: Vec<String>,
    /// How the ids of the sessions begin that are its own; none where it answers in all others.
    pub(crate) reserved: Option<String>,
    pub(crate) window: Option<HistoryWindow>,
    effectful_tools: bool,
    pub(crate) stateless: Option<Graph<Snapshot>>,
}

impl GraphAgent {
    /// Makes an agent of a graph. The name is stored with its sessions.
    #[must_use]
    pub fn new<S>(name: impl Into<String>, graph: &Graph<S>) -> Self {
        Self {
            name: name.into(),
            graph: graph.untyped(),
            durability: Durability::default(),
            while_suspended: WhileSuspended::default(),
            on_disconnect: OnDisconnect::default(),
            prompt_policy: TurnPromptPolicy::default(),
            buckets: BucketTable::default(),
            replies: ErrorReplies::default(),
            migrations: Arc::default(),
            state_migrations: None,
            budget: Budget::default(),
            resumed_reply: ResumedReply::default(),
            early: Vec::new(),
            reserved: None,
            window: None,
            effectful_tools: false,
            stateless: None,
        }
    }

    /// Returns the agent's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the agent's graph.
    #[must_use]
    pub fn graph(&self) -> &Graph<Snapshot> {
        &self.graph
    }

    /// Sets how often its turns are committed.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how messages are handled while a session of this agent waits for a signal.
    #[must_use]
    pub fn while_suspended(mut self, policy: WhileSuspended) -> Self {
        self.while_suspended = policy;
        self
    }

    /// Sets the policy for its turns whose client disconnects, where the request sets none (D31). The chat itself
    /// cancels nothing: a server applies the policy ([`Chat::on_disconnect`](crate::Chat::on_disconnect)).
    #[must_use]
    pub fn on_disconnect(mut self, policy: OnDisconnect) -> Self {
        self.on_disconnect = policy;
        self
    }

    /// Sets the policy of its new sessions, where whoever makes one sets none: which texts reach the model. Sessions
    /// that are there keep theirs. With [`TurnPromptPolicy::Command`] the graph needs the field
    /// [`COMMAND`](crate::COMMAND).
    #[must_use]
    pub fn prompt_policy(mut self, policy: TurnPromptPolicy) -> Self {
        self.prompt_policy = policy;
        self
    }

    /// Declares that its tools have effects: then it must run at [`Durability::Step`] (D26).
    #[must_use]
    pub fn effectful_tools(mut self, effectful: bool) -> Self {
        self.effectful_tools = effectful;
        self
    }

    /// Sets the graph that answers in no session ([`Chat::stateless`](crate::Chat::stateless)): nobody can be asked
    /// there, and nothing is recorded, so it must not change anything and not wait for signals: a run that does ends
    /// errored. Without it the agent answers in sessions only.
    ///
    /// Its state is one as [`GraphAgent::new`] needs it. The agents of the crate `agent` bring theirs: the same loop with
    /// the tools that only read.
    #[must_use]
    pub fn stateless<S>(mut self, graph: &Graph<S>) -> Self {
        self.stateless = Some(graph.untyped());
        self
    }

    /// Holds only the end of the history in memory (D22): the last `messages` messages, and the earlier messages of the
    /// same turn, so that a window begins with a message of the user. Positions and lengths stay absolute; earlier
    /// messages are read with [`Messages::read_at_positions`]. Without a window a session's whole history is read before its first
    /// turn in a process.
    ///
    /// [`Messages::read_at_positions`]: crate::Messages::read_at_positions
    #[must_use]
    pub fn window(mut self, messages: u64) -> Self {
        self.window = Some(HistoryWindow::new(messages));
        self
    }

    /// Sets how stored sessions of older versions are brought to the graph's (sessions §7).
    #[must_use]
    pub fn session_migrations(mut self, migrations: StateMigrations) -> Self {
        self.migrations = Arc::new(migrations);
        self
    }

    /// Sets how the states of runs that were stored under older versions of the graph's state are brought to the
    /// present one: of invocations that wait for a signal, and of those whose process died (pipeline-utilities §10.12,
    /// R36). Each migration gets the whole state of a graph, also of each subgraph that the run was inside of.
    ///
    /// Without it the migrations of sessions do this, where session and state have one version: then a session is the
    /// state. A session whose projection has a version of its own needs both.
    #[must_use]
    pub fn state_migrations(mut self, migrations: StateMigrations) -> Self {
        self.state_migrations = Some(Arc::new(migrations));
        self
    }

    /// Returns the migrations of the states of stored runs.
    pub(crate) fn stored_run_migrations(&self) -> Arc<StateMigrations> {
        match &self.state_migrations {
            Some(migrations) => migrations.clone(),
            None if self.graph.session_version() == self.graph.schema().version() => self.migrations.clone(),
            None => Arc::default(),
        }
    }

    /// Sets how callers come by the outcome of a turn that resumed, beside the subscription (D21).
    #[must_use]
    pub fn resumed_reply(mut self, reply: ResumedReply) -> Self {
        self.resumed_reply = reply;
        self
    }

    /// Declares signals that may come before anything waits for them: sessions of this agent keep them, within the
    /// chat's limits ([`Chat::signal`](crate::Chat::signal), D2). An id that ends in `*` stands for all ids that begin
    /// so.
    ///
    /// Use ids for early signals that are unique to their subject, as in `payment-4711`: a signal with an id that a
    /// wait of the session consumed before is a duplicate of that answer, not an early signal.
    #[must_use]
    pub fn early_signals(mut self, signals: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.early = signals.into_iter().map(Into::into).collect();
        self
    }

    /// Tells whether a signal may come early.
    pub(crate) fn expects_early_signal(&self, signal: &str) -> bool {
        self.early.iter().any(|it| match it.strip_suffix('*') {
            Some(beginning) => signal.starts_with(beginning),
            None => signal == it,
        })
    }

    /// Describes the agent to the session core.
    pub(crate) fn describe_version(&self) -> AgentVersion<'_> {
        AgentVersion {
            name: &self.name,
            graph: self.graph.digest(),
            schema_version: self.graph.session_version(),
            takes_commands: self.graph.schema().find_field(COMMAND).is_some(),
        }
    }

    /// Reserves the sessions whose ids begin so: this agent alone answers in them, and in no others; it is not listed.
    /// Messages, forks, edits, imports, retries and deletions of such sessions are refused (`chat_session_reserved`), but
    /// for calls of [`Chat::with_reserved_sessions`](crate::Chat::with_reserved_sessions). The chat narrates nothing in
    /// them: the component that drives them does.
    #[must_use]
    pub fn reserve_sessions(mut self, prefix: impl Into<String>) -> Self {
        self.reserved = Some(prefix.into());
        self
    }

    /// Tells whether any signal may come early.
    pub(crate) fn has_mailbox(&self) -> bool {
        !self.early.is_empty()
    }

    /// Sets the budget of its turns and sessions, within the chat's limits (D13).
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets in which bucket its errors are.
    #[must_use]
    pub fn buckets(mut self, buckets: BucketTable) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets the texts that people are shown for errors (harness-chat §10).
    #[must_use]
    pub fn replies(mut self, replies: ErrorReplies) -> Self {
        self.replies = replies;
        self
    }

    /// Sets the redactor that removes secrets from its diagnostics, independent of the texts of its replies (INV-16).
    #[must_use]
    pub fn redacting(mut self, redact: Redact) -> Self {
        self.replies.redact = redact;
        self
    }

    /// Checks the requirements of a chat on an agent.
    ///
    /// # Errors
    /// `chat_history_field_invalid`, `chat_durability_invalid`.
    pub(crate) fn check_requirements(&self) -> Result<(), Error> {
        check_history_field(self.graph.schema(), self.graph.session_fields())?;
        if let Some(graph) = &self.stateless {
            check_history_field(graph.schema(), graph.session_fields())?;
        }
        self.prompt_policy.check_agent(&self.describe_version())?;
        if self.effectful_tools && self.durability == Durability::Turn {
            let why = "it has tools with effects, which need durability level step".into();
            return Err(Error::Durability { agent: self.name.clone(), why });
        }
        Ok(())
    }
}

/// A value that a chat serves as an agent: a [`GraphAgent`], a graph, or an agent or team of the crate `agent`.
pub trait IntoAgent {
    /// Returns the agent.
    ///
    /// # Errors
    /// Those of its parts, in an [`Error::AgentBuild`] with their category: a tool that cannot be made, for example.
    fn into_agent(self) -> Result<GraphAgent, Error>;
}

impl IntoAgent for GraphAgent {
    fn into_agent(self) -> Result<GraphAgent, Error> {
        Ok(self)
    }
}

/// A graph without a name becomes the agent `default`.
impl<S> IntoAgent for Graph<S> {
    fn into_agent(self) -> Result<GraphAgent, Error> {
        Ok(GraphAgent::new("default", &self))
    }
}
