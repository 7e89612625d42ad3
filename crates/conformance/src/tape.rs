//! The recording of a run by the runner's own nodes, observers and stores.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use singletree::durable::SessionRecord;
use singletree::engine::{AttemptPhase, DrainSummary, IsolationEvent, LineageBoundary, NodeEvent};

use crate::observers::RUNNERS;

/// A node's body began.
#[derive(Debug, Clone)]
pub(crate) struct NodeVisit {
    /// The path to the node.
    pub(crate) namespace: Vec<String>,
    /// The state that it received.
    pub(crate) pre_state: Map<String, Value>,
    /// The invocation.
    pub(crate) invocation: String,
    /// Its correlation id.
    pub(crate) correlation: String,
    /// The session that the engine knows the invocation by.
    pub(crate) session: Option<String>,
    /// The indexes of the fan-out instances that contain the node, outermost first, as far as the boundaries are those.
    pub(crate) instance: Vec<Option<u64>>,
    /// The innermost branch that contains the node.
    pub(crate) branch: Option<String>,
    /// The number of the node execution.
    pub(crate) step: u64,
    /// The attempt.
    pub(crate) attempt: u32,
    /// Whether the body has come to its end.
    pub(crate) ended: bool,
}

impl NodeVisit {
    /// Returns the index of the innermost fan-out instance that contains the node.
    #[must_use]
    pub(crate) fn fan_out_index(&self) -> Option<u64> {
        self.instance.iter().rev().flatten().next().copied()
    }
}

/// The record of a recording middleware for one dispatch.
#[derive(Debug, Clone, Default)]
pub(crate) struct MiddlewareTrace {
    /// The state that it received.
    pub(crate) state_in: Map<String, Value>,
    /// The state that it saw when the wrapped call returned, and the update that this call returned.
    pub(crate) after: Option<(Map<String, Value>, Map<String, Value>)>,
}

/// An observer took an event.
#[derive(Debug, Clone)]
pub(crate) struct EventDelivery {
    /// The observer's name.
    pub(crate) observer: String,
    /// The event.
    pub(crate) event: NodeEvent,
}

/// The session store was called.
#[derive(Debug, Clone)]
pub(crate) enum SessionStoreCall {
    /// A load, and the record that it found.
    Load(Option<SessionRecord>),
    /// A save, and the record that it was given.
    Save(SessionRecord),
}

/// A node drained its own invocation.
#[derive(Debug, Clone)]
pub(crate) struct NodeDrainResult {
    /// The node.
    pub(crate) node: String,
    /// The summary that the drain returned.
    pub(crate) summary: DrainSummary,
    /// How long it took.
    pub(crate) took: Duration,
    /// How long it was allowed to take.
    pub(crate) limit: Option<Duration>,
    /// The events that the named observer had received when the drain returned.
    pub(crate) snapshot: Option<(String, Vec<NodeEvent>)>,
}

/// How many are running.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InFlightCount {
    /// Now.
    pub(crate) now: usize,
    /// At most.
    pub(crate) max: usize,
}

/// The recording between two cuts.
#[derive(Debug, Clone, Default)]
pub(crate) struct CaseRecording {
    /// Bodies that began, in order.
    pub(crate) visits: Vec<NodeVisit>,
    /// Events that observers took, in order.
    pub(crate) deliveries: Vec<EventDelivery>,
    /// Calls of the session store, in order.
    pub(crate) calls: Vec<SessionStoreCall>,
    /// Drains by nodes.
    pub(crate) drains: Vec<NodeDrainResult>,
    /// Migrations that ran, as `from->to`.
    pub(crate) migrations: Vec<String>,
    /// Saves of the session that nodes asked for.
    pub(crate) explicit_saves: usize,
    /// Failures that observers were told to be isolated, by the observer that was told first.
    pub(crate) isolated: Vec<IsolationEvent>,
    /// The records of recording middleware, by middleware name.
    pub(crate) traces: BTreeMap<String, Vec<MiddlewareTrace>>,
    /// The records of timing middleware.
    pub(crate) timings: Vec<Value>,
    /// The lines that logging middleware wrote.
    pub(crate) log: Vec<String>,
    /// The messages that callbacks of failure isolations were given.
    pub(crate) caught_messages: Vec<String>,
    /// Fields that callbacks show beside the final state.
    pub(crate) beside: Map<String, Value>,
    /// How many bodies are running in fan-out instances, and how many ran at once at most.
    pub(crate) in_flight: InFlightCount,
    /// How often failure mocks were called.
    pub(crate) mock_calls: usize,
    /// The number of failures beside the run.
    pub(crate) mishaps: usize,
}

impl CaseRecording {
    /// Returns how often the store was asked to load.
    #[must_use]
    pub(crate) fn load_count(&self) -> usize {
        self.calls.iter().filter(|call| matches!(call, SessionStoreCall::Load(_))).count()
    }

    /// Returns the saved records, in order.
    pub(crate) fn saved_records(&self) -> impl DoubleEndedIterator<Item = &SessionRecord> {
        self.calls.iter().filter_map(|call| match call {
            SessionStoreCall::Save(record) => Some(record),
            SessionStoreCall::Load(_) => None,
        })
    }

    /// Returns the events that an observer took.
    pub(crate) fn events_taken_by(&self, observer: &str) -> impl Iterator<Item = &NodeEvent> {
        self.deliveries
            .iter()
            .filter(move |delivery| delivery.observer == observer)
            .map(|delivery| &delivery.event)
    }

    /// Returns the nodes of the outermost graph that ran, in order: each once, however often it was tried; a subgraph
    /// once each time it is entered. A node that middleware kept from running is not among them.
    #[must_use]
    pub(crate) fn execution_order(&self) -> Vec<String> {
        let mut heard = self.events_taken_by(RUNNERS).peekable();
        if heard.peek().is_none() {
            return outermost_order(self.visits.iter().map(|visit| NodeExecution {
                path: visit.namespace.iter().map(String::as_str).collect(),
                step: visit.step,
            }));
        }
        // Containers have no body of their own; their events tell of them, and of all that they contain.
        let plain = |it: &&NodeEvent| {
            !matches!(
                it.lineage.boundaries().first(),
                Some(LineageBoundary::Instance(_) | LineageBoundary::Branch(_))
            )
        };
        outermost_order(heard.filter(|heard| heard.phase == AttemptPhase::Started).filter(plain).map(
            |heard| NodeExecution {
                path: heard.namespace.iter().map(AsRef::as_ref).collect(),
                step: heard.step,
            },
        ))
    }
}

/// A node execution.
struct NodeExecution<'a> {
    path: Vec<&'a str>,
    step: u64,
}

fn outermost_order<'a>(steps: impl Iterator<Item = NodeExecution<'a>>) -> Vec<String> {
    let mut order = Vec::new();
    let mut inside: Option<&str> = None;
    let mut last = None;
    for NodeExecution { path, step } in steps {
        let (outer, is_inner) = (path[0], path.len() > 1);
        if (is_inner && inside == Some(outer)) || last == Some(step) {
            continue;
        }
        inside = is_inner.then_some(outer);
        last = Some(step);
        order.push(outer.to_owned());
    }
    order
}

/// The tape that everything writes to.
#[derive(Debug, Clone, Default)]
pub(crate) struct CaseRecorder(Arc<Mutex<CaseRecording>>);

impl CaseRecorder {
    /// Writes.
    pub(crate) fn lock_recording(&self) -> MutexGuard<'_, CaseRecording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the recording since the last cut.
    #[must_use]
    pub(crate) fn take_recording(&self) -> CaseRecording {
        std::mem::take(&mut *self.lock_recording())
    }
}
