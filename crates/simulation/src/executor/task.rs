//! The tasks of the executor, and the list of those that are ready.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use singletree_env::BoxFuture;

use super::TaskGroup;

/// The tasks that are ready, in the order of the polls by which they were woken; those that one poll woke are ordered by
/// their numbers, because tokio's channels wake their receivers in an order of their own random numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct WokenTasks(Arc<Mutex<WokenTaskList>>);

#[derive(Debug, Default)]
struct WokenTaskList {
    ids: Vec<u64>,
    /// How many of them were woken before the last poll.
    ordered: usize,
}

impl WokenTasks {
    /// Takes the task at the place that is chosen for this number of tasks; none when none is ready.
    pub(super) fn take_next(&self, choose: impl FnOnce(usize) -> usize) -> Option<u64> {
        let mut woken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let WokenTaskList { ids, ordered } = &mut *woken;
        if let Some(new) = ids.get_mut(*ordered..) {
            new.sort_unstable();
        }
        if ids.is_empty() {
            return None;
        }
        let chosen = ids.remove(choose(ids.len()).min(ids.len() - 1));
        *ordered = ids.len();
        Some(chosen)
    }

    fn add_task(&self, id: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ids.push(id);
    }
}

#[derive(Debug)]
struct TaskWaker {
    id: u64,
    is_woken: AtomicBool,
    woken: WokenTasks,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::Relaxed) {
            self.woken.add_task(self.id);
        }
    }
}

/// A task. Its future is absent while it is polled.
pub(super) struct SimulatedTask {
    pub(super) group: TaskGroup,
    future: Option<BoxFuture<'static, ()>>,
    state: Arc<TaskWaker>,
    waker: Waker,
}

impl SimulatedTask {
    pub(super) fn new(id: u64, group: TaskGroup, future: BoxFuture<'static, ()>, woken: &WokenTasks) -> Self {
        let state = Arc::new(TaskWaker { id, is_woken: AtomicBool::new(false), woken: woken.clone() });
        let waker = Waker::from(state.clone());
        Self { group, future: Some(future), state, waker }
    }

    pub(super) fn wake_first(&self) {
        self.waker.wake_by_ref();
    }

    /// Makes a task ready that was woken, and was not polled then.
    pub(super) fn wake_again(&self) {
        self.state.is_woken.store(false, Ordering::Relaxed);
        self.wake_first();
    }

    /// Takes the future to poll it: from now on, it may be woken again.
    pub(super) fn begin_poll(&mut self) -> Option<(BoxFuture<'static, ()>, Waker)> {
        self.state.is_woken.store(false, Ordering::Relaxed);
        self.future.take().map(|future| (future, self.waker.clone()))
    }

    pub(super) fn end_poll(&mut self, future: BoxFuture<'static, ()>) {
        self.future = Some(future);
    }
}

impl fmt::Debug for SimulatedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedTask").field("group", &self.group).finish_non_exhaustive()
    }
}
