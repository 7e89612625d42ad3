//! An observer that keeps events in memory (spec: observability §9).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_engine::{GraphEvent, Observer, Subscription};
use singletree_env::{BoxError, BoxFuture};

/// The bounds of a collector (INV-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectorLimits {
    /// How many events are kept of all invocations together. Their states and messages are shared with the run, not
    /// copied.
    pub events: usize,
}

impl Default for CollectorLimits {
    fn default() -> Self {
        Self { events: 100_000 }
    }
}

/// Keeps the events of invocations until they are dropped. Pieces of streamed answers are not kept: nothing is rendered
/// of them.
///
/// Beyond its limit it takes no more events, and counts them. Reading it changes nothing, and sees each event whole.
#[derive(Debug, Default)]
pub struct EventCollector {
    limits: CollectorLimits,
    /// Guards the events; held for a copy or a change only.
    held: Mutex<CollectedEvents>,
}

#[derive(Debug, Default)]
struct CollectedEvents {
    invocations: BTreeMap<String, Vec<GraphEvent>>,
    count: usize,
    refused: u64,
}

impl EventCollector {
    /// Makes a collector with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: CollectorLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Subscribes the collector to everything that rendering needs.
    #[must_use]
    pub fn subscription(self: &Arc<Self>) -> Subscription {
        Subscription::from_shared_observer(self.clone()).with_lifecycle().with_caller_metadata()
    }

    /// Returns the events of an invocation so far, in their order. An invocation that was resumed has the events of
    /// both runs.
    #[must_use]
    pub fn events_of(&self, invocation: &impl ToString) -> Vec<GraphEvent> {
        self.lock_held().invocations.get(&invocation.to_string()).cloned().unwrap_or_default()
    }

    /// Returns the invocations that it has events of, by their ids.
    #[must_use]
    pub fn invocations(&self) -> Vec<String> {
        self.lock_held().invocations.keys().cloned().collect()
    }

    /// Drops the events of an invocation.
    pub fn drop_events(&self, invocation: &impl ToString) {
        let mut held = self.lock_held();
        if let Some(dropped) = held.invocations.remove(&invocation.to_string()) {
            held.count -= dropped.len();
        }
    }

    /// Returns how many events were not kept because of the limits.
    #[must_use]
    pub fn refused_count(&self) -> u64 {
        self.lock_held().refused
    }

    fn lock_held(&self) -> MutexGuard<'_, CollectedEvents> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for EventCollector {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        if !matches!(event, GraphEvent::LlmToken(_)) {
            let mut held = self.lock_held();
            if held.count < self.limits.events {
                held.count += 1;
                let invocation = event.invocation_id().to_string();
                held.invocations.entry(invocation).or_default().push(event.clone());
            } else {
                held.refused = held.refused.saturating_add(1);
            }
        }
        Box::pin(async { Ok(()) })
    }
}
