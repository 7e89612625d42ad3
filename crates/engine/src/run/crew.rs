//! Several futures in one task: polled in the order of their numbers, and only when woken.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use singletree_durable::BoxFuture;

/// A set of futures under numbers. Which of them goes on next depends on their wake-ups and numbers alone, never on
/// addresses or threads; so runs whose nodes do not wait for the outside are the same every time.
pub(crate) struct IndexedFutures<'a, T> {
    members: BTreeMap<u64, (BoxFuture<'a, T>, Arc<IndexedWaker>)>,
    /// Woken, and not polled since.
    ready: BTreeSet<u64>,
    calls: Arc<WakeUpList>,
}

/// Who was woken. The locks are held for a push or a swap only.
#[derive(Default)]
struct WakeUpList {
    woken: Mutex<Vec<u64>>,
    task: Mutex<Option<Waker>>,
}

/// The waker of one member.
struct IndexedWaker {
    number: u64,
    /// Whether the number is among the woken.
    noted: AtomicBool,
    calls: Arc<WakeUpList>,
}

impl Wake for IndexedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.noted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.calls.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        let task = self.calls.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl<'a, T> IndexedFutures<'a, T> {
    pub(crate) fn new() -> Self {
        Self { members: BTreeMap::new(), ready: BTreeSet::new(), calls: Arc::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Adds a future; it is first polled in its turn.
    pub(crate) fn add_future(&mut self, number: u64, future: BoxFuture<'a, T>) {
        let call =
            Arc::new(IndexedWaker { number, noted: AtomicBool::new(false), calls: self.calls.clone() });
        self.members.insert(number, (future, call));
        self.ready.insert(number);
    }

    /// Polls until one ends; none when there is none left. Polls no other one as soon as `halted` says so.
    pub(crate) fn poll_next_ended(
        &mut self,
        cx: &mut Context<'_>,
        halted: impl Fn() -> bool,
    ) -> Poll<Option<(u64, T)>> {
        if self.members.is_empty() {
            return Poll::Ready(None);
        }
        self.register_task_waker(cx.waker());
        while let Some(number) = self.ready.pop_first() {
            if let Some((future, call)) = self.members.get_mut(&number) {
                // Swapped rather than stored: the swap acquires, so this poll sees the work done before a wake-up that
                // came too late to be noted.
                call.noted.swap(false, Ordering::AcqRel);
                let waker = Waker::from(call.clone());
                let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(ended) = polled {
                    self.members.remove(&number);
                    return Poll::Ready(Some((number, ended)));
                }
            }
            if halted() {
                // If the run goes on after all, so do the others.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.collect_woken_members();
        }
        Poll::Pending
    }

    fn register_task_waker(&mut self, waker: &Waker) {
        let mut task = self.calls.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            *task = Some(waker.clone());
        }
        drop(task);
        self.collect_woken_members();
    }

    /// Takes over who was woken.
    fn collect_woken_members(&mut self) {
        let woken = std::mem::take(&mut *self.calls.woken.lock().unwrap_or_else(PoisonError::into_inner));
        self.ready.extend(woken);
    }
}

#[cfg(test)]
mod tests;
