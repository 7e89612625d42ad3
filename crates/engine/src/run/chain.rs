//! Running chains of middleware around nodes, instances and branches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use singletree_durable::BoxFuture;
use singletree_graph::{Identity, NodeLineage, Snapshot, StateUpdate, catch_panic};

use super::ambient;
use super::attempt::OpenAttempt;
use super::call_event::EventSource;
use super::calls::ObservedCalls;
use super::event::{GraphEvent, IsolationEvent};
use super::fault::NodeError;
use super::level::GraphLevel;
use super::metadata::MetadataScope;
use super::middleware::Middleware;
use super::panic::catch_future_panic;
use super::scope::{NodeAttempt, RunContext};
use crate::error::NodeLocation;

/// The unit that a chain surrounds: a node's body, a subgraph, a whole container, an instance, a branch.
pub(crate) trait ExecutionUnit: Send + Sync {
    /// Performs it once, under an attempt number. Never called while an earlier call runs.
    fn perform_attempt<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: u32,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>>;

    /// Tells the open attempt with its own outcome.
    fn settle_attempt(&self);

    /// Returns the identity of the unit and the data that its chain shares.
    fn unit_context(&self) -> &UnitContext;
}

/// The identity of a unit, and the data that its chain shares.
pub(crate) struct UnitContext {
    pub(crate) run: Arc<RunContext>,
    /// The graph in which the chain stands.
    pub(crate) level: Arc<GraphLevel>,
    pub(crate) place: NodeLocation,
    /// The boundaries to the node; one more for an instance or a branch.
    pub(crate) lineage: NodeLineage,
    /// The number of the attempt that a suspension interrupted; else that of the surroundings.
    pub(crate) first: u32,
    /// Whether `first` is the number of an interrupted attempt, and nobody went on with it yet.
    pub(crate) resumed: AtomicBool,
    /// The number of the attempt performed last.
    pub(crate) last: AtomicU32,
    /// The attempt of the innermost container that the chain is inside of: for a member, its own container's.
    pub(crate) within: Option<Arc<NodeAttempt>>,
    /// The attempt whose end is not told yet.
    pub(crate) open: Arc<OpenAttempt>,
    /// The caller's metadata as the unit sees it.
    pub(crate) metadata: Arc<MetadataScope>,
}

impl UnitContext {
    /// Describes the unit as the source of events of its middleware.
    pub(crate) fn event_source(&self) -> EventSource {
        EventSource {
            identity: self.run.who.identity.clone(),
            node_name: self.place.node.clone(),
            namespace: self.place.namespace.clone(),
            step: None,
            attempt_index: self.last.load(Ordering::Relaxed),
            lineage: self.lineage.clone(),
        }
    }
}

/// The rest of a chain, inside of the middleware that receives it.
///
/// It can be called several times, one call after the other.
pub struct Next<'a> {
    rest: &'a [Arc<dyn Middleware>],
    unit: &'a dyn ExecutionUnit,
    state: &'a Snapshot,
    attempt: u32,
    calls: u32,
    /// The caller's metadata before the first call.
    baseline: Option<Arc<Map<String, Value>>>,
}

impl<'a> Next<'a> {
    /// Begins a chain.
    pub(crate) fn begin_chain(
        chain: &'a [Arc<dyn Middleware>],
        unit: &'a dyn ExecutionUnit,
        state: &'a Snapshot,
    ) -> Self {
        Next { rest: chain, unit, state, attempt: unit.unit_context().first, calls: 0, baseline: None }
    }

    /// Runs the inner part of the chain with this state, and returns its update.
    ///
    /// Each further call is another attempt: observers are told how the previous attempt ended, and the number of the
    /// call, from 0, is the `attempt_index` of the inner part.
    ///
    /// # Errors
    /// The error of the inner part.
    ///
    /// # Cancellation
    /// Dropping the future cancels the inner part. Observers see its attempt end with the outcome of the whole chain.
    pub async fn run(&mut self, state: &Snapshot) -> Result<StateUpdate, NodeError> {
        let attempt = if self.calls == 0 { self.attempt } else { self.calls };
        self.run_rest_of_chain(attempt, state).await
    }

    /// As [`Next::run`], under an attempt number of the middleware's own, from 0 (graph-engine §6: the innermost
    /// middleware that numbers attempts wins). For middleware whose [`Middleware::numbers_attempts`] is true.
    ///
    /// # Errors
    /// As [`Next::run`].
    ///
    /// # Cancellation
    /// As [`Next::run`].
    pub async fn run_attempt(&mut self, attempt: u32, state: &Snapshot) -> Result<StateUpdate, NodeError> {
        self.run_rest_of_chain(attempt, state).await
    }

    async fn run_rest_of_chain(&mut self, attempt: u32, state: &Snapshot) -> Result<StateUpdate, NodeError> {
        self.calls = self.calls.saturating_add(1);
        let unit = self.unit;
        let metadata = &unit.unit_context().metadata;
        match &self.baseline {
            None => self.baseline = Some(metadata.entries()),
            // What a failed attempt added is not carried over (observability §3.4).
            Some(baseline) => metadata.reset_to(baseline.clone()),
        }
        let Some((first, rest)) = self.rest.split_first() else {
            unit.settle_attempt();
            unit.unit_context().last.store(attempt, Ordering::Relaxed);
            return unit.perform_attempt(state, attempt).await;
        };
        let next = Next { rest, unit, state, attempt, calls: 0, baseline: None };
        let running = catch_panic(|| first.call(state, next)).map_err(NodeError::new)?;
        let seat = unit.unit_context();
        let running = ambient::run_in_middleware(seat, state, async { catch_future_panic(running).await });
        running.await.unwrap_or_else(|panicked| Err(NodeError::new(panicked)))
    }

    /// Tells observers that the last attempt ended as it did, whatever the chain makes of it. Without this call an
    /// attempt that was not followed by another one is told with the outcome of the chain (R5).
    pub fn settle_attempt(&mut self) {
        self.unit.settle_attempt();
    }

    /// Returns the state that the middleware received.
    #[must_use]
    pub fn received_state(&self) -> &'a Snapshot {
        self.state
    }

    /// Returns the number to begin with for middleware that numbers attempts: 0, or, once, that of the attempt that
    /// suspended.
    #[must_use]
    pub fn first_attempt_number(&self) -> u32 {
        let seat = self.unit.unit_context();
        let innermost = !self.rest.iter().any(|item| item.numbers_attempts());
        if innermost && seat.resumed.swap(false, Ordering::Relaxed) { seat.first } else { 0 }
    }

    /// Returns the name of the node that the chain surrounds; for an instance or a branch, of its container.
    #[must_use]
    pub fn node_name(&self) -> &'a str {
        &self.unit.unit_context().place.node
    }

    /// Returns the path to that node, outermost first, its own name last.
    #[must_use]
    pub fn namespace(&self) -> &'a [Arc<str>] {
        &self.unit.unit_context().place.namespace
    }

    /// Returns the boundaries to the surrounded node, instance or branch; for an instance or a branch with its own.
    #[must_use]
    pub fn lineage(&self) -> &'a NodeLineage {
        &self.unit.unit_context().lineage
    }

    /// Returns who the invocation is.
    #[must_use]
    pub fn identity(&self) -> &'a Identity {
        &self.unit.unit_context().run.who.identity
    }

    /// Returns which node, instance or branch the chain surrounds, as events tell it.
    #[must_use]
    pub fn event_source(&self) -> EventSource {
        self.unit.unit_context().event_source()
    }

    /// Returns the reports of calls that the middleware makes (graph-engine §6).
    #[must_use]
    pub fn calls(&self) -> ObservedCalls {
        ObservedCalls::of_middleware(self.unit.unit_context())
    }

    /// Returns the extension of this type that the caller passed to this invocation.
    #[must_use]
    pub fn find_extension<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.unit.unit_context().run.extensions.get()
    }

    /// Waits by the graph's timer ([`GraphBuilder::timer`](crate::GraphBuilder::timer)).
    ///
    /// # Cancellation
    /// Dropping the future ends the wait.
    pub async fn sleep_for(&self, span: Duration) {
        self.unit.unit_context().run.core.env.timer.sleep_for(span).await;
    }

    /// Draws a number from 0 up to, but not including, 1 from the graph's chance
    /// ([`GraphBuilder::chance`](crate::GraphBuilder::chance)).
    #[must_use]
    pub fn draw_fraction(&self) -> f64 {
        self.unit.unit_context().run.core.env.rng.draw_fraction()
    }

    /// Tells observers of a caught failure (pipeline-utilities §6.3).
    pub(crate) fn report_isolated_failure(
        &self,
        name: &Arc<str>,
        pre: &Snapshot,
        post: &StateUpdate,
        error: &NodeError,
    ) {
        let seat = self.unit.unit_context();
        let Some(events) = &seat.run.events else { return };
        let event = IsolationEvent {
            identity: seat.run.who.identity.clone(),
            at: seat.run.core.env.clock.now(),
            event_name: name.clone(),
            node_name: seat.place.node.clone(),
            namespace: seat.place.namespace.clone(),
            lineage: seat.lineage.clone(),
            attempt_index: seat.last.load(Ordering::Relaxed),
            pre_state: pre.clone(),
            post_state: post.clone(),
            caught_exception: error.classify(),
        };
        events.dispatch_event(GraphEvent::FailureIsolated(event), seat.level.observers.clone());
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({:?}, {} further in)", self.namespace(), self.rest.len())
    }
}
