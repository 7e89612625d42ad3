//! The walk: node after node through one graph (graph-engine §3).
//!
//! Everything that a run does passes through here: a step is numbered, the body runs, its update is merged into the
//! state that the node received, the edge is evaluated on the result, and only then is the completed event dispatched
//! and the step recorded. Subgraphs walk one level deeper, in the same task. Nodes with a chain of middleware, and
//! containers, are executed by `execution` instead.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_durable::BoxFuture;
use singletree_graph::{CursorFrame, FramePosition, Snapshot, StateUpdate, catch_panic};

use super::ambient;
use super::calls::CallNumbers;
use super::checkpoint::EndedExecution;
use super::execution;
use super::fault::NodeError;
use super::graph::{GraphCore, NodeBody, NodeWork};
use super::level::GraphLevel;
use super::lifecycle::ReportedUnit;
use super::panic::catch_future_panic;
use super::scope::{NodeAttempt, RunContext, describe_graph_error, merge_node_update};
use super::suspend::AbortRequest;
use crate::error::{Error, NodeLocation, Result};
use crate::plan::edge::{GraphEdge, Target};
use crate::plan::topology::{TopologyNode, TopologyNodeKind};

/// A graph's frame and state, as a run finds or leaves them.
pub(crate) struct LevelStandpoint {
    pub(crate) frame: CursorFrame,
    pub(crate) state: Snapshot,
}

/// The standpoints of the graphs below one.
pub(crate) type InnerStandpoints = std::vec::IntoIter<LevelStandpoint>;

/// Where a walk begins.
pub(crate) enum WalkStart {
    /// At the entry, with this state.
    Entry(Snapshot),
    /// Where the run stands: this graph's standpoint first, then those below it.
    Standing(InnerStandpoints),
}

impl WalkStart {
    /// Returns the state of the graph that is walked, unless its standpoint is missing.
    pub(crate) fn outermost_state(&self) -> Option<&Snapshot> {
        match self {
            Self::Entry(state) => Some(state),
            Self::Standing(points) => points.as_slice().first().map(|point| &point.state),
        }
    }
}

/// Where a node leads: the state after it and the next node, or none for the end.
pub(crate) type NodeStep = (Snapshot, Option<usize>);

/// Walks one graph to its end and returns its final state.
pub(crate) async fn walk_graph(
    run: &Arc<RunContext>,
    level: Arc<GraphLevel>,
    begin: WalkStart,
) -> Result<Snapshot> {
    let core = level.core.clone();
    let topology = &core.topology;
    let walker = GraphWalker { run, depth: level.depth_in_walk(), level: &level };
    let (mut at, mut state, mut position, mut resumed, mut below) = match begin {
        WalkStart::Entry(state) => (topology.entry, state, FramePosition::Before, None, None),
        WalkStart::Standing(mut frames) => {
            let LevelStandpoint { frame, state } =
                frames.next().ok_or_else(|| missing_node_error("a frame is missing"))?;
            let at = topology.find_node_index(&frame.node).ok_or_else(|| missing_node_error(&frame.node))?;
            (at, state, frame.at, Some(frame.attempt), Some(frames))
        }
    };
    loop {
        let node = &topology.nodes[at];
        let target = match position {
            FramePosition::After => {
                walker.set_graph_position(node, (FramePosition::After, 0), &state);
                walker.choose_next_node(node, &level.node_location(node), &state)?
            }
            FramePosition::Before | FramePosition::Inside => {
                let entered = if position == FramePosition::Inside { below.take() } else { None };
                let (after, target) = match &core.works[at] {
                    NodeWork::Function(body) if core.chains[at].is_empty() => {
                        walker
                            .execute_function_node(node, body, &state, resumed.unwrap_or(level.attempt))
                            .await?
                    }
                    NodeWork::Subgraph(child) if core.chains[at].is_empty() => {
                        walker.enter_subgraph(node, child, &state, entered).await?
                    }
                    NodeWork::Function(_)
                    | NodeWork::Subgraph(_)
                    | NodeWork::FanOut(_)
                    | NodeWork::Branches(_) => {
                        execution::execute_node(&walker, at, &state, (resumed, entered)).await?
                    }
                };
                state = after;
                target
            }
        };
        match target {
            None => return Ok(state),
            Some(next) => (at, position, resumed) = (next, FramePosition::Before, None),
        }
    }
}

/// Walks a graph inside another one's walk: boxed, since it is the same walk again.
pub(crate) fn walk_inner_graph(
    run: &Arc<RunContext>,
    level: Arc<GraphLevel>,
    begin: WalkStart,
) -> BoxFuture<'_, Result<Snapshot>> {
    Box::pin(walk_graph(run, level, begin))
}

fn missing_node_error(node: &str) -> Error {
    Error::Position { reason: format!("there is no node '{node}'") }
}

/// Runs a node's body.
pub(crate) async fn run_node_body(
    run: &RunContext,
    body: &NodeBody,
    scope: &Arc<NodeAttempt>,
) -> std::result::Result<StateUpdate, NodeError> {
    let running = catch_panic(|| body(scope.clone())).map_err(NodeError::new)?;
    let returned = ambient::run_in_node(scope.clone(), catch_future_panic(running)).await;
    if run.requests.settle_returned_node(scope) {
        // The driver stops polling here, and takes the request.
        std::future::pending::<()>().await;
    }
    returned.unwrap_or_else(|panicked| Err(NodeError::new(panicked)))
}

/// The data that the executions of one graph's nodes share.
pub(crate) struct GraphWalker<'a> {
    pub(crate) run: &'a Arc<RunContext>,
    pub(crate) level: &'a Arc<GraphLevel>,
    depth: usize,
}

impl GraphWalker<'_> {
    /// Notes where the graph stands.
    pub(crate) fn set_graph_position(&self, node: &TopologyNode, at: (FramePosition, u32), state: &Snapshot) {
        self.level.strand.set_frame_position(self.depth, &node.name, at, state);
    }

    /// Ends the invocation with an error that nobody catches.
    pub(crate) async fn abort_invocation<T>(&self, error: Error) -> T {
        self.run
            .requests
            .request_abort(AbortRequest { error, scopes: self.level.enclosing_containers() })
            .await
    }

    /// Numbers a node execution.
    pub(crate) async fn take_step_number(&self) -> u64 {
        let may_begin =
            |step| self.run.port.begin_node_execution(!self.level.is_on_main_walk()).map(|()| step);
        let step = match self.run.take_step_number().and_then(may_begin) {
            Ok(step) => step,
            Err(error) => self.abort_invocation(error).await,
        };
        if self.run.port.is_shared()
            && let Err(error) = self.run.port.check_ownership().await
        {
            self.abort_invocation(error).await
        }
        step
    }

    /// Runs a function node without a chain.
    async fn execute_function_node(
        &self,
        node: &TopologyNode,
        body: &NodeBody,
        state: &Snapshot,
        attempt: u32,
    ) -> Result<NodeStep> {
        let run = self.run;
        self.set_graph_position(node, (FramePosition::Before, attempt), state);
        let scope = Arc::new(NodeAttempt {
            run: run.clone(),
            level: self.level.clone(),
            place: self.level.node_location(node),
            step: self.take_step_number().await,
            attempt,
            ordinal: self.level.take_ordinal(),
            state: state.clone(),
            base: None,
            container: None,
            calls: CallNumbers::default(),
            ended: AtomicBool::new(false),
        });
        scope.report_started();
        let ended = run_node_body(run, body, &scope)
            .await
            .map_err(|error| error.into_graph_error(&scope.place, state));
        let led = ended.and_then(|update| {
            let after = scope.merge_update(update)?;
            let target = self.choose_next_node(node, &scope.place, &after)?;
            Ok((after, target))
        });
        let led = match led {
            Ok(led) => led,
            Err(error) => {
                scope.report_failed(&error);
                // A failure is captured, too: a run that fails at its first node has where to go on from.
                self.level.save_checkpoint_or_abort(run, || scope.describe_ended_execution()).await;
                return Err(error);
            }
        };
        scope.report_merged(&led.0);
        self.record_completed_node(node, &led, (|| scope.describe_ended_execution(), scope.ordinal)).await;
        Ok(led)
    }

    /// Notes and records that a node has completed.
    pub(crate) async fn record_completed_node(
        &self,
        node: &TopologyNode,
        (after, target): &NodeStep,
        (ended, ordinal): (impl Fn() -> EndedExecution, u64),
    ) {
        self.set_graph_position(node, (FramePosition::After, 0), after);
        let run = self.run;
        if self.level.saves {
            self.level.strand.add_completed_position(ended().node_position());
        }
        if !self.level.is_on_main_walk() {
            run.settle_completed_member_node(|| self.level.fact_name_prefix(&node.name, ordinal));
            // The last node of a member is recorded together with the member's contribution.
            if target.is_some() || self.depth > 0 {
                self.level.save_checkpoint_or_abort(run, ended).await;
            }
            return;
        }
        run.settle_completed_node();
        self.level.save_checkpoint_or_abort(run, ended).await;
        // The last node of the outermost graph is recorded by the end of the run itself.
        if run.port.keeps_steps()
            && (target.is_some() || self.depth > 0)
            && let Some(progress) = run.capture_progress()
            && let Err(error) = run.port.record_step(progress).await
        {
            self.abort_invocation(error).await
        }
    }

    /// Walks a subgraph without a chain and merges the fields that it projects out. The wrapper itself is no step and
    /// has no events (R23).
    async fn enter_subgraph(
        &self,
        node: &TopologyNode,
        child: &Arc<GraphCore>,
        state: &Snapshot,
        below: Option<InnerStandpoints>,
    ) -> Result<NodeStep> {
        self.set_graph_position(node, (FramePosition::Inside, self.level.attempt), state);
        let level = self.level.subgraph_level(self.run, node, child, state);
        let place = self.level.node_location(node);
        let unit = ReportedUnit::of_subgraph(self.run, self.level, &place, self.level.attempt);
        if let Some(unit) = &unit {
            unit.report_entered(Some(child));
        }
        let update = self.walk_subgraph(node, level, (state, below), &place).await;
        let led = update.and_then(|update| self.merge_and_route(node, &place, state, update));
        if let Some(unit) = &unit {
            unit.report_ended(led.as_ref().err().map(describe_graph_error));
        }
        let (after, target) = led?;
        self.set_graph_position(node, (FramePosition::After, 0), &after);
        Ok((after, target))
    }

    /// Walks a subgraph from its entry with the projected inputs, or from the stored frames. Returns the update that it
    /// projects out.
    pub(crate) async fn walk_subgraph(
        &self,
        node: &TopologyNode,
        level: GraphLevel,
        (state, below): (&Snapshot, Option<InnerStandpoints>),
        place: &NodeLocation,
    ) -> Result<StateUpdate> {
        let TopologyNodeKind::Subgraph { crossing } = &node.kind else {
            unreachable!("work and kind are compiled together")
        };
        let begin = match below {
            Some(frames) => WalkStart::Standing(frames),
            None => {
                let start = crossing.make_start_state(state, &level.core.topology.schema);
                WalkStart::Entry(start.map_err(|source| Error::Validation {
                    place: Some(place.clone()),
                    source,
                    state: Some(state.clone()),
                })?)
            }
        };
        let ended = walk_inner_graph(self.run, Arc::new(level), begin).await?;
        Ok(crossing.make_exit_update(&self.level.core.topology.schema, &ended))
    }

    /// Merges the update of a node into the state that the graph has, and evaluates the edge.
    pub(crate) fn merge_and_route(
        &self,
        node: &TopologyNode,
        place: &NodeLocation,
        state: &Snapshot,
        update: StateUpdate,
    ) -> Result<NodeStep> {
        let after = merge_node_update(state, place, update)?;
        let target = self.choose_next_node(node, place, &after)?;
        Ok((after, target))
    }

    /// Evaluates a node's edge on the state after its update: the next node, or none for the end.
    fn choose_next_node(
        &self,
        node: &TopologyNode,
        place: &NodeLocation,
        state: &Snapshot,
    ) -> Result<Option<usize>> {
        let nowhere =
            |destination| Error::Routing { place: place.clone(), destination, state: state.clone() };
        let failed = |source| Error::Edge { place: place.clone(), source, state: state.clone() };
        let chosen;
        let target = match &node.edge {
            None => return Err(nowhere(None)),
            Some(GraphEdge::Static(target)) => target,
            Some(GraphEdge::Conditional { choose, .. }) => {
                chosen =
                    catch_panic(|| choose(state)).map_err(|error| failed(error.into()))?.map_err(failed)?;
                &chosen
            }
        };
        match target {
            Target::End => Ok(None),
            Target::Node(name) => {
                let next = self.level.core.topology.find_node_index(name);
                next.map(Some).ok_or_else(|| nowhere(Some(name.clone())))
            }
        }
    }
}
