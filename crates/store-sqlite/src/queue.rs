//! A bounded queue between callers, who never wait for a place, and threads, which do wait for work.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// How many pauses of the processor lie between two looks at a queue: below a microsecond.
const PAUSES: u32 = 16;

/// Why nothing was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRejection {
    /// The queue is at its limit.
    Full,
    /// The queue was closed.
    Closed,
}

/// First in, first out; the place is taken by [`BoundedQueue::push`].
#[derive(Debug)]
pub(crate) struct BoundedQueue<T> {
    state: Mutex<BoundedQueueState<T>>,
    limit: usize,
}

#[derive(Debug)]
struct BoundedQueueState<T> {
    waiting: VecDeque<T>,
    /// The threads that wait for work; the one that began to wait last is woken first. While one thread is enough, the
    /// others stay asleep, and a reader that sleeps needs no connection.
    idle: Vec<Thread>,
    open: bool,
}

impl<T> BoundedQueue<T> {
    /// Makes an empty queue for at most `limit` elements.
    pub(crate) fn new(limit: usize) -> Self {
        let state = BoundedQueueState { waiting: VecDeque::new(), idle: Vec::new(), open: true };
        Self { state: Mutex::new(state), limit }
    }

    /// Adds an element at the end.
    pub(crate) fn push(&self, element: T) -> Result<(), QueueRejection> {
        let mut state = self.lock_state();
        if !state.open {
            return Err(QueueRejection::Closed);
        }
        if state.waiting.len() >= self.limit {
            return Err(QueueRejection::Full);
        }
        state.waiting.push_back(element);
        let woken = state.idle.pop();
        // The woken thread finds the lock free.
        drop(state);
        if let Some(thread) = woken {
            thread.unpark();
        }
        Ok(())
    }

    /// As [`Self::take`], but looks so many times whether something has come before it goes to sleep. Who sleeps must
    /// be woken, by a call of the kernel and often on another core that sleeps, too; that takes longer than a short
    /// work.
    pub(crate) fn take_after_spinning(&self, most: usize, looks: u32) -> Vec<T> {
        for _ in 0..looks {
            if !self.is_idle() {
                break;
            }
            for _ in 0..PAUSES {
                std::hint::spin_loop();
            }
        }
        self.wait_and_take(most)
    }

    /// As [`Self::take`], but waits no longer than this; nothing when that time is over.
    pub(crate) fn take_within_time(&self, most: usize, time: Duration) -> Option<Vec<T>> {
        let mut state = self.lock_state();
        if state.waiting.is_empty() && state.open {
            state = self.sleep_until_woken(state, Some(time));
            if state.waiting.is_empty() && state.open {
                return None;
            }
        }
        let count = state.waiting.len().min(most);
        Some(state.waiting.drain(..count).collect())
    }

    fn is_idle(&self) -> bool {
        // Whoever holds the lock is about to add something, or to take it.
        self.state.try_lock().is_ok_and(|state| state.waiting.is_empty() && state.open)
    }

    /// Waits for elements and takes as many as there are, at most `most`. Nothing is left to come when it returns none.
    pub(crate) fn wait_and_take(&self, most: usize) -> Vec<T> {
        let mut state = self.lock_state();
        while state.waiting.is_empty() && state.open {
            state = self.sleep_until_woken(state, None);
        }
        let count = state.waiting.len().min(most);
        state.waiting.drain(..count).collect()
    }

    /// Tells whether nothing more is let in.
    pub(crate) fn is_closed(&self) -> bool {
        !self.lock_state().open
    }

    /// Accepts no more jobs; waiting jobs are still taken.
    pub(crate) fn close(&self) {
        let mut state = self.lock_state();
        state.open = false;
        wake_threads(state);
    }

    /// Accepts no more jobs and drops the waiting ones.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock_state();
        state.open = false;
        let dropped = std::mem::take(&mut state.waiting);
        wake_threads(state);
        drop(dropped);
    }

    /// Sleeps until this thread is woken, the time is over, or for no reason at all: the caller looks again.
    fn sleep_until_woken<'a>(
        &'a self,
        mut state: MutexGuard<'a, BoundedQueueState<T>>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, BoundedQueueState<T>> {
        let sleeper = std::thread::current();
        let id = sleeper.id();
        state.idle.push(sleeper);
        drop(state);
        match time {
            Some(time) => std::thread::park_timeout(time),
            None => std::thread::park(),
        }
        let mut state = self.lock_state();
        state.idle.retain(|thread| thread.id() != id);
        state
    }

    fn lock_state(&self) -> MutexGuard<'_, BoundedQueueState<T>> {
        // A state is whole between any two statements, so that a panic elsewhere leaves nothing half done here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake_threads<T>(mut state: MutexGuard<'_, BoundedQueueState<T>>) {
    let sleepers = std::mem::take(&mut state.idle);
    drop(state);
    sleepers.iter().for_each(Thread::unpark);
}

/// Abandons a queue when its last worker ends, so that nobody waits for an answer that cannot come.
#[derive(Debug)]
pub(crate) struct QueueWorkerGuard<T>(pub(crate) std::sync::Arc<BoundedQueue<T>>);

impl<T> Drop for QueueWorkerGuard<T> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_first_in_first_out_up_to_its_limit_and_drains_after_closing() {
        // INV-12
        let queue = BoundedQueue::new(3);
        let pushed: Vec<_> = (0..4).map(|it| queue.push(it)).collect();
        assert_eq!(pushed, [Ok(()), Ok(()), Ok(()), Err(QueueRejection::Full)]);
        assert_eq!(queue.take_after_spinning(2, u32::MAX), [0, 1]);
        queue.close();
        assert_eq!(queue.push(9), Err(QueueRejection::Closed));
        assert_eq!((queue.wait_and_take(2), queue.take_after_spinning(2, 3)), (vec![2], vec![]));
        assert_eq!(queue.take_within_time(2, Duration::MAX), Some(vec![]));
    }

    #[test]
    fn the_thread_that_began_to_wait_last_is_woken_and_the_others_sleep_on() {
        let queue = BoundedQueue::new(3);
        let (told, taken) = std::sync::mpsc::channel();
        let wait_for_sleepers = |count| {
            while queue.lock_state().idle.len() != count {
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            for worker in ["first", "second"] {
                let (queue, told) = (&queue, told.clone());
                scope.spawn(move || {
                    while let Some(element) = queue.wait_and_take(1).pop() {
                        told.send((worker, element)).expect("the test listens");
                    }
                });
                wait_for_sleepers(if worker == "first" { 1 } else { 2 });
            }
            for element in 0..3 {
                assert_eq!(queue.push(element), Ok(()));
                assert_eq!(taken.recv(), Ok(("second", element)));
                wait_for_sleepers(2);
            }
            queue.close();
        });
    }

    #[test]
    fn a_wait_of_bounded_length_ends_with_nothing_and_tells_that_from_the_end_of_the_queue() {
        let queue = BoundedQueue::new(3);
        assert_eq!(queue.take_within_time(2, Duration::ZERO), None);
        assert_eq!(queue.push(0), Ok(()));
        assert_eq!(queue.take_within_time(2, Duration::ZERO), Some(vec![0]));
    }
}
