//! The shared state of a chat: the store, the agents, the sessions in memory, the tasks.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryFutureExt;
use singletree_durable::{Journal, JournalMaintenance, SessionKey, TenantId, Timestamp};
use singletree_env::{Env, Timer};
use singletree_narration::{Locale, NarrationSink};
use tokio::sync::{Notify, watch};

use crate::Error;
use crate::agent::Agent;
use crate::blobs::Blobs;
use crate::budget::EffectiveBudget;
use crate::deed::AuditSettings;
use crate::limit::Limits;
use crate::loaded_session::LoadedSession;
use crate::narrator::Narrator;
use crate::noticing::{NoticePublisher, NoticeSettings};
use crate::outcome::ErroredTurn;
use crate::reply::ErrorReporter;
use crate::retention::{Retention, RetentionWorker};
use crate::session::batch::RowFields;
use crate::session::turn::FieldNames;
use crate::stored;
use crate::tasks::BackgroundTasks;
use crate::tenant_events::TenantEventHub;
use crate::turn_id::TurnId;
use crate::watcher::TurnWatcher;

/// The shared state of all sessions of one chat.
pub(crate) struct ChatInner {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) upkeep: Arc<dyn JournalMaintenance>,
    /// The one tenant that is served; without, all are.
    pub(crate) bound: Option<TenantId>,
    pub(crate) agents: BTreeMap<String, Arc<ServedAgent>>,
    pub(crate) default_agent: String,
    /// Whether any agent has signals that may come early: without, no mailbox is looked at.
    pub(crate) keeps_mail: bool,
    pub(crate) limits: Limits,
    pub(crate) env: Env,
    pub(crate) narration: Arc<dyn NarrationSink>,
    pub(crate) locale: Locale,
    pub(crate) epoch: Arc<str>,
    pub(crate) retaining: RetentionWorker,
    pub(crate) blobs: Option<Blobs>,
    pub(crate) noticing: NoticePublisher,
    pub(crate) tenant_events: TenantEventHub,
    pub(crate) auditing: AuditSettings,
    pub(crate) watcher: Option<Arc<dyn TurnWatcher>>,
    pub(crate) tasks: BackgroundTasks,
    pub(crate) closing: AtomicBool,
    /// Becomes true when a shutdown stops waiting for the turns that still run (D33).
    pub(crate) given_up: watch::Sender<bool>,
    /// Rung when a wait with a deadline begins, and at shutdown.
    pub(crate) deadlines: Arc<Notify>,
    pub(crate) watching: AtomicBool,
    /// The bytes that all sessions in memory hold together.
    pub(crate) held_bytes: Arc<AtomicU64>,
    /// How often a session was asked for.
    pub(crate) uses: AtomicU64,
    /// Guards which sessions are in memory; held for a moment.
    sessions: Mutex<HashMap<SessionKey, Arc<LoadedSession>>>,
}

/// An agent with the data that is derived from its graph once.
#[derive(Debug)]
pub(crate) struct ServedAgent {
    pub(crate) agent: Agent,
    pub(crate) names: FieldNames,
    pub(crate) rows: RowFields,
    pub(crate) bounds: EffectiveBudget,
}

impl ServedAgent {
    pub(crate) fn new(agent: Agent, limits: &Limits) -> Self {
        let names: FieldNames =
            agent.graph.session_fields().map(|(session, state)| (session.into(), state.into())).collect();
        let kept = names.iter().filter(|(_, state)| stored::is_kept_as_rows(&agent.graph, state));
        let rows = Arc::new(kept.map(|(session, _)| session.as_ref().to_owned()).collect());
        let bounds = EffectiveBudget::from_limits(limits, &agent.budget);
        Self { agent, names, rows, bounds }
    }

    pub(crate) fn make_errored_turn(
        &self,
        limits: &Limits,
        turn: Option<TurnId>,
        error: &Error,
    ) -> ErroredTurn {
        let diagnostic_bytes = limits.diagnostic_bytes;
        ErrorReporter { buckets: &self.agent.buckets, replies: &self.agent.replies, diagnostic_bytes }
            .make_errored_turn(turn, error)
    }
}

/// The parts of a chat.
pub(crate) struct ChatInnerParts {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) upkeep: Arc<dyn JournalMaintenance>,
    pub(crate) bound: Option<TenantId>,
    pub(crate) agents: Vec<Agent>,
    pub(crate) limits: Limits,
    pub(crate) env: Env,
    pub(crate) narration: Arc<dyn NarrationSink>,
    pub(crate) locale: Locale,
    pub(crate) retention: Option<Retention>,
    pub(crate) blobs: Option<Blobs>,
    pub(crate) notices: NoticeSettings,
    pub(crate) auditing: AuditSettings,
    pub(crate) watcher: Option<Arc<dyn TurnWatcher>>,
}

impl ChatInner {
    pub(crate) fn new(parts: ChatInnerParts) -> Result<Self, Error> {
        let default_agent = parts.agents.first().map(|agent| agent.name.clone()).unwrap_or_default();
        let mut agents = BTreeMap::new();
        for agent in parts.agents {
            agent.check_requirements()?;
            let name = agent.name.clone();
            if agents.insert(name.clone(), Arc::new(ServedAgent::new(agent, &parts.limits))).is_some() {
                return Err(Error::Durability { agent: name, why: "its name is taken".into() });
            }
        }
        Ok(Self {
            epoch: parts.journal.log_epoch().into(),
            journal: parts.journal,
            upkeep: parts.upkeep,
            bound: parts.bound,
            keeps_mail: agents.values().any(|agent| agent.agent.has_mailbox()),
            agents,
            default_agent,
            limits: parts.limits,
            narration: parts.narration,
            locale: parts.locale,
            retaining: RetentionWorker::new(parts.retention),
            blobs: parts.blobs,
            noticing: NoticePublisher::new(parts.notices),
            tenant_events: TenantEventHub::default(),
            auditing: parts.auditing,
            watcher: parts.watcher,
            tasks: BackgroundTasks::new(parts.env.spawner.clone()),
            env: parts.env,
            closing: AtomicBool::new(false),
            given_up: watch::Sender::new(false),
            deadlines: Arc::default(),
            watching: AtomicBool::new(false),
            held_bytes: Arc::default(),
            uses: AtomicU64::new(0),
            sessions: Mutex::default(),
        })
    }

    /// Checks whether this chat works on a tenant's sessions (INV-14).
    pub(crate) fn serves_tenant(&self, tenant: &TenantId) -> bool {
        self.bound.as_ref().is_none_or(|bound| bound == tenant)
    }

    pub(crate) fn current_time(&self) -> Timestamp {
        self.env.clock.now()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn find_served_agent(&self, agent: &str) -> Result<&Arc<ServedAgent>, Error> {
        self.agents.get(agent).ok_or_else(|| Error::AgentUnknown { agent: agent.to_owned() })
    }

    /// Returns the agent that answers for a session that is not known to have one.
    pub(crate) fn default_served_agent(&self) -> &Arc<ServedAgent> {
        self.agents.get(&self.default_agent).expect("a chat is built with at least one agent")
    }

    /// Returns the session in memory; others that are idle make room for it (INV-12).
    ///
    /// # Errors
    /// `chat_sessions_full` when too many are not.
    pub(crate) fn session_in_memory(&self, key: &SessionKey) -> Result<Arc<LoadedSession>, Error> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = sessions.get(key) {
            self.note_session_use(loaded);
            return Ok(loaded.clone());
        }
        let max = self.limits.busy_sessions;
        if sessions.len() >= self.limits.hot_sessions.min(max) {
            // Unreferenced idle sessions leave memory: their state can be read again.
            sessions.retain(|_, loaded| {
                Arc::strong_count(loaded) > 1 || !loaded.is_idle() || loaded.feed.has_listeners()
            });
        }
        if sessions.len() >= max {
            return Err(Error::SessionsFull { max });
        }
        let loaded = LoadedSession::new(key.clone(), self.limits.feed_backlog, &self.held_bytes);
        self.note_session_use(&loaded);
        sessions.insert(key.clone(), loaded.clone());
        drop(sessions);
        // Sessions that are only read count as well.
        self.trim_loaded_sessions();
        Ok(loaded)
    }

    /// As [`ChatInner::session_in_memory`], when there is room; none once the harness shuts down.
    pub(crate) async fn session_in_memory_when_room(&self, key: &SessionKey) -> Option<Arc<LoadedSession>> {
        const AGAIN: Duration = Duration::from_millis(20);
        loop {
            match self.session_in_memory(key) {
                Ok(loaded) => return Some(loaded),
                Err(_) if self.is_closing() => return None,
                Err(_) => self.env.timer.sleep_for(AGAIN).await,
            }
        }
    }

    /// Wakes the tasks that wait until there is something to do by the clock.
    pub(crate) fn wake_watchers(&self) {
        self.deadlines.notify_one();
        self.retaining.bell.notify_one();
        self.blobs.iter().for_each(|blobs| blobs.bell.notify_one());
    }

    /// Returns the session, if it is in memory.
    pub(crate) fn find_loaded_session(&self, key: &SessionKey) -> Option<Arc<LoadedSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Returns how many sessions are in memory.
    pub(crate) fn loaded_count(&self) -> usize {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns all sessions in memory.
    pub(crate) fn loaded_sessions(&self) -> Vec<Arc<LoadedSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Waits for a read of the store, within the limit (D20).
    pub(crate) async fn await_store_read<T>(
        &self,
        reading: impl Future<Output = singletree_durable::Result<T>>,
    ) -> Result<T, Error> {
        await_within_limit(self.env.timer.as_ref(), self.limits.read_time, reading)
            .await?
            .map_err(Error::from)
    }

    /// Waits for something that reads the store more than once, within the limit (D20).
    pub(crate) async fn await_read_sequence<T>(
        &self,
        reading: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        await_within_limit(self.env.timer.as_ref(), self.limits.read_time, reading).await?
    }

    /// Reads head, counters and pending wait of a session, unless they are known.
    pub(crate) async fn ensure_loaded(&self, loaded: &LoadedSession) -> Result<(), Error> {
        if loaded.lock_state().is_known() {
            return Ok(());
        }
        let reading = loaded.reading.lock().await;
        if loaded.lock_state().is_known() {
            return Ok(());
        }
        loop {
            let before = self.await_landed_changes(loaded).await?;
            let stored = self.await_store_read(self.journal.read_session_snapshot(&loaded.key)).await?;
            if loaded.lock_state().load_snapshot(stored, before, self.keeps_mail) {
                break;
            }
        }
        drop(reading);
        Ok(())
    }

    /// Waits until no commit that changes the session state is in flight, within the limit of a read. Returns the
    /// number of changes so far: a later read is stale once that number has risen.
    pub(crate) async fn await_landed_changes(&self, loaded: &LoadedSession) -> Result<u64, Error> {
        loop {
            let landed = loaded.landed.notified();
            {
                let state = loaded.lock_state();
                if !state.has_commits_in_flight() {
                    return Ok(state.change_count());
                }
            }
            await_within_limit(self.env.timer.as_ref(), self.limits.read_time, landed).await?;
        }
    }

    /// Runs the body of a call in a task of the chat. Every call that takes the session's turn, takes something off its
    /// queue or waits for a commit of its own runs so: a caller that goes away leaves nothing half done.
    ///
    /// # Errors
    /// Those of the body; `chat_shutting_down` when the runtime shuts down.
    pub(crate) async fn run_call_in_task<T: Send + 'static>(
        &self,
        body: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.tasks.run_to_completion(body).await.unwrap_or(Err(Error::ShuttingDown))
    }

    /// Returns the narrator by which the agent of a session explains its proposals.
    pub(crate) fn new_narrator(&self, loaded: &LoadedSession) -> Narrator {
        Narrator::new(self.narration.clone(), self.env.clock.clone(), loaded.key.clone())
    }
}

/// The tasks that watch deadlines, retention and unclaimed blobs hold the chat while they work only, so that a chat
/// which is dropped lets its store go; those that sleep end now.
impl Drop for ChatInner {
    fn drop(&mut self) {
        self.wake_watchers();
    }
}

impl std::fmt::Debug for ChatInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatInner").field("agents", &self.agents.keys()).finish_non_exhaustive()
    }
}

/// Waits within a limit; too long is the store being unavailable (D20).
fn await_within_limit<T>(
    timer: &dyn Timer,
    limit: Duration,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, Error>> {
    timer.run_with_timeout(limit, work).map_err(|elapsed| {
        let source = singletree_durable::Error::Unavailable { doing: "read", source: elapsed.into() };
        Error::Store { source }
    })
}
