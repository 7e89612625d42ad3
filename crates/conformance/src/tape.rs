//! What happened in a run, as the runner's own nodes, observers and stores heard it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use singletree::durable::SessionRecord;
use singletree::engine::{DrainSummary, NodeEvent};

/// A node's body began.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    /// The path to the node.
    pub(crate) namespace: Vec<String>,
    /// The state that it received.
    pub(crate) pre_state: Map<String, Value>,
    /// The invocation.
    pub(crate) invocation: String,
    /// The session that the engine knows the invocation by.
    pub(crate) session: Option<String>,
}

/// An observer took an event.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    /// The observer's name.
    pub(crate) observer: String,
    /// The event.
    pub(crate) event: NodeEvent,
}

/// The session store was called.
#[derive(Debug, Clone)]
pub(crate) enum StoreCall {
    /// A load, and what it found.
    Load(Option<SessionRecord>),
    /// A save, and what it was given.
    Save(SessionRecord),
}

/// A node drained its own invocation.
#[derive(Debug, Clone)]
pub(crate) struct NodeDrain {
    /// The node.
    pub(crate) node: String,
    /// What the drain returned.
    pub(crate) summary: DrainSummary,
    /// How long it took.
    pub(crate) took: Duration,
    /// How long it was allowed to take.
    pub(crate) limit: Option<Duration>,
    /// What the named observer had taken when the drain returned.
    pub(crate) snapshot: Option<(String, Vec<NodeEvent>)>,
}

/// What happened between two cuts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reel {
    /// Bodies that began, in order.
    pub(crate) visits: Vec<Visit>,
    /// Events that observers took, in order.
    pub(crate) deliveries: Vec<Delivery>,
    /// Calls of the session store, in order.
    pub(crate) calls: Vec<StoreCall>,
    /// Drains by nodes.
    pub(crate) drains: Vec<NodeDrain>,
    /// Migrations that ran, as `from->to`.
    pub(crate) migrations: Vec<String>,
    /// Saves of the session that nodes asked for.
    pub(crate) explicit_saves: usize,
    /// What went wrong beside the run.
    pub(crate) mishaps: usize,
}

impl Reel {
    /// Returns how often the store was asked to load.
    #[must_use]
    pub(crate) fn loads(&self) -> usize {
        self.calls.iter().filter(|it| matches!(it, StoreCall::Load(_))).count()
    }

    /// Returns what was saved, in order.
    pub(crate) fn saves(&self) -> impl DoubleEndedIterator<Item = &SessionRecord> {
        self.calls.iter().filter_map(|it| match it {
            StoreCall::Save(record) => Some(record),
            StoreCall::Load(_) => None,
        })
    }

    /// Returns the events that an observer took.
    pub(crate) fn taken_by(&self, observer: &str) -> impl Iterator<Item = &NodeEvent> {
        self.deliveries.iter().filter(move |it| it.observer == observer).map(|it| &it.event)
    }

    /// Returns the nodes of the outermost graph whose bodies ran, in order; a subgraph counts once each time it is entered.
    #[must_use]
    pub(crate) fn order(&self) -> Vec<String> {
        let mut order = Vec::new();
        let mut inside: Option<&str> = None;
        for visit in &self.visits {
            let outer = visit.namespace[0].as_str();
            if visit.namespace.len() > 1 && inside == Some(outer) {
                continue;
            }
            inside = (visit.namespace.len() > 1).then_some(outer);
            order.push(outer.to_owned());
        }
        order
    }
}

/// The tape that everything writes to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<Reel>>);

impl Tape {
    /// Writes.
    pub(crate) fn write(&self) -> MutexGuard<'_, Reel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts off what was written since the last cut.
    #[must_use]
    pub(crate) fn cut(&self) -> Reel {
        std::mem::take(&mut *self.write())
    }
}
