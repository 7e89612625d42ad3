//! The context that a node's body receives.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value};
use singletree_env::{RandomSource, Timer};
use singletree_graph::{FieldContent, Identity, Item, NodeLineage, Snapshot, State, StateUpdate};

use super::ambient;
use super::call_event::EventSource;
use super::calls::ObservedCalls;
use super::fault::NodeResult;
use super::graph::NodeBody;
use super::metadata::check_metadata;
use super::observe::DrainSummary;
use super::outlet::EventOutlet;
use super::scope::NodeAttempt;
use super::signal::Signal;
use crate::error::Error;

/// The context of one node execution: the state, the identity of the invocation, and the requests that a node can make.
pub struct Ctx<S> {
    scope: Arc<NodeAttempt>,
    view: OnceLock<Arc<S>>,
    state: PhantomData<fn() -> S>,
}

/// Makes a body of a function.
pub(crate) fn make_node_body<S, F, Fut>(function: F) -> NodeBody
where
    S: State,
    F: Fn(Ctx<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = NodeResult<S>> + Send + 'static,
{
    Arc::new(move |scope| {
        let running = function(Ctx::new(scope));
        Box::pin(async move { running.await.map(Into::into) })
    })
}

impl<S: State> Ctx<S> {
    pub(crate) fn new(scope: Arc<NodeAttempt>) -> Self {
        Self { scope, view: OnceLock::new(), state: PhantomData }
    }

    /// Returns the state that the node received. Nodes do not change it; they return an update.
    ///
    /// # Panics
    /// When a stored field is damaged (INV-13: merged values are checked). The panic becomes the node's error.
    #[must_use]
    pub fn state(&self) -> &S {
        self.view.get_or_init(|| match self.scope.state.typed_view() {
            Ok(view) => view,
            Err(fault) => panic!("INV-13: the state cannot be read: {fault}"),
        })
    }

    /// Returns the state as the engine has it, by field name.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.scope.state
    }

    /// Returns the graph's timer ([`GraphBuilder::env`](crate::GraphBuilder::env)): for waits and time limits of nodes.
    #[must_use]
    pub fn timer(&self) -> &dyn Timer {
        self.scope.run.core.env.timer.as_ref()
    }

    /// Returns the graph's random numbers ([`GraphBuilder::env`](crate::GraphBuilder::env)): for the jitter of waits.
    #[must_use]
    pub fn random_source(&self) -> &dyn RandomSource {
        self.scope.run.core.env.rng.as_ref()
    }

    /// Returns who the invocation is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.scope.run.who.identity
    }

    /// Returns the caller's metadata as the node sees it now (graph-engine §3, observability §3.4): of the invocation,
    /// and with what this node and those before it have added. Additions inside of an instance or a branch are seen
    /// there alone; those of an attempt that failed are not seen by the next one.
    #[must_use]
    pub fn caller_metadata(&self) -> Arc<Map<String, Value>> {
        self.scope.level.metadata.entries()
    }

    /// Adds an entry to the caller's metadata, in place of an earlier one of the key: for this node, for those after it,
    /// and for those inside of them (observability §3.4). Observers are told.
    ///
    /// # Errors
    /// `invalid_argument` for a reserved key or a value that is neither a scalar nor an array of scalars.
    pub fn add_metadata(&self, key: impl Into<String>, value: impl Into<Value>) -> Result<(), Error> {
        let entries = Map::from_iter([(key.into(), value.into())]);
        check_metadata(&entries)?;
        ambient::add_to_scope(&self.scope.level.metadata, &self.calls(), entries);
        Ok(())
    }

    /// Returns which execution of which node this is, as events tell it: logs name their place by it.
    #[must_use]
    pub fn event_source(&self) -> EventSource {
        self.scope.event_source()
    }

    /// Returns the reports of the calls of models and tools that the node makes (graph-engine §6).
    #[must_use]
    pub fn calls(&self) -> ObservedCalls {
        ObservedCalls::of_node(&self.scope)
    }

    /// Returns the path to this node, outermost first, its own name last.
    #[must_use]
    pub fn namespace(&self) -> &[Arc<str>] {
        &self.scope.place.namespace
    }

    /// Returns the number of this node execution in the invocation (graph-engine §6).
    #[must_use]
    pub fn step(&self) -> u64 {
        self.scope.step
    }

    /// Returns the attempt, from 0 (graph-engine §6).
    #[must_use]
    pub fn attempt_index(&self) -> u32 {
        self.scope.attempt
    }

    /// Returns the boundaries through which the node was reached. They tell concurrent inner runs apart in logs and
    /// keys.
    ///
    /// A node that works by its instance's index gets it as data, by the fan-out's inputs (pipeline-utilities §9.1).
    #[must_use]
    pub fn lineage(&self) -> &NodeLineage {
        &self.scope.level.lineage
    }

    /// Returns the extension of this type that the caller passed to this invocation.
    #[must_use]
    pub fn find_extension<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.scope.run.extensions.get()
    }

    /// Pauses the invocation until a signal comes (suspension §3).
    ///
    /// It is the node's last act: on success the run is dropped right here, and code that awaits this call never goes
    /// on. On resume the run continues after this node, or runs it again when the signal says so
    /// ([`Signal::mark_node_completed`]).
    ///
    /// # Errors
    /// Only when the pause could not be recorded: `suspension_persistence_failed`, or
    /// `suspension_resume_payload_invalid` when `on_deadline` names a field that is not declared.
    pub async fn suspend(&self, signal: Signal) -> NodeResult<S> {
        Err(self.scope.request_suspension(signal).await)
    }

    /// Saves the session now, as it was before this node (sessions §6.2).
    ///
    /// # Errors
    /// `session_save_failed` or `session_write_conflict`. The node may go on all the same.
    pub async fn save_session(&self) -> Result<(), Error> {
        self.save_session_with(StateUpdate::new()).await
    }

    /// Saves the session now, as it will be when this update is merged (sessions §6.2, R10).
    ///
    /// # Errors
    /// As [`Ctx::save_session`]; `reducer_error` or `state_validation_error` when the update cannot be merged.
    pub async fn save_session_with(&self, update: impl Into<StateUpdate>) -> Result<(), Error> {
        let run = &self.scope.run;
        if self.scope.place.namespace.len() > 1 {
            let what = "a session is saved by nodes of the outermost graph (sessions §9.1)".into();
            return Err(Error::Argument { what });
        }
        let state = self.scope.merge_update(update.into())?;
        match run.core.session_state(&state, &run.who.identity) {
            Some(session) => run.port.save_session(session).await,
            None => Ok(()),
        }
    }

    /// Returns the items of a list at these positions, as far as the list goes; those that a window does not hold are
    /// read from the store (D22).
    ///
    /// # Errors
    /// `invalid_argument` when the state has no such list; `session_load_failed` when the store cannot be read.
    ///
    /// # Cancellation
    /// Dropping the future reads nothing more.
    pub async fn read_list_items(&self, field: &str, positions: Range<u64>) -> Result<Vec<Item>, Error> {
        let no_list = || Error::Argument { what: format!("the state has no list '{field}'") };
        let list = self.scope.state.get(field).and_then(FieldContent::as_list).ok_or_else(no_list)?;
        let end = positions.end.min(list.len());
        let held = list.first_held_position().clamp(positions.start.min(end), end);
        let mut items = Vec::new();
        if positions.start < held {
            // A branch that is a function works on the state of the graph that it is in.
            if !Arc::ptr_eq(&self.scope.level.core, &self.scope.run.core) {
                let what = "what a window does not hold is read by nodes of the outermost graph".into();
                return Err(Error::Argument { what });
            }
            items = self.scope.run.port.read_earlier_items(field, positions.start..held).await?;
        }
        let rest = usize::try_from(end.saturating_sub(held)).unwrap_or(usize::MAX);
        items.extend(list.iter_from(held).take(rest).cloned());
        Ok(items)
    }

    /// Tells whether this execution may be a second one: the run goes on after its process died, and this is the node
    /// that had not completed (D7).
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.scope.run.recovering.load(Ordering::Relaxed)
    }

    /// Records a fact of this node execution durably before it goes on: the result of one of several effects (D7).
    /// Forgotten when the node completes; inside of a container durably kept, per instance and execution, until the
    /// container does. Without durable steps it is kept in memory only.
    ///
    /// # Errors
    /// `checkpoint_save_failed`; `invalid_argument` in a chat for a name that begins with `singletree.telemetry.`.
    pub async fn record(&self, name: &str, fact: Item) -> Result<(), Error> {
        self.scope.record_fact(name, fact).await
    }

    /// Returns the facts that this node execution has recorded, also before its process died.
    #[must_use]
    pub fn records(&self) -> BTreeMap<String, Item> {
        self.scope.recorded_facts()
    }

    /// Waits until observers have seen every event of this invocation that was dispatched by now (graph-engine §6). The
    /// node's own completed event is not among them.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing; so does running into the time limit.
    pub async fn drain_events(&self, timeout: Option<Duration>) -> DrainSummary {
        match self.scope.run.events.as_ref().and_then(EventOutlet::observer_queue) {
            Some(queue) => queue.event_backlog().wait_for_delivery(timeout).await,
            None => DrainSummary { undelivered_count: 0, timeout_reached: false },
        }
    }
}

impl<S> std::fmt::Debug for Ctx<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ctx({:?}, step {})", self.scope.place.namespace, self.scope.step)
    }
}
