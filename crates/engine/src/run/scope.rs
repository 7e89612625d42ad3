//! One run and its shared parts; one node execution and its identity.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree_durable::PositionHistory;
use singletree_graph::{
    ContainerProgress, Descriptor, GraphCursor, Item, RunProgress, Snapshot, StateUpdate, catch_panic,
};

use super::ambient::CurrentInvocation;
use super::call_event::{CallerMetadata, EventSource};
use super::call_tracing::CallTracing;
use super::calls::CallNumbers;
use super::container::MemberContainer;
use super::event::{AttemptEnd, AttemptPhase, EventError, GraphEvent, NodeEvent};
use super::extension::Extensions;
use super::fan_out::FanOutWork;
use super::fault::NodeError;
use super::graph::{GraphCore, NodeWork};
use super::level::GraphLevel;
use super::metadata::MetadataScope;
use super::observe::Subscription;
use super::outlet::EventOutlet;
use super::port::PersistencePort;
use super::signal::Signal;
use super::strand::SequentialWalk;
use super::suspend::{AbortRequest, DriverRequests};
use crate::error::{Error, NodeLocation};
use crate::plan::policy::ErrorPolicy;

/// The data that all nodes of one run share.
pub(crate) struct RunContext {
    pub(crate) who: CurrentInvocation,
    /// The outermost graph.
    pub(crate) core: Arc<GraphCore>,
    pub(crate) port: Arc<dyn PersistencePort>,
    /// What the caller calls the invocation.
    pub(crate) label: Option<Arc<str>>,
    pub(crate) extensions: Extensions,
    pub(crate) tracing: Option<Arc<dyn CallTracing>>,
    pub(crate) requests: DriverRequests,
    pub(crate) events: Option<EventOutlet>,
    pub(crate) observers: RunObservers,
    /// The caller's metadata as the outermost walk sees it.
    pub(crate) metadata: Arc<MetadataScope>,
    /// How many calls middleware has made.
    pub(crate) middleware_calls: AtomicU64,
    pub(crate) next_step: AtomicU64,
    /// Whether the run goes on after its process died, and no node has completed since.
    pub(crate) recovering: AtomicBool,
    pub(crate) records: Mutex<BTreeMap<String, Item>>,
    /// The outermost walk: where it stands is where the run stands.
    pub(crate) main: Arc<SequentialWalk>,
    /// Guards the containers that run, outer ones before those inside them; held for a change or a copy only.
    containers: Mutex<Vec<Arc<MemberContainer>>>,
    /// Guards how far containers were when the run was saved that this one goes on with; each is taken once.
    saved: Mutex<Vec<ContainerProgress>>,
    /// Held while the run is saved: checkpoints are written one after the other, each with the progress at its own
    /// turn.
    pub(crate) saving: tokio::sync::Mutex<()>,
}

/// The parts from which a run is made.
pub(crate) struct RunContextParts {
    pub(crate) who: CurrentInvocation,
    pub(crate) core: Arc<GraphCore>,
    pub(crate) port: Arc<dyn PersistencePort>,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) extensions: Extensions,
    pub(crate) tracing: Option<Arc<dyn CallTracing>>,
    pub(crate) events: Option<EventOutlet>,
    pub(crate) observers: RunObservers,
    pub(crate) next_step: u64,
    pub(crate) recovering: bool,
    pub(crate) records: BTreeMap<String, Item>,
    pub(crate) containers: Vec<ContainerProgress>,
    pub(crate) completed: PositionHistory,
}

impl RunContext {
    pub(crate) fn new(parts: RunContextParts) -> Self {
        Self {
            metadata: MetadataScope::new(parts.who.metadata.clone()),
            middleware_calls: AtomicU64::new(0),
            who: parts.who,
            core: parts.core,
            port: parts.port,
            label: parts.label,
            extensions: parts.extensions,
            tracing: parts.tracing,
            requests: DriverRequests::default(),
            events: parts.events,
            observers: parts.observers,
            next_step: AtomicU64::new(parts.next_step),
            recovering: AtomicBool::new(parts.recovering),
            records: Mutex::new(parts.records),
            main: Arc::new(SequentialWalk::from_completed_positions(parts.completed)),
            containers: Mutex::default(),
            saved: Mutex::new(parts.containers),
            saving: tokio::sync::Mutex::default(),
        }
    }

    /// Returns where the run stands, once it has begun.
    pub(crate) fn capture_progress(&self) -> Option<RunProgress> {
        let (frames, states) = self.main.copy_frames_and_states();
        if frames.is_empty() {
            return None;
        }
        let cursor = GraphCursor { frames, next_step: self.next_step.load(Ordering::Relaxed) };
        let containers =
            self.lock_containers().iter().map(|container| container.capture_progress()).collect();
        Some(RunProgress { cursor, frames: states, containers })
    }

    /// Returns the caller's metadata for an event, where an observer asks for it.
    pub(crate) fn observed_metadata(&self, scope: &MetadataScope) -> CallerMetadata {
        self.observers.wants_caller_metadata.then(|| scope.entries())
    }

    /// Returns the outlet where somebody asks for events about lifecycles.
    pub(crate) fn lifecycle_outlet(&self) -> Option<&EventOutlet> {
        self.events.as_ref().filter(|events| self.observers.wants_lifecycle || events.reaches_port())
    }

    fn lock_containers(&self) -> MutexGuard<'_, Vec<Arc<MemberContainer>>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a running container, until the returned guard is dropped.
    pub(crate) fn register_container<'a>(
        &'a self,
        container: &'a Arc<MemberContainer>,
    ) -> ContainerGuard<'a> {
        self.lock_containers().push(container.clone());
        ContainerGuard { run: self, container }
    }

    fn lock_saved_progress(&self) -> MutexGuard<'_, Vec<ContainerProgress>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a container the progress that was saved before the run was resumed.
    ///
    /// # Errors
    /// `checkpoint_record_invalid` when the container has other members now.
    pub(crate) fn restore_container(&self, container: &MemberContainer) -> Result<(), Error> {
        let saved = {
            let mut all = self.lock_saved_progress();
            let at = all.iter().position(|item| container.matches_progress(item));
            at.map(|at| all.swap_remove(at))
        };
        saved.map_or(Ok(()), |saved| container.restore_members(saved))
    }

    /// Numbers the next node execution.
    pub(crate) fn take_step_number(&self) -> Result<u64, Error> {
        let step = self.next_step.fetch_add(1, Ordering::Relaxed);
        let max = self.core.limits.steps;
        if step < max { Ok(step) } else { Err(Error::Limit { limit: "steps", max }) }
    }

    fn lock_records(&self) -> MutexGuard<'_, BTreeMap<String, Item>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a node of the main strand has completed: its facts, and those of the nodes inside it, are part of the
    /// state now.
    pub(crate) fn settle_completed_node(&self) {
        self.recovering.store(false, Ordering::Relaxed);
        // The saved progress belongs to the node at which the run was resumed; a cycle that comes back to it begins
        // anew.
        self.lock_saved_progress().clear();
        let mut records = self.lock_records();
        if !records.is_empty() {
            records.clear();
        }
    }

    /// Notes that a node inside of a container has completed. Durable records stay until the container has completed:
    /// the container runs again after a crash.
    pub(crate) fn settle_completed_member_node(&self, facts: impl FnOnce() -> String) {
        let mut records = self.lock_records();
        if !records.is_empty() {
            let facts = facts();
            records.retain(|name, _| !name.starts_with(&facts));
        }
    }
}

/// Notes on dropping that a container does not run any more.
pub(crate) struct ContainerGuard<'a> {
    run: &'a RunContext,
    container: &'a Arc<MemberContainer>,
}

impl Drop for ContainerGuard<'_> {
    fn drop(&mut self) {
        self.run.lock_containers().retain(|container| !Arc::ptr_eq(container, self.container));
    }
}

/// Who is attached to one graph, in the order of registration.
pub(crate) type RegisteredObservers = Arc<[(u64, Subscription)]>;

/// Who sees the events of a run: fixed when it begins (graph-engine §6).
#[derive(Default)]
pub(crate) struct RunObservers {
    /// Attached to the graphs of the run, by graph.
    graphs: Vec<(Arc<GraphCore>, RegisteredObservers)>,
    /// Passed to the invocation.
    pub(crate) own: Vec<Subscription>,
    /// Whether anybody asks for events about lifecycles.
    pub(crate) wants_lifecycle: bool,
    /// Whether anybody asks for the caller's metadata.
    pub(crate) wants_caller_metadata: bool,
}

impl RunObservers {
    /// Takes down who is attached to a graph and to those inside it.
    pub(crate) fn collect_observers(core: &Arc<GraphCore>, own: Vec<Subscription>) -> Self {
        let mut observers = Self { own, ..Self::default() };
        observers.add_graph_observers(core);
        let attached = observers.graphs.iter().flat_map(|(_, attached)| attached.iter()).map(|(_, it)| it);
        let all: Vec<_> = attached.chain(&observers.own).collect();
        let wants_lifecycle = all.iter().any(|subscription| subscription.lifecycle);
        let wants_caller_metadata = all.iter().any(|subscription| subscription.caller_metadata);
        Self { wants_lifecycle, wants_caller_metadata, ..observers }
    }

    fn add_graph_observers(&mut self, core: &Arc<GraphCore>) {
        let attached = core.attached_observers();
        if !attached.is_empty() {
            self.graphs.push((core.clone(), attached));
        }
        for work in &core.works {
            match work {
                NodeWork::Subgraph(inner) | NodeWork::FanOut(FanOutWork { core: inner, .. }) => {
                    self.add_graph_observers(inner)
                }
                NodeWork::Branches(dispatch) => {
                    dispatch.subgraph_cores().for_each(|core| self.add_graph_observers(core))
                }
                NodeWork::Function(_) => {}
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.graphs.is_empty() && self.own.is_empty()
    }

    /// Returns who sees the events of the outermost graph.
    pub(crate) fn of_invocation(&self, core: &Arc<GraphCore>) -> Arc<[Subscription]> {
        self.observers_attached_to(core).chain(self.own.iter().cloned()).collect()
    }

    pub(crate) fn observers_attached_to(&self, core: &Arc<GraphCore>) -> impl Iterator<Item = Subscription> {
        let found = self.graphs.iter().find(|(it, _)| Arc::ptr_eq(it, core));
        found.into_iter().flat_map(|(_, it)| it.iter().map(|(_, it)| it.clone()))
    }
}

/// One attempt of one execution of one node.
pub(crate) struct NodeAttempt {
    pub(crate) run: Arc<RunContext>,
    pub(crate) level: Arc<GraphLevel>,
    pub(crate) place: NodeLocation,
    pub(crate) step: u64,
    pub(crate) attempt: u32,
    /// The number of the execution on its strand, inside of containers.
    pub(crate) ordinal: u64,
    /// The state that the attempt received.
    pub(crate) state: Snapshot,
    /// The state that the graph has, where a middleware handed another one inwards.
    pub(crate) base: Option<Snapshot>,
    /// How far it is, for a container that could be resolved.
    pub(crate) container: Option<Arc<MemberContainer>>,
    /// How many calls of models and tools it has begun.
    pub(crate) calls: CallNumbers,
    /// Whether the body has returned. Changes under the lock of the run's requests only.
    pub(crate) ended: AtomicBool,
}

impl NodeAttempt {
    /// Asks the driver to suspend; returns only when that could not be recorded.
    pub(crate) async fn request_suspension(self: &Arc<Self>, signal: Signal) -> NodeError {
        let collects = |it: &Arc<Self>| {
            it.container.as_ref().is_some_and(|container| container.error_policy() == ErrorPolicy::Collect)
        };
        // Who asks too late hears of that, as everywhere.
        let in_time = !self.ended.load(Ordering::Relaxed) && !self.run.requests.is_run_over();
        if in_time && self.level.enclosing_containers().iter().any(collects) {
            // An ordinary error would be collected (R28).
            let context = "in a fan-out or branches that collect errors".into();
            return self
                .abort_invocation(Error::SuspensionContext {
                    context,
                    state: Some(self.graph_state().clone()),
                })
                .await;
        }
        self.run.requests.request_suspension(self.clone(), signal).await
    }

    /// Returns the state that the graph has, into which updates are merged.
    pub(crate) fn graph_state(&self) -> &Snapshot {
        self.base.as_ref().unwrap_or(&self.state)
    }

    /// Describes this attempt as the source of events.
    pub(crate) fn event_source(&self) -> EventSource {
        EventSource {
            identity: self.run.who.identity.clone(),
            node_name: self.place.node.clone(),
            namespace: self.place.namespace.clone(),
            step: Some(self.step),
            attempt_index: self.attempt,
            lineage: self.level.lineage.clone(),
        }
    }

    /// Merges an update into the state that the graph has.
    pub(crate) fn merge_update(&self, update: StateUpdate) -> Result<Snapshot, Error> {
        merge_node_update(self.graph_state(), &self.place, update)
    }

    /// Ends the invocation with an error that nobody catches; this attempt and its containers end with it.
    pub(crate) async fn abort_invocation<T>(self: &Arc<Self>, error: Error) -> T {
        let scopes = std::iter::once(self.clone()).chain(self.level.enclosing_containers()).collect();
        self.run.requests.request_abort(AbortRequest { error, scopes }).await
    }

    /// Records a fact of the node execution durably (D7).
    pub(crate) async fn record_fact(&self, name: &str, fact: Item) -> Result<(), Error> {
        let run = &self.run;
        let name = self.level.fact_name_prefix(&self.place.node, self.ordinal) + name;
        if run.port.keeps_steps() {
            run.port.record_fact(&name, fact.clone()).await?;
        }
        run.lock_records().insert(name, fact);
        Ok(())
    }

    /// Returns the facts of the node execution.
    pub(crate) fn recorded_facts(&self) -> BTreeMap<String, Item> {
        let facts = self.level.fact_name_prefix(&self.place.node, self.ordinal);
        let own =
            |(name, fact): (&String, &Item)| Some((name.strip_prefix(&facts)?.to_owned(), fact.clone()));
        self.run.lock_records().iter().filter_map(own).collect()
    }

    /// Describes an error of this attempt that has not left its chain.
    pub(crate) fn describe_node_error(&self, error: &NodeError) -> EventError {
        let (category, message) = match error.as_node_fault().engine_error() {
            Some(engine) if error.is_carried() => (engine.surface_category(), format_error_chain(engine)),
            _ => (
                "node_exception",
                format!("node '{}' failed: {}", self.place.node, format_error_chain(error.as_node_fault())),
            ),
        };
        let derived_category = error.as_node_fault().category().unwrap_or(category).to_owned();
        EventError { category: category.into(), derived_category, message }
    }

    pub(crate) fn report_started(&self) {
        self.dispatch_node_event(AttemptPhase::Started, || (None, None));
    }

    pub(crate) fn report_merged(&self, state: &Snapshot) {
        self.dispatch_node_event(AttemptPhase::Completed, || (Some(AttemptEnd::Merged(state.clone())), None));
    }

    pub(crate) fn report_failed(&self, error: &Error) {
        self.dispatch_node_event(AttemptPhase::Completed, || {
            (Some(AttemptEnd::Failed(describe_graph_error(error))), None)
        });
    }

    pub(crate) fn report_failed_with(&self, error: EventError) {
        self.dispatch_node_event(AttemptPhase::Completed, || (Some(AttemptEnd::Failed(error)), None));
    }

    pub(crate) fn report_suspended(&self, descriptor: &Descriptor) {
        self.dispatch_node_event(AttemptPhase::Suspended, || (None, Some(descriptor.clone())));
    }

    fn dispatch_node_event(
        &self,
        phase: AttemptPhase,
        parts: impl FnOnce() -> (Option<AttemptEnd>, Option<Descriptor>),
    ) {
        let Some(events) = &self.run.events else { return };
        let (end, descriptor) = parts();
        let event = NodeEvent {
            identity: self.run.who.identity.clone(),
            at: self.run.core.env.clock.now(),
            phase,
            node_name: self.place.node.clone(),
            namespace: self.place.namespace.clone(),
            step: self.step,
            pre_state: self.state.clone(),
            end,
            descriptor,
            parent_states: self.level.parents.clone(),
            attempt_index: self.attempt,
            lineage: self.level.lineage.clone(),
            container: self.container.as_ref().map(|container| container.config.clone()),
            caller_invocation_metadata: self.run.observed_metadata(&self.level.metadata),
        };
        events.dispatch_event(GraphEvent::Node(event), self.level.observers.clone());
    }
}

/// Merges the update that a node returned into a state.
pub(crate) fn merge_node_update(
    base: &Snapshot,
    place: &NodeLocation,
    update: StateUpdate,
) -> Result<Snapshot, Error> {
    let merged = catch_panic(|| base.merge_update(update));
    let merged = merged.map_err(|error| NodeError::new(error).into_graph_error(place, base))?;
    merged.map_err(|error| Error::from_merge_fault(error, place, base))
}

/// Describes an error as events carry it.
pub(crate) fn describe_graph_error(error: &Error) -> EventError {
    EventError {
        category: error.surface_category().into(),
        derived_category: error.derived_category().to_owned(),
        message: format_error_chain(error),
    }
}

/// Writes an error with its causes, each once.
#[must_use]
pub fn format_error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
