//! The simulated store: the memory store behind a queue of writes, a group commit, latency and weather.

mod commit_rules;
mod handle;
mod landing;
mod lease_fault;
mod node;
mod partition;
mod served;
mod turn_ends;
mod weather;
mod write;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use singletree_durable::{BoxFuture, Error, MemoryStore, Result, SessionKey};

use crate::coverage::CoverageCounts;
use crate::executor::{SimulationExecutor, TaskGroup};
use crate::fault::{FaultKind, FaultSwarm};
use crate::plant::{PlantEffect, PlantedFault, PlantingPoint};
use crate::random::SimulationRandom;
pub(crate) use handle::SimulatedJournal;
pub use landing::LandedWrite;
pub(crate) use landing::LandingLog;
pub use lease_fault::LeaseFault;
use node::NodeTable;
pub(crate) use node::SimulatedNode;
use weather::CommitFate;
use write::{PendingWrite, TypedWrite};

/// How many processes share the store, and how.
#[derive(Debug, Clone)]
pub(crate) struct NodeSettings {
    /// How many processes there are at once, at least one.
    pub(crate) count: usize,
    /// How long a process is alive after a heartbeat, when there are several.
    pub(crate) lease: Duration,
    /// A fault in their protocol.
    pub(crate) planted: Option<LeaseFault>,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self { count: 1, lease: Duration::from_secs(5), planted: None }
    }
}

/// A store that outlives the simulated processes. A clone is the same store.
#[derive(Clone)]
pub(crate) struct SimulatedStore(Arc<StoreShared>);

struct StoreShared {
    executor: SimulationExecutor,
    swarm: Arc<FaultSwarm>,
    coverage: CoverageCounts,
    random: SimulationRandom,
    planting: PlantingPoint,
    landings: LandingLog,
    /// The rules of commits that were broken.
    violations: Mutex<Vec<String>>,
    state: Mutex<StoreState>,
    /// The owners of sessions, when several processes share the store.
    nodes: Option<Mutex<NodeTable>>,
}

struct StoreState {
    /// The newest handle of the data.
    newest: MemoryStore,
    /// The writes of each place of a process.
    writers: Vec<WriterState>,
    /// When the last answer to a session's write comes: answers of one session keep their order.
    answered_at: BTreeMap<SessionKey, Duration>,
    /// When the last answer of all comes.
    last_answer_at: Duration,
    commits: u64,
    writes: u64,
}

/// The writes of one place of a process: the process there is started again when it has died.
#[derive(Default)]
struct WriterState {
    /// Writes that no commit has taken yet, in the order of their calls.
    queue: VecDeque<Box<dyn PendingWrite>>,
    /// The writes of the commit that is under way.
    committing: Vec<Box<dyn PendingWrite>>,
    /// Writes of a commit of which it is not known whether the next process finds it (D38).
    doubtful: Vec<Box<dyn PendingWrite>>,
    /// Why writes are refused until this moment.
    refusing: Option<(Duration, StoreRefusal)>,
    is_writing: bool,
    /// The process cannot reach the store until this moment.
    cut_off_until: Duration,
    /// The process among the owners of sessions, when several share the store.
    node: Option<SimulatedNode>,
    /// Counts processes: the writer of a dead one stops.
    process: u64,
}

/// Why the store refuses writes for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreRefusal {
    /// There is no space.
    Full,
    /// The end of the log could not be replaced yet.
    Doubtful,
}

/// How a process ended, as the store sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessDeath {
    /// The process was killed: writes under way may still land.
    Killed,
    /// The process stopped in an orderly way, within its grace: for its store as if it was killed.
    Stopped,
    /// The power was cut: from some place on, unacknowledged writes are lost.
    PowerCut,
}

impl SimulatedStore {
    /// Makes an empty store.
    pub(crate) fn new(
        seed: u64,
        executor: &SimulationExecutor,
        swarm: &Arc<FaultSwarm>,
        coverage: &CoverageCounts,
        ((planting, landings), nodes): ((PlantingPoint, LandingLog), &NodeSettings),
    ) -> Self {
        let state = StoreState {
            newest: MemoryStore::with_epoch("sim"),
            writers: (0..nodes.count).map(|_| WriterState::default()).collect(),
            answered_at: BTreeMap::new(),
            last_answer_at: Duration::ZERO,
            commits: 0,
            writes: 0,
        };
        Self(Arc::new(StoreShared {
            executor: executor.clone(),
            swarm: swarm.clone(),
            coverage: coverage.clone(),
            random: SimulationRandom::from_name(seed, "store"),
            planting,
            landings,
            violations: Mutex::default(),
            state: Mutex::new(state),
            nodes: (nodes.count > 1).then(|| Mutex::new(NodeTable::new(nodes.lease, nodes.planted))),
        }))
    }

    fn lock_state(&self) -> MutexGuard<'_, StoreState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the store as the next process at a place does: older handles of it are fenced off.
    pub(crate) fn open(&self, slot: usize) -> SimulatedJournal {
        let node = SimulatedNode::register(self, slot);
        let mut state = self.lock_state();
        if node.is_none() {
            state.newest = state.newest.reopen();
        }
        self.0.landings.note_opening();
        state.writers[slot].refusing = None;
        state.writers[slot].node = node.clone();
        SimulatedJournal::new((self.clone(), slot), state.newest.clone(), node)
    }

    /// Opens the store for another owner beside the newest; returns also the data as that one sees them.
    #[cfg(test)]
    fn open_beside(&self) -> (SimulatedJournal, MemoryStore) {
        let data = self.lock_state().newest.open_beside();
        (SimulatedJournal::new((self.clone(), 0), data.clone(), None), data)
    }

    /// Returns the data itself, past all weather.
    pub(crate) fn data(&self) -> MemoryStore {
        self.lock_state().newest.clone()
    }

    /// Returns the faults that could have been planted in the batches so far.
    pub(crate) fn plantable_faults(&self) -> BTreeSet<PlantedFault> {
        self.0.planting.possible_faults()
    }

    /// Returns the effect of the planted fault so far.
    pub(crate) fn plant_effect(&self) -> PlantEffect {
        self.0.planting.effect()
    }

    fn note_violation(&self, violation: String) {
        self.0.executor.trace_event(format_args!("broken rule: {violation}"));
        self.0.violations.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    /// Returns the rules of commits that were broken.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.0.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how many commits and writes there were.
    pub(crate) fn commit_counts(&self) -> (u64, u64) {
        let state = self.lock_state();
        (state.commits, state.writes)
    }

    /// Takes a write into the queue; its place there is taken now.
    fn enqueue_write<T: Send + 'static>(
        &self,
        slot: usize,
        session: Option<SessionKey>,
        label: String,
        action: impl FnOnce() -> BoxFuture<'static, Result<T>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T>> {
        let (write, answer) = TypedWrite::new(session, label, action);
        let mut state = self.lock_state();
        let writer = &mut state.writers[slot];
        writer.queue.push_back(Box::new(write));
        let starts = !std::mem::replace(&mut writer.is_writing, true);
        let process = writer.process;
        drop(state);
        if starts {
            let store = self.clone();
            let writer = async move { store.commit_groups(slot, process).await };
            self.0.executor.spawn_in_group(TaskGroup::STORE, Box::pin(writer));
        }
        Box::pin(async move { answer.await.unwrap_or(Err(Error::Closed)) })
    }

    /// The writer: commits what has gathered, group by group, until nothing is left or its process is dead.
    async fn commit_groups(self, slot: usize, process: u64) {
        loop {
            self.0.executor.sleep_for(self.draw_micros(20, 2_000)).await;
            if self.0.swarm.is_due(FaultKind::StoreBusy) {
                self.0.executor.sleep_for(self.draw_micros(100_000, 20_000_000)).await;
            }
            if !self.take_group(slot, process) {
                return;
            }
            // The sync: a process that dies in it leaves a commit of which nobody knows.
            self.0.executor.sleep_for(self.draw_micros(50, 5_000)).await;
            if self.lock_state().writers[slot].process != process {
                return;
            }
            if self.is_cut_off(slot) {
                if self.commit_while_cut_off(slot, process).await {
                    continue;
                }
                return;
            }
            let mut fate = self.draw_commit_fate(slot);
            if fate == CommitFate::Cut {
                fate = self.settle_cut_commit().await;
                if self.lock_state().writers[slot].process != process {
                    return;
                }
            }
            self.finish_group(slot, fate);
        }
    }

    /// Takes the next group out of the queue; false when there is none, or the process is dead.
    fn take_group(&self, slot: usize, process: u64) -> bool {
        let mut state = self.lock_state();
        let state = &mut state.writers[slot];
        if state.process != process {
            return false;
        }
        if state.queue.is_empty() {
            state.is_writing = false;
            return false;
        }
        let size = match self.0.random.draw_below(4) {
            0 => 1,
            1 => self.0.random.draw_index(state.queue.len()) + 1,
            _ => state.queue.len(),
        };
        let group: Vec<_> = state.queue.drain(..size).collect();
        state.committing = group;
        true
    }

    /// Lets the group under way land or fail, and answers its members.
    fn finish_group(&self, slot: usize, fate: CommitFate) {
        let mut state = self.lock_state();
        let group = std::mem::take(&mut state.writers[slot].committing);
        state.commits += 1;
        state.writes += group.len() as u64;
        let fails_together = fate != CommitFate::Lands && group.len() > 1;
        self.0.coverage.note_if(fails_together, "a failed commit failed all its members");
        self.0.executor.trace_event(format_args!(
            "commit {} of {} writes: {fate:?}",
            state.commits,
            group.len()
        ));
        if fate == CommitFate::Unknown {
            let until = self.0.executor.now() + self.draw_micros(10_000, 30_000_000);
            state.writers[slot].refusing = Some((until, StoreRefusal::Doubtful));
        }
        if fate == CommitFate::Full {
            let until = self.0.executor.now() + self.draw_micros(10_000, 30_000_000);
            state.writers[slot].refusing = Some((until, StoreRefusal::Full));
        }
        let (mut doubtful, mut late) = (Vec::new(), Vec::new());
        for mut write in group {
            if matches!(fate, CommitFate::Lands | CommitFate::AnswerLost) {
                self.land_write(write.as_mut());
            }
            let answer = write.take_answer(fate.error());
            let after = self.draw_answer_delay(&mut state, write.session());
            self.answer_later(after, answer);
            match fate {
                CommitFate::Unknown => doubtful.push(write),
                CommitFate::LandsLate => late.push(write),
                _ => {}
            }
        }
        if fate == CommitFate::Unknown {
            state.writers[slot].doubtful = doubtful;
        }
        if fate == CommitFate::LandsLate {
            self.land_late(late);
        }
    }

    /// Tells whether writes of a session are in flight.
    fn has_writes(&self, slot: usize, key: &SessionKey) -> bool {
        let state = self.lock_state();
        let writer = &state.writers[slot];
        writer.queue.iter().chain(&writer.committing).any(|write| write.session() == Some(key))
    }

    fn land_write(&self, write: &mut dyn PendingWrite) {
        let outcome = write.land();
        self.0.executor.trace_event(format_args!("write {}: {outcome}", write.label()));
    }

    fn answer_later(&self, after: Duration, answer: Option<Box<dyn FnOnce() + Send>>) {
        let Some(answer) = answer else { return };
        let executor = self.0.executor.clone();
        let answering = async move {
            executor.sleep_for(after).await;
            answer();
        };
        self.0.executor.spawn_in_group(TaskGroup::STORE, Box::pin(answering));
    }

    /// Draws after which span a write is answered: in the order of the writes within a session, in any order between
    /// sessions.
    fn draw_answer_delay(&self, state: &mut StoreState, session: Option<&SessionKey>) -> Duration {
        let now = self.0.executor.now();
        let is_late = self.0.swarm.is_due(FaultKind::AcknowledgementsReordered);
        let moment = now + if is_late { self.draw_micros(100, 400_000) } else { self.draw_micros(1, 50) };
        let Some(session) = session else { return moment - now };
        let last = state.answered_at.get(session).copied().unwrap_or_default();
        let moment = moment.max(last + Duration::from_nanos(1));
        let overtakes = state.answered_at.iter().any(|(other, at)| other != session && *at > moment);
        self.0.coverage.note_if(overtakes, "a commit was answered before an earlier one of another session");
        state.answered_at.insert(session.clone(), moment);
        state.last_answer_at = state.last_answer_at.max(moment);
        moment - now
    }

    pub(super) fn draw_micros(&self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.0.random.draw_between(low, high))
    }
}

impl fmt::Debug for SimulatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedStore").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
