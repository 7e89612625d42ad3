//! The shared state of a chat: the store, the agents, the sessions in memory, the tasks.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::TryFutureExt;
use singletree_durable::{Journal, JournalMaintenance, SessionKey, TenantId, Timestamp};
use singletree_engine::{Graph, Snapshot};
use singletree_env::{Env, Timer};
use singletree_narration::NarrationSink;
use singletree_session::{EffectiveBudget, ErroredTurn, FieldNames, Limits, RowFields, TurnId};
use singletree_telemetry::TraceSampling;
use tokio::sync::{Notify, watch};

use crate::Error;
use crate::agents::agent::GraphAgent;
use crate::agents::reply::ErrorReporter;
use crate::runtime::blobs::Blobs;
use crate::runtime::commit::note_lost_lease;
use crate::runtime::deed::AuditSettings;
use crate::runtime::loaded_session::LoadedSession;
use crate::runtime::narrate::NarrationStyle;
use crate::runtime::narrator::Narrator;
use crate::runtime::noticing::{NoticePublisher, NoticeSettings};
use crate::runtime::retention::{Retention, RetentionWorker};
use crate::runtime::tasks::BackgroundTasks;
use crate::runtime::tenant_events::TenantEventHub;
use crate::runtime::tenant_log::TenantLog;
use crate::runtime::unsent_turns::UnsentTurns;
use crate::runtime::watcher::TurnWatcher;

/// The shared state of all sessions of one chat.
pub(crate) struct ChatInner {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) upkeep: Arc<dyn JournalMaintenance>,
    /// The one tenant that is served; without, all are.
    pub(crate) bound: Option<TenantId>,
    pub(crate) agents: BTreeMap<String, Arc<ServedAgent>>,
    pub(crate) default_agent: String,
    /// How the ids of sessions begin that are reserved for agents.
    pub(crate) reserved: Vec<String>,
    /// Whether any agent has signals that may come early: without, no mailbox is looked at.
    pub(crate) keeps_mail: bool,
    pub(crate) limits: Limits,
    pub(crate) env: Env,
    pub(crate) narration: Arc<dyn NarrationSink>,
    pub(crate) narration_style: NarrationStyle,
    pub(crate) epoch: Arc<str>,
    pub(crate) retaining: RetentionWorker,
    pub(crate) blobs: Option<Blobs>,
    pub(crate) noticing: NoticePublisher,
    pub(crate) tenant_events: TenantEventHub,
    pub(crate) tenant_log: TenantLog,
    /// The name of this start of the chat, drawn when it is needed.
    pub(crate) start_id: OnceLock<String>,
    pub(crate) auditing: AuditSettings,
    pub(crate) records_telemetry: bool,
    pub(crate) unsent_turns: UnsentTurns,
    pub(crate) trace_sampling: TraceSampling,
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
    pub(crate) agent: GraphAgent,
    pub(crate) names: FieldNames,
    pub(crate) rows: RowFields,
    pub(crate) bounds: EffectiveBudget,
}

impl ServedAgent {
    pub(crate) fn new(agent: GraphAgent, limits: &Limits) -> Self {
        let names: FieldNames =
            agent.graph.session_fields().map(|(session, state)| (session.into(), state.into())).collect();
        let kept = names.iter().filter(|(_, state)| is_kept_as_rows(&agent.graph, state));
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
    pub(crate) agents: Vec<GraphAgent>,
    pub(crate) limits: Limits,
    pub(crate) env: Env,
    pub(crate) narration: Arc<dyn NarrationSink>,
    pub(crate) narration_style: NarrationStyle,
    pub(crate) retention: Option<Retention>,
    pub(crate) blobs: Option<Blobs>,
    pub(crate) notices: NoticeSettings,
    pub(crate) auditing: AuditSettings,
    pub(crate) records_telemetry: bool,
    pub(crate) unsent_kept: Option<Duration>,
    pub(crate) trace_sampling: TraceSampling,
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
            tenant_log: TenantLog::new(parts.journal.follow_changes()),
            journal: parts.journal,
            upkeep: parts.upkeep,
            bound: parts.bound,
            reserved: agents.values().filter_map(|agent| agent.agent.reserved.clone()).collect(),
            keeps_mail: agents.values().any(|agent| agent.agent.has_mailbox()),
            agents,
            default_agent,
            limits: parts.limits,
            narration: parts.narration,
            narration_style: parts.narration_style,
            retaining: RetentionWorker::new(parts.retention),
            blobs: parts.blobs,
            noticing: NoticePublisher::new(parts.notices),
            tenant_events: TenantEventHub::default(),
            start_id: OnceLock::new(),
            auditing: parts.auditing,
            records_telemetry: parts.records_telemetry,
            unsent_turns: UnsentTurns::new(parts.unsent_kept),
            trace_sampling: parts.trace_sampling,
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

    /// Tells whether a session is reserved for an agent.
    pub(crate) fn is_reserved_session(&self, session: &str) -> bool {
        self.reserved.iter().any(|prefix| session.starts_with(prefix.as_str()))
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
        let mut unloaded = Vec::new();
        if sessions.len() >= self.limits.hot_sessions.min(max) {
            // Unreferenced idle sessions leave memory: their state can be read again.
            sessions.retain(|key, loaded| {
                let stays = Arc::strong_count(loaded) > 1 || !loaded.is_idle() || loaded.feed.has_listeners();
                let is_held = loaded.lock_state().held_fence().is_some();
                unloaded.extend((!stays && is_held).then(|| key.clone()));
                stays
            });
        }
        self.release_sessions(std::mem::take(&mut unloaded));
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

    /// Takes an idle session that nobody uses out of memory, and gives it back to the store.
    pub(crate) fn unload_session(&self, key: &SessionKey) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unused = sessions.get(key).is_some_and(|loaded| {
            Arc::strong_count(loaded) == 1 && loaded.is_idle() && !loaded.feed.has_listeners()
        });
        let unloaded = if is_unused { sessions.remove(key) } else { None };
        drop(sessions);
        if unloaded.is_some_and(|loaded| loaded.lock_state().held_fence().is_some()) {
            self.release_sessions(vec![key.clone()]);
        }
    }

    /// Gives sessions back to the store, whose answer nobody needs.
    pub(crate) fn release_sessions(&self, keys: Vec<SessionKey>) {
        if !keys.is_empty() {
            drop(self.journal.release(keys));
        }
    }

    /// Gives all sessions back that this process holds. Their turns must have stopped.
    pub(crate) fn release_all_sessions(&self) {
        let loaded = self.loaded_sessions().into_iter();
        let held = loaded.filter(|loaded| loaded.lock_state().end_lease()).map(|loaded| loaded.key.clone());
        self.release_sessions(held.collect());
    }

    /// Gives those sessions back that this process holds and has nothing to do in: other processes may have them at once.
    pub(crate) fn release_idle_sessions(&self) {
        // Where turns are left, they are marked so first (`hand_over_session`).
        let is_done = |loaded: &Arc<LoadedSession>| !loaded.lock_state().has_unfinished_turns();
        let done = self.loaded_sessions().into_iter().filter(is_done);
        let freed = done.filter(|loaded| self.end_idle_lease(loaded));
        self.release_sessions(freed.map(|loaded| loaded.key.clone()).collect());
    }

    /// Ends the lease of a session in which nothing is to be done; returns whether it is to be given back.
    pub(crate) fn end_idle_lease(&self, loaded: &LoadedSession) -> bool {
        if loaded.is_taking_over() {
            return false;
        }
        let mut state = loaded.lock_state();
        !state.has_turns() && !state.has_commits_in_flight() && state.end_lease()
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
        self.tenant_log.wake_reader();
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

    /// Returns all sessions in memory, ordered by key: the order of a map with random hashes is no input (INV-11).
    pub(crate) fn loaded_sessions(&self) -> Vec<Arc<LoadedSession>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut loaded: Vec<_> = sessions.values().cloned().collect();
        drop(sessions);
        loaded.sort_by(|one, other| one.key.cmp(&other.key));
        loaded
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

    /// Acquires a session and reads it, unless this process holds it already; then reads it, unless it is known.
    pub(crate) async fn ensure_acquired(&self, loaded: &LoadedSession) -> Result<(), Error> {
        self.check_lease(loaded).await?;
        if loaded.lock_state().held_fence().is_none() {
            self.acquire_session(loaded).await?;
        }
        self.ensure_loaded(loaded).await
    }

    /// Stops working on a session that another process may have taken over unnoticed: what memory has of it is stale.
    pub(crate) async fn check_lease(&self, loaded: &LoadedSession) -> Result<(), Error> {
        if !self.journal.has_other_writers() {
            return Ok(());
        }
        let Some(fence) = loaded.lock_state().held_fence() else { return Ok(()) };
        match self.await_store_read(self.journal.check_lease(&loaded.key, fence)).await {
            Err(Error::Store { source: singletree_durable::Error::LeaseLost { .. } }) => {
                note_lost_lease(loaded, fence);
                Ok(())
            }
            checked => checked,
        }
    }

    async fn acquire_session(&self, loaded: &LoadedSession) -> Result<(), Error> {
        let _reading = loop {
            let reading = loaded.reading.lock().await;
            let freed = loaded.freed.notified();
            if loaded.lock_state().held_fence().is_some() {
                return Ok(());
            }
            // A turn that ran when the lease was lost stops first: else its row would be taken for one that runs here. It
            // may have to read the session for that.
            if !loaded.lock_state().has_lost_running_turn() {
                break reading;
            }
            drop(reading);
            await_within_limit(self.env.timer.as_ref(), self.limits.read_time, freed).await?;
        };
        let before = self.await_landed_changes(loaded).await?;
        let acquired = self.await_store_read(self.journal.acquire(&loaded.key)).await?;
        if self.journal.has_other_writers() {
            let (session, events) = (&acquired.snapshot.session, acquired.snapshot.numbers.events);
            // Where a session was deleted, the log of before is gone, however far it was read.
            let is_deleted = session.is_none() && events > 0;
            loaded.feed.note_acquisition(if is_deleted { u64::MAX } else { events });
        }
        loaded.lock_state().hold_session(acquired, before, self.keeps_mail);
        self.trim_loaded_sessions();
        Ok(())
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
        // No turn may end in a session that is only read.
        self.trim_loaded_sessions();
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

    /// Pauses at a named point where a simulation wants others to come between.
    pub(crate) async fn pause_if_due(&self, point: &'static str) {
        if self.env.faults.is_fault_due(point) {
            self.env.timer.sleep_for(Duration::from_millis(self.env.rng.draw_u64() % 3_000)).await;
        }
    }

    /// Returns the narrator by which the agent of a session explains its proposals.
    pub(crate) fn new_narrator(&self, loaded: &LoadedSession) -> Narrator {
        Narrator::new(self.narration.clone(), self.env.clock.clone(), loaded.key.clone())
    }
}

/// The tasks that watch deadlines, retention, unclaimed blobs and the events of tenants hold the chat while they work only,
/// so that a chat which is dropped lets its store go; those that sleep end now.
impl Drop for ChatInner {
    fn drop(&mut self) {
        self.wake_watchers();
        self.release_all_sessions();
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

/// Tells whether a session field is a list that only extends, and so is kept as rows (INV-4).
pub(crate) fn is_kept_as_rows(graph: &Graph<Snapshot>, state_field: &str) -> bool {
    let field = graph.schema().find_field(state_field);
    field.is_some_and(|field| field.shape().is_list() && field.effective_reducer().only_appends_items())
}
