//! Reports of the lifecycle of an invocation and of its inner runs, for observers that ask for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use singletree_graph::{LineageBoundary, NodeLineage, Snapshot};

use super::ambient::CurrentInvocation;
use super::event::{EventError, GraphEvent};
use super::graph::GraphCore;
use super::level::GraphLevel;
use super::lifecycle_event::{InvocationChange, InvocationEvent, UnitChange, UnitEvent};
use super::metadata::MetadataScope;
use super::observe::Subscription;
use super::outcome::RunOutcome;
use super::queue::EventQueue;
use super::scope::{RunContext, RunObservers, describe_graph_error};
use crate::error::{Error, NodeLocation, Result};

impl GraphCore {
    /// Returns the name of the entry node.
    pub(crate) fn entry_name(&self) -> &Arc<str> {
        &self.topology.nodes[self.topology.entry].name
    }
}

/// An inner run whose lifecycle is reported.
pub(crate) struct ReportedUnit<'a> {
    pub(crate) run: &'a RunContext,
    pub(crate) observers: &'a Arc<[Subscription]>,
    pub(crate) place: &'a NodeLocation,
    /// The boundaries to the inner run, its own last.
    pub(crate) lineage: NodeLineage,
    pub(crate) attempt: u32,
    pub(crate) metadata: &'a MetadataScope,
}

impl<'a> ReportedUnit<'a> {
    /// Describes the run of a plain subgraph, where somebody observes lifecycles.
    pub(crate) fn of_subgraph(
        run: &'a RunContext,
        level: &'a GraphLevel,
        place: &'a NodeLocation,
        attempt: u32,
    ) -> Option<Self> {
        run.lifecycle_outlet()?;
        let lineage = level.lineage.with_inner_boundary(LineageBoundary::Subgraph);
        let (observers, metadata) = (&level.observers, &level.metadata);
        Some(Self { run, observers, place, lineage, attempt, metadata })
    }

    pub(crate) fn report_entered(&self, core: Option<&GraphCore>) {
        self.report_change(UnitChange::Entered {
            graph_name: core.and_then(|core| core.name.clone()),
            entry_node: core.map(|core| core.entry_name().clone()),
        });
    }

    pub(crate) fn report_ended(&self, failed: Option<EventError>) {
        self.report_change(failed.map_or(UnitChange::Completed, UnitChange::Failed));
    }

    fn report_change(&self, change: UnitChange) {
        let Some(events) = self.run.lifecycle_outlet() else { return };
        let event = UnitEvent {
            identity: self.run.who.identity.clone(),
            at: self.run.core.env.clock.now(),
            node_name: self.place.node.clone(),
            namespace: self.place.namespace.clone(),
            lineage: self.lineage.clone(),
            attempt_index: self.attempt,
            step: self.run.next_step.load(Ordering::Relaxed),
            caller_invocation_metadata: self.run.observed_metadata(self.metadata),
            change,
        };
        events.dispatch_event(GraphEvent::Unit(event), self.observers.clone());
    }
}

impl RunContext {
    /// Reports that the invocation begins.
    pub(crate) fn report_begun(&self, state: Option<&Snapshot>, resumed: bool) {
        let label = self.label.clone();
        self.report_invocation(|| started(&self.core, (label, resumed), state.cloned()));
    }

    /// Reports how the invocation ended.
    pub(crate) fn report_outcome(&self, outcome: &Result<RunOutcome<Snapshot>>) {
        self.report_invocation(|| match outcome {
            Ok(RunOutcome::Completed(run)) => InvocationChange::Completed(run.state.clone()),
            Ok(RunOutcome::Suspended(run)) => InvocationChange::Suspended(run.descriptor.clone()),
            Err(error) => failed(error),
        });
    }

    fn report_invocation(&self, change: impl FnOnce() -> InvocationChange) {
        let Some(events) = self.lifecycle_outlet() else { return };
        let event = InvocationEvent {
            identity: self.who.identity.clone(),
            at: self.core.env.clock.now(),
            caller_invocation_metadata: self.observed_metadata(&self.metadata),
            change: change(),
        };
        events.dispatch_event(GraphEvent::Invocation(event), self.observers.of_invocation(&self.core));
    }
}

/// Reports an invocation that failed before anything of it ran.
pub(crate) fn report_failed_start(
    core: &Arc<GraphCore>,
    (own, label): (Vec<Subscription>, Option<Arc<str>>),
    who: CurrentInvocation,
    error: &Error,
) {
    let observers = RunObservers::collect_observers(core, own);
    if !observers.wants_lifecycle {
        return;
    }
    let (all, at) = (observers.of_invocation(core), core.env.clock.now());
    let metadata = observers.wants_caller_metadata.then(|| who.metadata.clone());
    let identity = who.identity.clone();
    let queue = EventQueue::start_with_worker(
        who,
        core.limits.observer_backlog,
        core.env.clone(),
        core.on_mishap.clone(),
    );
    core.track_backlog(queue.event_backlog());
    for change in [started(core, (label, false), None), failed(error)] {
        let (identity, caller_invocation_metadata) = (identity.clone(), metadata.clone());
        let event = InvocationEvent { identity, at, caller_invocation_metadata, change };
        queue.dispatch_event(GraphEvent::Invocation(event), all.clone());
    }
    queue.close_queue();
}

fn started(
    core: &GraphCore,
    (label, resumed): (Option<Arc<str>>, bool),
    state: Option<Snapshot>,
) -> InvocationChange {
    InvocationChange::Started { entry_node: core.entry_name().clone(), label, resumed, state }
}

fn failed(error: &Error) -> InvocationChange {
    InvocationChange::Failed {
        error: describe_graph_error(error),
        at_boundary: error.node_location().is_none(),
        state: error.recoverable_state().cloned(),
    }
}
