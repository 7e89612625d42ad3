//! A single-threaded executor with its own time, in which the order of tasks follows from the seed.
//!
//! It replaces the runtime: code that reaches for tokio's timers or tasks past its environment panics here, so that a
//! leak is found by the first seed and not by a digest that differs now and then.

mod sleep;
mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use singletree_env::BoxFuture;

use crate::digest::EventDigest;
use crate::random::SimulationRandom;
use sleep::SleepingTasks;
pub(crate) use sleep::{SimulatedSpawner, SimulatedTimer};
use task::{SimulatedTask, WokenTasks};

/// Tasks that die together: those of one process, or those of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskGroup(pub(crate) u32);

impl TaskGroup {
    /// The world outside of all processes: clients, tools, models' servers.
    pub(crate) const WORLD: Self = Self(0);
    /// The store, which outlives processes.
    pub(crate) const STORE: Self = Self(1);
}

/// How the next of several tasks that are ready is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskOrder {
    /// Each is as likely as the others.
    Random,
    /// The one that has been ready for the longest time.
    Oldest,
    /// The one that became ready last.
    Newest,
}

/// Why a run stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExecutorStop {
    /// Nothing is ready, and nothing waits for a moment.
    Idle,
    /// So many polls happened at one moment that time stands still.
    TimeStandsStill,
    /// So many polls happened in all that something is done again and again.
    NoRest,
    /// The simulated time is over.
    TimeOver,
}

impl fmt::Display for ExecutorStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "nothing can happen any more, and the run has not ended",
            Self::TimeStandsStill => "tasks run without end at one moment",
            Self::NoRest => "tasks come to no rest, though time passes",
            Self::TimeOver => "the simulated time is over, and the run has not ended",
        })
    }
}

/// Polls at one moment after which time counts as standing still.
const POLLS_AT_ONE_MOMENT: u64 = 200_000;

/// Polls of a run after which it counts as one that comes to no rest.
const POLLS_MAX: u64 = 2_000_000;

/// A jump of the clock beyond this is no time in which anything happened.
const COUNTED_JUMP: Duration = Duration::from_secs(60);

/// The executor. A clone is another handle.
#[derive(Debug, Clone)]
pub(crate) struct SimulationExecutor(Arc<ExecutorShared>);

#[derive(Debug)]
struct ExecutorShared {
    state: Mutex<ExecutorState>,
    woken: WokenTasks,
}

#[derive(Debug)]
struct ExecutorState {
    now: Duration,
    tasks: BTreeMap<u64, SimulatedTask>,
    next_task: u64,
    sleeping: SleepingTasks,
    order: TaskOrder,
    random: SimulationRandom,
    dead: BTreeSet<TaskGroup>,
    /// The groups that stand still, each with its tasks that were woken meanwhile.
    frozen: BTreeMap<TaskGroup, Vec<u64>>,
    polls: u64,
    polls_at_moment: u64,
    panics: Vec<String>,
    digest: EventDigest,
    /// The lines of the trace, when they are kept.
    trace: Option<Vec<String>>,
    /// Whether work is open: only then time is counted.
    is_counting: bool,
    counted: Duration,
}

impl SimulationExecutor {
    /// Makes an executor without tasks, whose time begins at zero.
    pub(crate) fn new(seed: u64, order: TaskOrder, keeps_trace: bool) -> Self {
        let state = ExecutorState {
            now: Duration::ZERO,
            tasks: BTreeMap::new(),
            next_task: 0,
            sleeping: SleepingTasks::default(),
            order,
            random: SimulationRandom::from_name(seed, "scheduler"),
            dead: BTreeSet::new(),
            frozen: BTreeMap::new(),
            polls: 0,
            polls_at_moment: 0,
            panics: Vec::new(),
            digest: EventDigest::default(),
            trace: keeps_trace.then(Vec::new),
            is_counting: false,
            counted: Duration::ZERO,
        };
        Self(Arc::new(ExecutorShared { state: Mutex::new(state), woken: WokenTasks::default() }))
    }

    fn lock_state(&self) -> MutexGuard<'_, ExecutorState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.lock_state().now
    }

    /// Adds an event to the digest, and to the trace when one is kept.
    pub(crate) fn trace_event(&self, event: fmt::Arguments<'_>) {
        let mut state = self.lock_state();
        let now = state.now;
        state.digest.add_number(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        // A digest takes every text.
        state.digest.write_fmt(event).unwrap_or_default();
        if let Some(trace) = &mut state.trace {
            trace.push(format!("{:>12.6} {event}", now.as_secs_f64()));
        }
    }

    /// Returns the digest of everything that has happened.
    pub(crate) fn digest(&self) -> u64 {
        self.lock_state().digest.value()
    }

    /// Takes the lines of the trace.
    pub(crate) fn take_trace(&self) -> Vec<String> {
        self.lock_state().trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the panics that tasks ended by.
    pub(crate) fn take_panics(&self) -> Vec<String> {
        std::mem::take(&mut self.lock_state().panics)
    }

    /// Says whether work is open from now on.
    pub(crate) fn count_time(&self, is_counting: bool) {
        self.lock_state().is_counting = is_counting;
    }

    /// Returns the time in which work was open, without jumps of more than a minute.
    pub(crate) fn counted_time(&self) -> Duration {
        self.lock_state().counted
    }

    /// Starts a task of a group; nothing when the group is dead.
    pub(crate) fn spawn_in_group(&self, group: TaskGroup, future: BoxFuture<'static, ()>) {
        let mut state = self.lock_state();
        if state.dead.contains(&group) {
            drop(state);
            return drop(future);
        }
        let id = state.next_task;
        state.next_task += 1;
        let task = SimulatedTask::new(id, group, future, &self.0.woken);
        task.wake_first();
        state.tasks.insert(id, task);
    }

    /// Drops all tasks of a group, in the order in which they were started. No task of it starts from now on.
    pub(crate) fn kill_group(&self, group: TaskGroup) {
        let mut state = self.lock_state();
        state.dead.insert(group);
        let ids: Vec<u64> =
            state.tasks.iter().filter(|(_, task)| task.group == group).map(|(id, _)| *id).collect();
        let killed: Vec<SimulatedTask> = ids.iter().filter_map(|id| state.tasks.remove(id)).collect();
        // Dropping a future may wake and start others.
        drop(state);
        drop(killed);
    }

    /// Lets the tasks of a group stand still until [`Self::thaw_group`]; work of other groups goes on, also if these tasks began it.
    pub(crate) fn freeze_group(&self, group: TaskGroup) {
        self.lock_state().frozen.entry(group).or_default();
    }

    /// Lets the tasks of a group go on.
    pub(crate) fn thaw_group(&self, group: TaskGroup) {
        let mut state = self.lock_state();
        let woken = state.frozen.remove(&group).unwrap_or_default();
        woken.iter().filter_map(|id| state.tasks.get(id)).for_each(SimulatedTask::wake_again);
    }

    /// Drops all tasks of all groups, the newest processes first.
    pub(crate) fn kill_all(&self) {
        let groups: BTreeSet<TaskGroup> = self.lock_state().tasks.values().map(|task| task.group).collect();
        groups.into_iter().rev().for_each(|group| self.kill_group(group));
    }

    /// Runs until the future has ended.
    ///
    /// # Errors
    /// Why it never will.
    pub(crate) fn run_to_end<T: Send + 'static>(
        &self,
        limit: Duration,
        root: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ExecutorStop> {
        let outcome = Arc::new(Mutex::new(None));
        let kept = outcome.clone();
        let root = async move {
            let ended = root.await;
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        };
        self.spawn_in_group(TaskGroup::WORLD, Box::pin(root));
        loop {
            if let Some(ended) = outcome.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Ok(ended);
            }
            match self.choose_ready_task()? {
                Some(id) => self.poll_task(id),
                None => self.advance_time(limit)?,
            }
        }
    }

    /// Chooses the next task that is ready, by the seed.
    fn choose_ready_task(&self) -> Result<Option<u64>, ExecutorStop> {
        let mut state = self.lock_state();
        let chosen = self.0.woken.take_next(|len| match state.order {
            TaskOrder::Random => state.random.draw_index(len),
            TaskOrder::Oldest => 0,
            TaskOrder::Newest => len - 1,
        });
        if chosen.is_some() {
            state.polls += 1;
            state.polls_at_moment += 1;
            if state.polls_at_moment > POLLS_AT_ONE_MOMENT {
                return Err(ExecutorStop::TimeStandsStill);
            }
            if state.polls > POLLS_MAX {
                return Err(ExecutorStop::NoRest);
            }
        }
        Ok(chosen)
    }

    fn poll_task(&self, id: u64) {
        let mut state = self.lock_state();
        let Some(group) = state.tasks.get(&id).map(|task| task.group) else { return };
        if let Some(woken) = state.frozen.get_mut(&group) {
            woken.push(id);
            return;
        }
        let Some(task) = state.tasks.get_mut(&id) else { return };
        let Some((mut future, waker)) = task.begin_poll() else { return };
        state.digest.add_number(id);
        drop(state);
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context).is_pending()));
        let mut state = self.lock_state();
        match (polled, state.tasks.get_mut(&id)) {
            (Ok(true), Some(task)) => {
                task.end_poll(future);
                return;
            }
            // Killed while it was polled.
            (Ok(true), None) => {}
            (Ok(false), _) => drop(state.tasks.remove(&id)),
            (Err(panic), _) => {
                drop(state.tasks.remove(&id));
                let text = describe_panic(panic.as_ref());
                state.panics.push(format!("a task of {group:?} panicked: {text}"));
            }
        }
        drop(state);
        drop(future);
    }

    /// Lets time pass until the next moment that somebody waits for.
    fn advance_time(&self, limit: Duration) -> Result<(), ExecutorStop> {
        let mut state = self.lock_state();
        let Some((moment, wakers)) = state.sleeping.take_earliest() else { return Err(ExecutorStop::Idle) };
        let jump = moment.saturating_sub(state.now);
        if state.is_counting && jump <= COUNTED_JUMP {
            state.counted += jump;
        }
        state.now = state.now.max(moment);
        state.polls_at_moment = 0;
        let is_over = state.now > limit;
        drop(state);
        wakers.into_iter().for_each(std::task::Waker::wake);
        if is_over { Err(ExecutorStop::TimeOver) } else { Ok(()) }
    }

    /// Waits for a span.
    pub(crate) fn sleep_for(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(sleep::SimulatedSleep::new(self.clone(), span))
    }
}

fn describe_panic(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a text".to_owned())
}
