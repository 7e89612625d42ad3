//! The world of a run: the store, the ledger, the clients, and the processes.

mod settle;
mod supervisor;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use singletree_audit::HistoryRecorder;
use singletree_env::{Clock, Timestamp};
use singletree_harness::{Durability, Limits, WhileSuspended};
use singletree_narration::NarrationSink;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::agents::{AgentSettings, OFFICE};
use crate::campaign::CampaignWorld;
use crate::client::{EventView, KnownWaits, SimulatedSessionName, USER_SESSION, is_office};
use crate::coverage::CoverageCounts;
use crate::environment::SimulatedClock;
use crate::executor::{SimulationExecutor, TaskGroup};
use crate::fault::{FaultKind, FaultSwarm, RunRestriction};
use crate::follower::FollowedSession;
use crate::ledger::EffectLedger;
use crate::plant::PlantingPoint;
use crate::process::{SimulatedProcess, small_limits};
use crate::random::SimulationRandom;
use crate::run::RunPlan;
use crate::server::IdleRuntime;
use crate::store::{LandingLog, NodeSettings, SimulatedStore};
use crate::subject::{KnownTools, SimulatedAgents};
use crate::tool_server::ToolServer;
use crate::webhook::SimulatedReceiver;

/// The shape of a run, as its seed draws it.
#[derive(Debug, Clone)]
pub(crate) struct WorldSettings {
    pub(crate) clients: usize,
    pub(crate) sessions: usize,
    pub(crate) operations: u64,
    pub(crate) agents: AgentSettings,
    pub(crate) limits: Limits,
    /// How long a client thinks at most between two operations.
    pub(crate) thinking: Duration,
}

impl WorldSettings {
    /// Draws the shape of a run.
    pub(crate) fn draw(seed: u64, restriction: &RunRestriction) -> Self {
        let random = SimulationRandom::from_name(seed, "settings");
        let policies = [WhileSuspended::Reject, WhileSuspended::Queue, WhileSuspended::Supersede];
        let seconds = |low, high| Duration::from_millis(random.draw_between(low, high));
        let agents = AgentSettings {
            while_suspended: random.draw_from(&policies).unwrap_or_default(),
            approval_expires_in: seconds(500, 40_000),
            deadline: seconds(200, 20_000),
            office_durability: if random.draw_percent(70) { Durability::Step } else { Durability::Turn },
        };
        let loaded_bytes = if random.draw_percent(50) { 4_000 } else { 64 << 20 };
        let operations = random.draw_between(20, 60);
        Self {
            clients: random.draw_index(6) + 2,
            sessions: random.draw_index(4) + 1,
            operations: restriction.operations.map_or(operations, |most| operations.min(most)),
            agents,
            limits: small_limits(loaded_bytes, random.draw_index(4) + 1),
            thinking: Duration::from_millis(random.draw_from(&[5, 100, 2_000, 20_000]).unwrap_or(100)),
        }
    }

    /// Takes the bounds of a user's agents, but for those of memory, which runs have to reach.
    fn with_limits_of(self, agents: Option<&dyn SimulatedAgents>) -> Self {
        let Some(agents) = agents else { return self };
        let Limits { hot_sessions, loaded_bytes, .. } = self.limits;
        Self { limits: Limits { hot_sessions, loaded_bytes, ..agents.limits() }, ..self }
    }
}

/// The world. Everything that outlives a process is here.
pub(crate) struct SimulatedWorld {
    pub(crate) seed: u64,
    pub(crate) executor: SimulationExecutor,
    pub(crate) swarm: Arc<FaultSwarm>,
    pub(crate) coverage: CoverageCounts,
    pub(crate) random: Arc<SimulationRandom>,
    /// The clock of the machine of each place.
    pub(crate) clocks: Vec<Arc<SimulatedClock>>,
    pub(crate) store: SimulatedStore,
    pub(crate) history: Arc<HistoryRecorder>,
    pub(crate) ledger: EffectLedger,
    /// The server of tools.
    pub(crate) tool_server: ToolServer,
    pub(crate) settings: WorldSettings,
    pub(crate) narration: Option<Arc<dyn NarrationSink>>,
    /// The receiver of webhooks.
    pub(crate) receiver: SimulatedReceiver,
    /// The runtime that handlers of servers find; nothing drives it.
    pub(crate) runtime: Arc<IdleRuntime>,
    /// The agents of a user, if those are simulated.
    pub(crate) agents: Option<Arc<dyn SimulatedAgents>>,
    /// The tools of these agents.
    pub(crate) tools: KnownTools,
    pub(crate) waits: KnownWaits,
    /// The campaigns, in a run that has some.
    pub(crate) campaigns: Option<Arc<CampaignWorld>>,
    /// The sessions that were asked for, with their tenants.
    pub(crate) sessions: Mutex<BTreeSet<(String, String)>>,
    pub(crate) nodes: NodeSettings,
    /// The process that runs at each place.
    processes: Mutex<Vec<Option<SimulatedProcess>>>,
    /// How many processes were started.
    numbers: AtomicU32,
    started: Notify,
    release: AtomicU32,
    begun: AtomicU64,
    /// Calls and turns that are not over.
    open: AtomicU64,
    pub(crate) deaths: AtomicU64,
    /// Deaths that were no orderly stops.
    pub(crate) kills: AtomicU64,
    /// Contradictions that were seen on the way.
    pub(crate) found: Mutex<Vec<String>>,
    /// The sessions that listeners follow now.
    followed: Mutex<BTreeMap<usize, FollowedSession>>,
}

impl SimulatedWorld {
    pub(crate) fn new(
        plan: &RunPlan,
        (executor, coverage): (SimulationExecutor, CoverageCounts),
        points: (PlantingPoint, LandingLog),
        runtime: Arc<IdleRuntime>,
    ) -> Arc<Self> {
        let RunPlan { seed, restriction, narration, agents, .. } = plan;
        let (seed, narration, agents) = (*seed, narration.clone(), agents.clone());
        let nodes = draw_nodes(plan);
        let swarm = Arc::new(FaultSwarm::draw(seed, &executor, &coverage, restriction, nodes.count));
        let store = SimulatedStore::new(seed, &executor, &swarm, &coverage, (points, &nodes));
        let history = Arc::new(HistoryRecorder::new());
        let random = Arc::new(SimulationRandom::from_name(seed, "world"));
        let receiver = SimulatedReceiver::new(&executor, &swarm, &random);
        Arc::new(Self {
            seed,
            clocks: (0..nodes.count).map(|_| SimulatedClock::new(executor.clone())).collect(),
            random,
            receiver,
            ledger: EffectLedger::new(history.clone()),
            settings: WorldSettings::draw(seed, restriction).with_limits_of(agents.as_deref()),
            tool_server: ToolServer::default(),
            waits: KnownWaits::default(),
            campaigns: draw_campaigns(plan),
            sessions: Mutex::default(),
            processes: Mutex::new(vec![None; nodes.count]),
            nodes,
            numbers: AtomicU32::new(0),
            started: Notify::new(),
            release: AtomicU32::new(1),
            begun: AtomicU64::new(0),
            open: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
            kills: AtomicU64::new(0),
            found: Mutex::default(),
            followed: Mutex::default(),
            executor,
            swarm,
            coverage,
            store,
            history,
            narration,
            runtime,
            agents,
            tools: KnownTools::default(),
        })
    }

    /// Returns the earliest and the latest time of day of all machines.
    pub(crate) fn times_of_day(&self) -> (Timestamp, Timestamp) {
        let times = self.clocks.iter().map(|clock| clock.now());
        let widen = |(earliest, latest): (Timestamp, Timestamp), time| {
            (Ord::min(earliest, time), Ord::max(latest, time))
        };
        times.fold((Timestamp::from_millis(i64::MAX), Timestamp::from_millis(i64::MIN)), widen)
    }

    /// Returns the release of the agents that the next process has.
    pub(crate) fn release(&self) -> u32 {
        self.release.load(Ordering::Relaxed)
    }

    /// Takes one of the operations that are left; false when there is none.
    pub(crate) fn take_operation(&self) -> bool {
        let most = self.settings.operations;
        self.begun
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |begun| (begun < most).then_some(begun + 1))
            .is_ok()
    }

    /// Tells whether operations are left.
    pub(crate) fn has_operations(&self) -> bool {
        self.begun.load(Ordering::Relaxed) < self.settings.operations
    }

    /// Returns the agent that a session is asked for; none for the default one.
    pub(crate) fn agent_of_session(&self, session: &str) -> Option<String> {
        let Some(agents) = &self.agents else { return is_office(session).then(|| OFFICE.to_owned()) };
        let number = session.strip_prefix(USER_SESSION)?.split('-').next()?.parse::<usize>().ok()?;
        agents.agent_names().into_iter().nth(number)
    }

    /// Notes a contradiction.
    pub(crate) fn note_contradiction(&self, why: String) {
        self.executor.trace_event(format_args!("contradiction: {why}"));
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(why);
    }

    /// Notes an event that was seen, and that it contradicts an earlier sight of it, if so.
    pub(crate) fn note_seen_event(
        &self,
        (session, seq, view): (&SimulatedSessionName, u64, EventView),
        content: String,
    ) {
        let former = self.waits.lock().seen.insert((session.clone(), seq, view), content.clone());
        if let Some(former) = former.filter(|former| *former != content) {
            let name = session.qualified();
            self.note_contradiction(format!("event {seq} of {name} was {former}, and is {content}"));
        }
    }

    /// Notes which session a listener follows now, and how far it has come.
    pub(crate) fn note_followed(&self, number: usize, followed: Option<FollowedSession>) {
        let mut all = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        match followed {
            Some(followed) => all.insert(number, followed),
            None => all.remove(&number),
        };
    }

    /// Returns the sessions that listeners follow now.
    pub(crate) fn followed_sessions(&self) -> Vec<FollowedSession> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the first process that runs, if one does.
    pub(crate) fn current_process(&self) -> Option<SimulatedProcess> {
        self.lock_processes().iter().flatten().next().cloned()
    }

    fn lock_processes(&self) -> MutexGuard<'_, Vec<Option<SimulatedProcess>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_process(&self, slot: usize, process: Option<SimulatedProcess>) {
        let is_started = process.is_some();
        let former = std::mem::replace(&mut self.lock_processes()[slot], process);
        drop(former);
        if is_started {
            self.started.notify_waiters();
        }
    }

    /// Waits for a process that runs, any of them.
    async fn wait_for_process(&self) -> SimulatedProcess {
        loop {
            let started = self.started.notified();
            let running: Vec<SimulatedProcess> = self.lock_processes().iter().flatten().cloned().collect();
            let chosen = match running.as_slice() {
                [only] => Some(only.clone()),
                several => self.random.draw_from(several),
            };
            if let Some(process) = chosen {
                return process;
            }
            started.await;
        }
    }

    /// Calls the process over a connection that may break: returns the reports of the call, which end when it is over
    /// or the connection is lost.
    pub(crate) async fn call_process<R, F>(
        self: &Arc<Self>,
        body: impl FnOnce(&SimulatedProcess, CallReporter<R>) -> F + Send + 'static,
    ) -> UnboundedReceiver<R>
    where
        R: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let process = self.wait_for_process().await;
        self.executor.sleep_for(Duration::from_micros(self.random.draw_between(1, 500))).await;
        let (sender, receiver) = unbounded_channel();
        let is_dropped = self.swarm.is_due(FaultKind::CallDropped);
        let polls = is_dropped.then(|| self.random.draw_between(1, 8));
        let handling = body(&process, CallReporter(sender));
        self.executor.spawn_in_group(process.group, Box::pin(poll_with_limit(handling, polls)));
        receiver
    }

    /// Counts work that is open: while there is some, time counts.
    pub(crate) fn begin_work(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.executor.count_time(true);
    }

    /// Returns how much work is open.
    pub(crate) fn open_count(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Counts work that is over.
    pub(crate) fn end_work(&self) {
        let before = self.open.fetch_sub(1, Ordering::Relaxed);
        self.executor.count_time(before > 1);
    }

    /// Drops everything that still runs: the tasks hold the world.
    pub(crate) fn end_everything(&self) {
        (0..self.nodes.count).for_each(|slot| self.set_process(slot, None));
        self.executor.kill_all();
    }

    /// Starts a task of the world.
    pub(crate) fn spawn_in_world(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn_in_group(TaskGroup::WORLD, Box::pin(task));
    }
}

/// Draws the campaigns of a run; agents of a user have none.
fn draw_campaigns(plan: &RunPlan) -> Option<Arc<CampaignWorld>> {
    let drawn = || CampaignWorld::draw(plan.seed, &plan.restriction);
    plan.agents.is_none().then(drawn).flatten().map(Arc::new)
}

/// Draws how several processes share the store.
fn draw_nodes(plan: &RunPlan) -> NodeSettings {
    let random = SimulationRandom::from_name(plan.seed, "nodes");
    NodeSettings {
        count: plan.nodes.max(1),
        lease: Duration::from_millis(random.draw_from(&[1_000, 2_000, 5_000]).unwrap_or(5_000)),
        planted: plan.lease_fault,
    }
}

/// Where the handler of a call reports.
#[derive(Debug)]
pub(crate) struct CallReporter<R>(UnboundedSender<R>);

impl<R> CallReporter<R> {
    pub(crate) fn report(&self, report: R) {
        // The client may have gone.
        drop(self.0.send(report));
    }

    /// Returns when the client has gone.
    pub(crate) async fn wait_until_gone(&self) {
        self.0.closed().await;
    }
}

/// Polls a call until it ends, or so many times: then it is dropped, as a server drops it whose client goes away.
async fn poll_with_limit(call: impl Future<Output = ()>, polls: Option<u64>) {
    let mut call = pin!(call);
    let mut left = polls;
    std::future::poll_fn(|cx| match &mut left {
        Some(0) => Poll::Ready(()),
        Some(left) => {
            *left -= 1;
            call.as_mut().poll(cx)
        }
        None => call.as_mut().poll(cx),
    })
    .await;
}

impl fmt::Debug for SimulatedWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedWorld").field("seed", &self.seed).finish_non_exhaustive()
    }
}
