//! The chat harness: the handle that applications use (harness-chat).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use singletree_durable::{Journal, JournalMaintenance, SessionId, SessionKey, SubjectId, TenantId};
use singletree_engine::GraphOutline;
use singletree_env::{Clock, Env, IdGenerator};
use singletree_llm::ChatMessage;
use singletree_narration::{Locale, NarrationSink, NarrationVerbosity, NoNarration};
use singletree_session::{ChatEvent, ChatTurnOutcome, Limits};
use singletree_telemetry::TraceSampling;

use crate::agents::admission::Admission;
use crate::agents::agent::{GraphAgent, IntoAgent, OnDisconnect};
use crate::api::chat_session::Session;
use crate::api::send_options::SendOptions;
use crate::runtime::blobs::Blobs;
use crate::runtime::chat_inner::{ChatInner, ChatInnerParts};
use crate::runtime::deed::AuditSettings;
use crate::runtime::narrate::NarrationStyle;
use crate::runtime::noticing::NoticeSettings;
use crate::runtime::retention::Retention;

use crate::api::turn::Turn;
use crate::runtime::watcher::TurnWatcher;
use crate::{Error, Result};

/// A durable chat over a graph: send messages and get outcomes, even across crashes.
///
/// Clones share one chat. Turns run in tasks of the chat: dropping a returned future or stream cancels nothing. All
/// calls need a tokio runtime.
#[derive(Debug, Clone)]
///
/// A chat serves the sessions of one tenant; [`Chat::of`] returns the same chat for another tenant (INV-14).
pub struct Chat {
    pub(crate) inner: Arc<ChatInner>,
    /// Whose sessions its calls are about.
    tenant: TenantId,
    /// Who decides whether its calls may begin turns and sessions; nobody where there is none.
    pub(crate) admission: Option<Arc<dyn Admission>>,
    /// On whose behalf it makes sessions, when known.
    subject: Option<SubjectId>,
    /// Whether its calls may change sessions that are reserved for an agent.
    changes_reserved: bool,
}

/// How long a stop may take to note which turns it leaves, beyond its grace.
const LEAVING: Duration = Duration::from_secs(2);

/// Builds a [`Chat`].
#[derive(Debug)]
pub struct ChatBuilder {
    /// The agents, or the error of the first that cannot be built.
    agents: Result<Vec<GraphAgent>>,
    tenant: Option<TenantId>,
    limits: Limits,
    env: Env,
    narration: Arc<dyn NarrationSink>,
    narration_style: NarrationStyle,
    retention: Option<Retention>,
    blobs: Option<Blobs>,
    notices: NoticeSettings,
    auditing: AuditSettings,
    records_telemetry: bool,
    unsent_kept: Option<Duration>,
    trace_sampling: TraceSampling,
    watcher: Option<Arc<dyn TurnWatcher>>,
}

impl ChatBuilder {
    /// Adds an agent. The first one answers in new sessions, unless a send names another. If an agent cannot be built,
    /// [`ChatBuilder::open`] returns the error.
    #[must_use]
    pub fn agent(mut self, agent: impl IntoAgent) -> Self {
        self.agents = self.agents.and_then(|mut agents| {
            agents.push(agent.into_agent()?);
            Ok(agents)
        });
        self
    }

    /// Binds the chat to one tenant: it serves that one's sessions, takes over only that one's turns, and leaves the
    /// rest of the store to others (INV-14). A chat that is not bound serves all tenants; its own part is that of
    /// `default`.
    #[must_use]
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Sets the bounds (INV-12).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the whole environment of the chat: clocks, timers, identifiers and background tasks (INV-11); the real one
    /// by default. [`ChatBuilder::clock`] and [`ChatBuilder::ids`] replace one part of it. A graph has an environment
    /// of its own.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Sets where time comes from (INV-11).
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.env.clock = clock;
        self
    }

    /// Sets where identifiers come from (INV-11).
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn IdGenerator>) -> Self {
        self.env.ids = ids;
        self
    }

    /// Sets where narration goes; nowhere otherwise (INV-9).
    #[must_use]
    pub fn narration(mut self, sink: Arc<dyn NarrationSink>) -> Self {
        self.narration = sink;
        self
    }

    /// Sets in which language the controller narrates; English otherwise. Texts of errors are those of the agent's
    /// [`ErrorReplies`](crate::ErrorReplies).
    #[must_use]
    pub fn narrate_in(mut self, locale: Locale) -> Self {
        self.narration_style.locale = locale;
        self
    }

    /// Sets how much the controller narrates; [`NarrationVerbosity::Normal`] otherwise.
    #[must_use]
    pub fn narrate_as(mut self, verbosity: NarrationVerbosity) -> Self {
        self.narration_style.verbosity = verbosity;
        self
    }

    /// Sets the retention: from the first [`Chat::sweep`] on, older data is removed in the background. By default
    /// everything is kept.
    #[must_use]
    pub fn retention(mut self, retention: Retention) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets where pictures and files are kept that messages name ([`Session::keep_blob`]); nowhere otherwise.
    #[must_use]
    pub fn blobs(mut self, blobs: Blobs) -> Self {
        self.blobs = Some(blobs);
        self
    }

    /// Sets the tenants for which notices are written ([`Notice`](crate::Notice)): records of events that a person
    /// should hear of. By default none are. The store must be one that keeps documents.
    #[must_use]
    pub fn notices(mut self, notices: NoticeSettings) -> Self {
        self.notices = notices;
        self
    }

    /// Keeps an audit of answers and deletions ([`AuditRecord`](crate::AuditRecord)), each entry for so long; none otherwise. The
    /// store must be one that keeps documents.
    #[must_use]
    pub fn audit(mut self, kept: Duration) -> Self {
        self.auditing = AuditSettings::with_retention_time(kept);
        self
    }

    /// Sets whether records of nodes, model calls and tools are stored with the commits of their turns, for
    /// [`Chat::turn_trace`]; by default they are. They hold no text: some 20 bytes for a turn of one node, and at most
    /// 256 KiB for each turn and process.
    #[must_use]
    pub fn record_telemetry(mut self, is_wanted: bool) -> Self {
        self.records_telemetry = is_wanted;
        self
    }

    /// Has a note written with the end of each turn that its trace is to be exported ([`UnsentTurn`](crate::UnsentTurn)),
    /// which is kept for so long at most; none otherwise. Whoever exports reads the notes and removes them
    /// ([`Chat::unsent_turns`]). The store must be one that keeps documents.
    #[must_use]
    pub fn note_unsent_turns(mut self, kept: Duration) -> Self {
        self.unsent_kept = Some(kept);
        self
    }

    /// Sets which invocations have their traces exported; all otherwise. Turns of others are not noted, and their calls of
    /// models and tools tell the other side that their trace is not kept.
    #[must_use]
    pub fn trace_sampling(mut self, sampling: TraceSampling) -> Self {
        self.trace_sampling = sampling;
        self
    }

    /// Sets who looks on as turns end; nobody otherwise.
    #[must_use]
    pub fn watcher(mut self, watcher: Arc<dyn TurnWatcher>) -> Self {
        self.watcher = Some(watcher);
        self
    }

    /// Opens the chat on a store.
    ///
    /// # Errors
    /// `chat_history_field_invalid`, `chat_durability_invalid`; the category of an agent that cannot be built, such as
    /// `tool_duplicate`.
    pub fn open<J: Journal + JournalMaintenance + 'static>(self, store: J) -> Result<Chat> {
        let store = Arc::new(store);
        self.open_shared(store.clone(), store)
    }

    /// Opens the chat on a store that is shared.
    ///
    /// # Errors
    /// As [`ChatBuilder::open`].
    pub fn open_shared(self, journal: Arc<dyn Journal>, upkeep: Arc<dyn JournalMaintenance>) -> Result<Chat> {
        let agents = self.agents?;
        if agents.is_empty() {
            let why = "a chat needs at least one agent".into();
            return Err(Error::Durability { agent: String::new(), why });
        }
        let inner = ChatInner::new(ChatInnerParts {
            journal,
            upkeep,
            bound: self.tenant.clone(),
            agents,
            limits: self.limits,
            env: self.env,
            narration: self.narration,
            narration_style: self.narration_style,
            retention: self.retention,
            blobs: self.blobs,
            notices: self.notices,
            auditing: self.auditing,
            records_telemetry: self.records_telemetry,
            unsent_kept: self.unsent_kept,
            trace_sampling: self.trace_sampling,
            watcher: self.watcher,
        })?;
        let tenant = self.tenant.unwrap_or_else(TenantId::single);
        Ok(Chat { inner: Arc::new(inner), tenant, admission: None, subject: None, changes_reserved: false })
    }
}

impl Session {
    /// Sends a message and waits for the outcome of its turn (harness-chat §5).
    ///
    /// Sends of one session are answered one at a time, in the order of acceptance (§5.3). Everything that can go wrong
    /// is an errored outcome, in one of three buckets, with a text to show.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing once the turn is accepted; its outcome is kept ([`Chat::turn`]).
    pub async fn send(&self, message: impl Into<ChatMessage>) -> ChatTurnOutcome {
        self.send_with(message.into(), SendOptions::default()).await
    }

    /// As [`Session::send`], with an idempotency key or an agent.
    ///
    /// # Cancellation
    /// As [`Session::send`].
    pub async fn send_with(&self, message: impl Into<ChatMessage>, options: SendOptions) -> ChatTurnOutcome {
        match self.submit(message.into(), options).await {
            Ok(turn) => turn.outcome().await.as_ref().clone(),
            Err(error) => ChatTurnOutcome::Errored(*error.into_errored_turn()),
        }
    }

    /// Accepts a message and returns the events of its turn as they occur; the last event carries the outcome (D9). The
    /// specification does not define the form of streaming; this form is our own until it does.
    ///
    /// # Errors
    /// As [`Session::submit`].
    ///
    /// # Cancellation
    /// Dropping the stream cancels nothing.
    pub async fn stream(
        &self,
        message: impl Into<ChatMessage>,
    ) -> Result<BoxStream<'static, Result<ChatEvent>>> {
        Ok(self.submit(message.into(), SendOptions::new().listen()).await?.events().boxed())
    }
}

impl Chat {
    /// Opens a chat with one agent on a store, everything else at its default. A graph becomes the agent `default`.
    ///
    /// # Errors
    /// As [`ChatBuilder::open`]; `chat_history_field_invalid` when the graph has no history field (harness-chat §4).
    pub fn new<J: Journal + JournalMaintenance + 'static>(agent: impl IntoAgent, store: J) -> Result<Self> {
        Self::builder().agent(agent).open(store)
    }

    /// Starts a chat with everything at its default.
    #[must_use]
    pub fn builder() -> ChatBuilder {
        ChatBuilder {
            agents: Ok(Vec::new()),
            tenant: None,
            limits: Limits::default(),
            env: Env::from_system(),
            narration: Arc::new(NoNarration),
            narration_style: NarrationStyle::default(),
            retention: None,
            blobs: None,
            notices: NoticeSettings::new(),
            auditing: AuditSettings::default(),
            records_telemetry: true,
            unsent_kept: None,
            trace_sampling: TraceSampling::new(),
            watcher: None,
        }
    }

    /// Returns a chat for the sessions of one tenant only (INV-14). Store, agents, limits and tasks are shared.
    /// [`Chat::sweep`], [`Chat::retain`] and [`Chat::shutdown`] still act on all tenants that the chat serves.
    ///
    /// If the chat was bound to one tenant, every call for another tenant fails with `chat_tenant_foreign`.
    #[must_use]
    pub fn of(&self, tenant: TenantId) -> Self {
        Self::for_tenant(self.inner.clone(), tenant)
    }

    pub(crate) fn for_tenant(inner: Arc<ChatInner>, tenant: TenantId) -> Self {
        Self { inner, tenant, admission: None, subject: None, changes_reserved: false }
    }

    /// Returns a chat whose calls begin turns and sessions only where `admission` admits them; servers implement quotas
    /// with it. A refused call fails with `server_quota_exceeded`; nothing is stored and no idempotency key is used.
    /// Answers to waits need no admission: they continue work that was admitted before.
    #[must_use]
    pub fn admitting(mut self, admission: Arc<dyn Admission>) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Returns this chat for calls on behalf of a person or a program: the sessions that it makes keep the subject, so
    /// that they can be erased for it ([`Chat::erase`]). A fork keeps the subject of its source. It hides nothing: the
    /// calls see all sessions of the tenant.
    #[must_use]
    pub fn on_behalf_of(&self, subject: SubjectId) -> Self {
        Self { subject: Some(subject), ..self.clone() }
    }

    /// Returns this chat for the component that drives the sessions which an agent reserves
    /// ([`GraphAgent::reserve_sessions`]): its calls may begin turns in them and delete them.
    #[must_use]
    pub fn with_reserved_sessions(&self) -> Self {
        Self { changes_reserved: true, ..self.clone() }
    }

    /// Refuses a session that is reserved.
    ///
    /// # Errors
    /// `chat_session_reserved`.
    pub(crate) fn check_not_reserved(&self, session: &str) -> Result<()> {
        if self.changes_reserved || !self.inner.is_reserved_session(session) {
            return Ok(());
        }
        Err(Error::SessionReserved { session: session.to_owned() })
    }

    /// Tells whether other processes may write the same store, so that work that one of them left is to be looked for.
    #[must_use]
    pub fn has_other_writers(&self) -> bool {
        self.inner.journal.has_other_writers()
    }

    /// Lists the tenants that have sessions, in their order, from past the given one on, at most `limit`.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn tenants(&self, past: Option<&TenantId>, limit: u64) -> Result<Vec<TenantId>> {
        let read = self.inner.await_store_read(self.inner.upkeep.read_tenants(past, limit)).await?;
        Ok(read.into_iter().filter(|tenant| self.inner.serves_tenant(tenant)).collect())
    }

    /// Returns on whose behalf sessions are made, when known.
    pub(crate) fn session_subject(&self) -> Option<&SubjectId> {
        self.subject.as_ref()
    }

    /// Takes over the unfinished turns of dead processes, and watches deadlines from now on. Call it once at start. It
    /// covers all tenants that the chat serves, whichever tenant the called handle belongs to.
    ///
    /// Returns the turns that were taken over, at most [`Limits::swept`] of them. They run in the background or were
    /// closed: turns that died with their process too often (`chat_turn_crashed`) or are too old
    /// (`chat_turn_abandoned`). Turns of agents that this process does not have are left alone. Where more sessions
    /// have such turns than may be busy at once, the remaining sessions wait for room.
    ///
    /// # Errors
    /// `store_unavailable` and its kin; turns that were taken over before the error run.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: everything is taken over all the same.
    pub async fn sweep(&self) -> Result<Vec<Turn>> {
        let inner = self.inner.clone();
        let taken = self.inner.run_call_in_task(async move {
            inner.announce_graphs();
            let taken = inner.sweep_ownerless_turns().await?;
            inner.watch_deadlines();
            inner.watch_retention();
            inner.watch_unclaimed();
            Ok(taken)
        });
        let taken = taken.await?;
        Ok(taken
            .into_iter()
            .map(|it| {
                let chat = self.of(it.key.tenant.clone());
                Turn::with_outcome_receiver(chat, it.key, it.id, it.handle.subscribe_outcome())
            })
            .collect())
    }

    /// Stops accepting, lets running turns end within `grace`, and leaves the rest to the next sweep.
    ///
    /// Sessions in which nothing is to be done are given back to the store at once, so that other processes may have them.
    /// Turns that have not ended by then are marked in the store as left: that this process ends is no death of theirs
    /// (D24). Returns whether everything that ran has ended.
    ///
    /// # Cancellation
    /// When the future is dropped, the chat accepts nothing more; turns that still run may be counted as dead with the
    /// process.
    pub async fn shutdown(&self, grace: Duration) -> bool {
        self.inner.closing.store(true, Ordering::Release);
        self.inner.withdraw_graphs();
        self.inner.wake_watchers();
        for loaded in self.inner.loaded_sessions() {
            // Who waits for a turn that does not run any more is told so.
            self.inner.wake_queue(&loaded);
        }
        self.inner.release_idle_sessions();
        let timer = &self.inner.env.timer;
        let has_ended = timer.run_with_timeout(grace, self.inner.tasks.wait_until_idle()).await.is_ok();
        drop(timer.run_with_timeout(LEAVING, self.inner.leave_open_turns()).await);
        if has_ended {
            self.inner.release_all_sessions();
        }
        // Callers that wait for an open turn get `chat_shutting_down`: it goes on after the next start (D33).
        self.inner.given_up.send_replace(true);
        has_ended
    }

    /// Checks a session id and puts the tenant to it.
    pub(crate) fn session_key(&self, session_id: &str) -> Result<SessionKey> {
        let session =
            SessionId::parse(session_id).map_err(|error| Error::SessionId { why: error.to_string() })?;
        Ok(SessionKey::new(self.served_tenant()?.clone(), session))
    }

    /// Returns whose sessions the calls are about.
    ///
    /// # Errors
    /// `chat_tenant_foreign` when the chat is bound to another.
    pub(crate) fn served_tenant(&self) -> Result<&TenantId> {
        if self.inner.serves_tenant(&self.tenant) {
            Ok(&self.tenant)
        } else {
            Err(Error::TenantForeign { tenant: self.tenant.to_string() })
        }
    }

    /// Returns the name of the agent that answers in new sessions, unless a send names another.
    #[must_use]
    pub fn default_agent(&self) -> &str {
        &self.inner.default_agent
    }

    /// Returns an agent's policy for turns whose client disconnects, where the request sets none (D31).
    ///
    /// # Errors
    /// `chat_agent_unknown`.
    pub fn on_disconnect(&self, agent: &str) -> Result<OnDisconnect> {
        Ok(self.inner.find_served_agent(agent)?.agent.on_disconnect)
    }

    /// Describes the graph of an agent.
    ///
    /// # Errors
    /// `chat_agent_unknown`.
    pub fn outline(&self, agent: &str) -> Result<GraphOutline> {
        Ok(self.inner.find_served_agent(agent)?.agent.graph.outline())
    }

    /// Returns the names of the agents that this chat has.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        let listed = self.inner.agents.iter().filter(|(_, served)| served.agent.reserved.is_none());
        listed.map(|(name, _)| name.as_str())
    }
}
