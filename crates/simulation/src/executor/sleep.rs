//! Waiting in the executor's own time, and the parts of an environment over it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use singletree_env::{BoxFuture, MonotonicClock, Spawner, Timer};

use super::{SimulationExecutor, TaskGroup};

/// Who waits for which moment.
#[derive(Debug, Default)]
pub(super) struct SleepingTasks {
    next: u64,
    moments: BinaryHeap<Reverse<(Duration, u64)>>,
    /// The wakers of the waits that were not given up.
    wakers: BTreeMap<u64, Waker>,
}

impl SleepingTasks {
    fn add_sleep(&mut self, moment: Duration, waker: Waker) -> u64 {
        let number = self.next;
        self.next += 1;
        self.moments.push(Reverse((moment, number)));
        self.wakers.insert(number, waker);
        number
    }

    /// Takes the earliest moment that somebody waits for, with all who wait for it.
    pub(super) fn take_earliest(&mut self) -> Option<(Duration, Vec<Waker>)> {
        let mut earliest: Option<(Duration, Vec<Waker>)> = None;
        while let Some(Reverse((moment, _))) = self.moments.peek() {
            if earliest.as_ref().is_some_and(|(first, _)| moment > first) {
                break;
            }
            let Some(Reverse((moment, number))) = self.moments.pop() else { break };
            if let Some(waker) = self.wakers.remove(&number) {
                earliest.get_or_insert((moment, Vec::new())).1.push(waker);
            }
        }
        earliest
    }
}

/// A wait for a span of simulated time. Dropping it ends it.
#[derive(Debug)]
pub(super) struct SimulatedSleep {
    executor: SimulationExecutor,
    moment: Duration,
    number: Option<u64>,
}

impl SimulatedSleep {
    pub(super) fn new(executor: SimulationExecutor, span: Duration) -> Self {
        let moment = executor.now().saturating_add(span);
        Self { executor, moment, number: None }
    }
}

impl Future for SimulatedSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let executor = self.executor.clone();
        let mut state = executor.lock_state();
        if state.now >= self.moment {
            return Poll::Ready(());
        }
        let known = self.number.and_then(|number| state.sleeping.wakers.get_mut(&number));
        match known {
            Some(waker) => waker.clone_from(context.waker()),
            None => self.number = Some(state.sleeping.add_sleep(self.moment, context.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for SimulatedSleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            drop(self.executor.lock_state().sleeping.wakers.remove(&number));
        }
    }
}

/// The executor's time, as a timer and as a monotonic clock.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedTimer(pub(crate) SimulationExecutor);

impl Timer for SimulatedTimer {
    fn sleep_for(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.0.sleep_for(span)
    }
}

impl MonotonicClock for SimulatedTimer {
    fn elapsed_since_origin(&self) -> Duration {
        self.0.now()
    }
}

/// Starts the tasks of one group.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedSpawner {
    pub(crate) executor: SimulationExecutor,
    pub(crate) group: TaskGroup,
}

impl Spawner for SimulatedSpawner {
    fn spawn_task(&self, task: BoxFuture<'static, ()>) {
        self.executor.spawn_in_group(self.group, task);
    }
}
