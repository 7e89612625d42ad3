//! The serial delivery queue of one invocation, and the counters that drains wait for (graph-engine §6).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use singletree_durable::InvocationId;
use singletree_env::{AbortHandle, Env, Timer};
use singletree_graph::catch_panic;
use tokio::sync::{mpsc, watch};

use super::ambient::{self, CurrentInvocation};
use super::event::GraphEvent;
use super::observe::{DrainSummary, Subscription};
use super::panic::catch_future_panic;
use crate::error::ObserverFailure;

/// Where mishaps are reported.
pub(crate) type OnObserverFailure = Arc<dyn Fn(ObserverFailure) + Send + Sync>;

struct QueuedEvent {
    event: GraphEvent,
    observers: Arc<[Subscription]>,
}

/// How far a queue is.
#[derive(Debug, Clone, Copy, Default)]
struct DeliveryProgress {
    delivered: u64,
    done: bool,
}

/// The state of a queue that drains read.
pub(crate) struct EventBacklog {
    pub(crate) invocation: InvocationId,
    /// How many events there were, delivered or not.
    dispatched: AtomicU64,
    /// How many of them the worker was handed.
    sent: AtomicU64,
    reached: watch::Sender<DeliveryProgress>,
    worker: AbortHandle,
    timer: Arc<dyn Timer>,
}

impl EventBacklog {
    /// Tells whether the worker has ended.
    pub(crate) fn is_worker_done(&self) -> bool {
        self.reached.borrow().done || self.worker.is_task_finished()
    }

    /// Waits until all events that are dispatched by now were delivered, as far as they will be.
    pub(crate) async fn wait_for_delivery(&self, timeout: Option<Duration>) -> DrainSummary {
        let dispatched = self.dispatched.load(Ordering::Acquire);
        let sent = self.sent.load(Ordering::Acquire);
        let mut reached = self.reached.subscribe();
        let timeout_reached = if ambient::is_in_observer_of(&self.invocation) {
            // An observer cannot wait for the event that it is being handed.
            false
        } else {
            let wait =
                async { drop(reached.wait_for(|reached| reached.delivered >= sent || reached.done).await) };
            wait_with_timeout(self.timer.as_ref(), timeout, wait).await
        };
        let undelivered_count = dispatched.saturating_sub(self.reached.borrow().delivered);
        DrainSummary { undelivered_count, timeout_reached }
    }

    /// Waits until the worker has ended.
    pub(crate) async fn wait_for_worker_end(&self) {
        let mut reached = self.reached.subscribe();
        drop(reached.wait_for(|reached| reached.done).await);
    }

    /// Ends the worker and tells how many events it leaves.
    pub(crate) fn abort_worker(&self) -> u64 {
        self.worker.abort_task();
        let reached = *self.reached.borrow();
        self.reached.send_modify(|reached| reached.done = true);
        self.dispatched.load(Ordering::Acquire).saturating_sub(reached.delivered)
    }

    /// Tells how many events are not delivered.
    pub(crate) fn undelivered_count(&self) -> u64 {
        self.dispatched.load(Ordering::Acquire).saturating_sub(self.reached.borrow().delivered)
    }
}

/// Runs a wait with an optional limit; true when the limit was hit.
pub(crate) async fn wait_with_timeout(
    timer: &dyn Timer,
    timeout: Option<Duration>,
    wait: impl Future<Output = ()>,
) -> bool {
    match timeout {
        None => {
            wait.await;
            false
        }
        Some(limit) => timer.run_with_timeout(limit, wait).await.is_err(),
    }
}

/// The engine's end of a queue.
pub(crate) struct EventQueue {
    /// Guards the sender, which is gone when the run is over; never held across an await.
    sender: Mutex<Option<mpsc::UnboundedSender<QueuedEvent>>>,
    backlog: Arc<EventBacklog>,
    max: u64,
    overflowed: AtomicBool,
    env: Env,
    on_mishap: OnObserverFailure,
}

impl EventQueue {
    /// Starts a queue with its worker, which ends when the queue is closed and everything is delivered.
    pub(crate) fn start_with_worker(
        who: CurrentInvocation,
        max: u64,
        env: Env,
        on_mishap: OnObserverFailure,
    ) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (reached, _) = watch::channel(DeliveryProgress::default());
        let invocation = who.identity.invocation_id.clone();
        let work = deliver_events(receiver, reached.clone(), who, on_mishap.clone());
        let (worker, timer) = (env.spawner.spawn_abortable(work), env.timer.clone());
        let (dispatched, sent) = (AtomicU64::new(0), AtomicU64::new(0));
        let backlog = Arc::new(EventBacklog { invocation, dispatched, sent, reached, worker, timer });
        let sender = Mutex::new(Some(sender));
        Self { sender, backlog, max, overflowed: AtomicBool::new(false), env, on_mishap }
    }

    pub(crate) fn event_backlog(&self) -> &Arc<EventBacklog> {
        &self.backlog
    }

    /// Puts an event in the queue. Never waits; beyond the bound the event counts as undelivered.
    pub(crate) fn dispatch_event(&self, event: GraphEvent, observers: Arc<[Subscription]>) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = sender.as_ref() else { return };
        self.backlog.dispatched.fetch_add(1, Ordering::AcqRel);
        if self.overflowed.load(Ordering::Relaxed) {
            return;
        }
        if self.backlog.undelivered_count() > self.max {
            self.overflowed.store(true, Ordering::Relaxed);
            report_observer_failure(
                &self.on_mishap,
                ObserverFailure::Backlog { at: self.env.clock.now(), max: self.max },
            );
            return;
        }
        // The receiver is gone only after a drain gave the queue up.
        if sender.send(QueuedEvent { event, observers }).is_ok() {
            self.backlog.sent.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Takes no more events: the run is over, whoever may still hold a part of it.
    pub(crate) fn close_queue(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Reports a mishap; a listener that panics harms neither run nor queue.
fn report_observer_failure(on_mishap: &OnObserverFailure, mishap: ObserverFailure) {
    drop(catch_panic(|| on_mishap(mishap)));
}

async fn deliver_events(
    mut receiver: mpsc::UnboundedReceiver<QueuedEvent>,
    reached: watch::Sender<DeliveryProgress>,
    who: CurrentInvocation,
    on_mishap: OnObserverFailure,
) {
    ambient::run_in_observer(who, async {
        while let Some(QueuedEvent { event, observers }) = receiver.recv().await {
            let carries_metadata = observers.iter().any(|subscription| subscription.caller_metadata);
            let mut plain = None;
            for subscription in observers.iter().filter(|observer| observer.wants_event(&event)) {
                let seen_event = if subscription.caller_metadata || !carries_metadata {
                    &event
                } else {
                    plain.get_or_insert_with(|| event.without_caller_metadata()).as_ref().unwrap_or(&event)
                };
                let observing = async { subscription.observer.observe_event(seen_event).await };
                let seen = catch_future_panic(Box::pin(observing)).await;
                let error = match seen {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error,
                    Err(panicked) => panicked.into(),
                };
                report_observer_failure(&on_mishap, ObserverFailure::Observer { error });
            }
            reached.send_modify(|reached| reached.delivered += 1);
        }
    })
    .await;
    reached.send_modify(|reached| reached.done = true);
}
