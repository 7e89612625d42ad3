//! Observers that keep or count typed events, and are read (conformance-adapter §5.5; observability §9).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use singletree::durable::{BoxError, BoxFuture};
use singletree::engine::{GraphEvent, Observer, Subscription};

use super::event_json::{EVENT_TYPES, event_type};
use super::steps::ObserverReadMethod;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;

/// A collector of typed events as the fixture describes it.
#[derive(Debug, Clone, Default)]
pub(super) struct TypedCollectorSpec {
    /// Its name.
    pub(super) name: String,
    filter: Option<String>,
    with_caller_metadata: bool,
    with_lifecycle: bool,
}

impl TypedCollectorSpec {
    /// The runner's own collector, which keeps everything.
    pub(super) fn of_everything() -> Self {
        Self { with_caller_metadata: true, with_lifecycle: true, ..Self::default() }
    }

    /// Reads a collector.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let kind = block.take_required("kind")?;
        if kind.as_text()? != "typed_event_collector" {
            return Err(CaseFailure::reader_error(&kind.path, format!("unknown kind '{}'", kind.as_text()?)));
        }
        let filter = block.take_value("filter_event_type");
        if let Some(filter) = filter.as_ref().filter(|filter| filter.as_text().is_ok_and(is_unknown_type)) {
            return Err(CaseFailure::reader_error(&filter.path, "unknown type of event"));
        }
        let mut flag = |key: &str| block.take_value(key).map(|value| value.as_bool()).transpose();
        let with_caller_metadata = flag("include_caller_metadata")?.unwrap_or(false);
        // Every collector keeps the order in which events arrive.
        flag("retains_arrival_order")?;
        let spec = Self {
            name: block.take_required("name")?.as_text()?.to_owned(),
            filter: filter.map(|filter| filter.as_text().map(str::to_owned)).transpose()?,
            with_caller_metadata,
            with_lifecycle: false,
        };
        block.reject_remaining_keys()?;
        Ok(spec)
    }
}

fn is_unknown_type(name: &str) -> bool {
    !EVENT_TYPES.contains(&name)
}

/// Keeps typed events.
#[derive(Debug)]
pub(super) struct TypedEventCollector {
    pub(super) spec: TypedCollectorSpec,
    events: Mutex<Vec<GraphEvent>>,
}

impl TypedEventCollector {
    pub(super) fn new(spec: TypedCollectorSpec) -> Arc<Self> {
        Arc::new(Self { spec, events: Mutex::default() })
    }

    pub(super) fn subscription(self: &Arc<Self>) -> Subscription {
        let mut subscription = Subscription::from_shared_observer(self.clone());
        if self.spec.with_lifecycle {
            subscription = subscription.with_lifecycle();
        }
        if self.spec.with_caller_metadata { subscription.with_caller_metadata() } else { subscription }
    }

    /// Returns the events since the last call.
    pub(super) fn take_events(&self) -> Vec<GraphEvent> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for TypedEventCollector {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        if self.spec.filter.as_deref().is_none_or(|filter| filter == event_type(event)) {
            self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// An observer that counts, as the fixture describes it.
#[derive(Debug, Clone)]
pub(super) struct EventCounterSpec {
    pub(super) name: String,
    pub(super) kind: CounterKind,
}

/// Which events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterKind {
    /// Those of nodes.
    NodeEvents,
    /// All, by their types.
    AllEvents,
}

/// Counts events, and is read while it counts.
#[derive(Debug)]
pub(super) struct EventCounter {
    pub(super) spec: EventCounterSpec,
    /// Guards both counts, so that no reader sees one of them alone.
    counts: Mutex<EventCounts>,
}

#[derive(Debug, Clone, Default)]
struct EventCounts {
    total: u64,
    by_type: BTreeMap<&'static str, u64>,
}

impl EventCounter {
    pub(super) fn new(spec: EventCounterSpec) -> Arc<Self> {
        Arc::new(Self { spec, counts: Mutex::default() })
    }

    fn lock_counts(&self) -> MutexGuard<'_, EventCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the counts.
    pub(super) fn read_counts(&self, method: ObserverReadMethod) -> Value {
        let counts = self.lock_counts().clone();
        match method {
            ObserverReadMethod::Count => counts.total.into(),
            ObserverReadMethod::Snapshot => json!({"total": counts.total, "by_type": counts.by_type}),
        }
    }
}

impl Observer for EventCounter {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        if self.spec.kind == CounterKind::AllEvents || matches!(event, GraphEvent::Node(_)) {
            let mut counts = self.lock_counts();
            counts.total += 1;
            *counts.by_type.entry(event_type(event)).or_default() += 1;
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
