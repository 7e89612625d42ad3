//! The walk: node after node through one graph (graph-engine §3).
//!
//! Everything that a run does passes through here: a step is numbered, the body runs, its update is merged into the
//! state that the node received, the edge is evaluated on the result, and only then is the completed event dispatched
//! and the step recorded. Subgraphs walk one level deeper, in the same task. Nodes with a chain of middleware, and
//! containers, are executed by `execution` instead.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_durable::BoxFuture;
use singletree_graph::{CursorFrame, FramePosition, Snapshot, StateUpdate, caught};

use super::ambient;
use super::checkpoint::EndedExecution;
use super::execution;
use super::fault::NodeError;
use super::graph::{GraphCore, NodeBody, NodeWork};
use super::level::GraphLevel;
use super::panic::caught_future;
use super::scope::{NodeAttempt, RunContext, merge_into};
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

/// Where a node leads: the state after it and the next node, or none for the end.
pub(crate) type NodeStep = (Snapshot, Option<usize>);

/// Walks one graph to its end and returns its final state.
pub(crate) async fn walk(
    run: &Arc<RunContext>,
    level: Arc<GraphLevel>,
    begin: WalkStart,
) -> Result<Snapshot> {
    let core = level.core.clone();
    let topology = &core.topology;
    let walker = GraphWalker { run, depth: level.depth(), level: &level };
    let (mut at, mut state, mut position, mut resumed, mut below) = match begin {
        WalkStart::Entry(state) => (topology.entry, state, FramePosition::Before, None, None),
        WalkStart::Standing(mut frames) => {
            let LevelStandpoint { frame, state } =
                frames.next().ok_or_else(|| no_node("a frame is missing"))?;
            let at = topology.index(&frame.node).ok_or_else(|| no_node(&frame.node))?;
            (at, state, frame.at, Some(frame.attempt), Some(frames))
        }
    };
    loop {
        let node = &topology.nodes[at];
        let target = match position {
            FramePosition::After => {
                walker.stand(node, (FramePosition::After, 0), &state);
                walker.route(node, &level.place(node), &state)?
            }
            FramePosition::Before | FramePosition::Inside => {
                let entered = if position == FramePosition::Inside { below.take() } else { None };
                let (after, target) = match &core.works[at] {
                    NodeWork::Function(body) if core.chains[at].is_empty() => {
                        walker.execute(node, body, &state, resumed.unwrap_or(level.attempt)).await?
                    }
                    NodeWork::Subgraph(child) if core.chains[at].is_empty() => {
                        walker.enter(node, child, &state, entered).await?
                    }
                    NodeWork::Function(_)
                    | NodeWork::Subgraph(_)
                    | NodeWork::FanOut(_)
                    | NodeWork::Branches(_) => {
                        execution::execute(&walker, at, &state, (resumed, entered)).await?
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
pub(crate) fn walk_below(
    run: &Arc<RunContext>,
    level: Arc<GraphLevel>,
    begin: WalkStart,
) -> BoxFuture<'_, Result<Snapshot>> {
    Box::pin(walk(run, level, begin))
}

fn no_node(node: &str) -> Error {
    Error::Position { reason: format!("there is no node '{node}'") }
}

/// Runs a node's body.
pub(crate) async fn run_body(
    run: &RunContext,
    body: &NodeBody,
    scope: &Arc<NodeAttempt>,
) -> std::result::Result<StateUpdate, NodeError> {
    let running = caught(|| body(scope.clone())).map_err(NodeError::new)?;
    let returned = ambient::within_node(scope.clone(), caught_future(running)).await;
    if run.requests.settle(scope) {
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
    pub(crate) fn stand(&self, node: &TopologyNode, at: (FramePosition, u32), state: &Snapshot) {
        self.level.strand.stand(self.depth, &node.name, at, state);
    }

    /// Ends the invocation with an error that nobody catches.
    pub(crate) async fn abort<T>(&self, error: Error) -> T {
        self.run.requests.abort(AbortRequest { error, scopes: self.level.containers() }).await
    }

    /// Numbers a node execution.
    pub(crate) async fn take_step(&self) -> u64 {
        let may_begin = |step| self.run.port.begin(!self.level.is_main()).map(|()| step);
        match self.run.take_step().and_then(may_begin) {
            Ok(step) => step,
            Err(error) => self.abort(error).await,
        }
    }

    /// Runs a function node without a chain.
    async fn execute(
        &self,
        node: &TopologyNode,
        body: &NodeBody,
        state: &Snapshot,
        attempt: u32,
    ) -> Result<NodeStep> {
        let run = self.run;
        self.stand(node, (FramePosition::Before, attempt), state);
        let scope = Arc::new(NodeAttempt {
            run: run.clone(),
            level: self.level.clone(),
            place: self.level.place(node),
            step: self.take_step().await,
            attempt,
            ordinal: self.level.ordinal(),
            state: state.clone(),
            base: None,
            container: None,
            ended: AtomicBool::new(false),
        });
        scope.started();
        let ended = run_body(run, body, &scope).await.map_err(|error| error.leave(&scope.place, state));
        let led = ended.and_then(|update| {
            let after = scope.merge(update)?;
            let target = self.route(node, &scope.place, &after)?;
            Ok((after, target))
        });
        let led = match led {
            Ok(led) => led,
            Err(error) => {
                scope.failed(&error);
                // A failure is captured, too: a run that fails at its first node has where to go on from.
                self.level.checkpoint(run, || scope.over()).await;
                return Err(error);
            }
        };
        scope.merged(&led.0);
        self.completed(node, &led, (|| scope.over(), scope.ordinal)).await;
        Ok(led)
    }

    /// Notes and records that a node has completed.
    pub(crate) async fn completed(
        &self,
        node: &TopologyNode,
        (after, target): &NodeStep,
        (ended, ordinal): (impl Fn() -> EndedExecution, u64),
    ) {
        self.stand(node, (FramePosition::After, 0), after);
        let run = self.run;
        if self.level.saves {
            self.level.strand.complete(ended().position());
        }
        if !self.level.is_main() {
            run.member_node_completed(|| self.level.facts(&node.name, ordinal));
            // The last node of a member is recorded together with the member's contribution.
            if target.is_some() || self.depth > 0 {
                self.level.checkpoint(run, ended).await;
            }
            return;
        }
        run.node_completed();
        self.level.checkpoint(run, ended).await;
        // The last node of the outermost graph is recorded by the end of the run itself.
        if run.port.keeps_steps()
            && (target.is_some() || self.depth > 0)
            && let Some(progress) = run.progress()
            && let Err(error) = run.port.step(progress).await
        {
            self.abort(error).await
        }
    }

    /// Walks a subgraph without a chain and merges the fields that it projects out. The wrapper itself is no step and
    /// has no events (R23).
    async fn enter(
        &self,
        node: &TopologyNode,
        child: &Arc<GraphCore>,
        state: &Snapshot,
        below: Option<InnerStandpoints>,
    ) -> Result<NodeStep> {
        self.stand(node, (FramePosition::Inside, self.level.attempt), state);
        let level = self.level.below(self.run, node, child, state);
        let place = self.level.place(node);
        let update = self.walk_subgraph(node, level, (state, below), &place).await?;
        let (after, target) = self.merge(node, &place, state, update)?;
        self.stand(node, (FramePosition::After, 0), &after);
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
                let start = crossing.enter(state, &level.core.topology.schema);
                WalkStart::Entry(start.map_err(|source| Error::Validation {
                    place: Some(place.clone()),
                    source,
                    state: Some(state.clone()),
                })?)
            }
        };
        let ended = walk_below(self.run, Arc::new(level), begin).await?;
        Ok(crossing.leave(&self.level.core.topology.schema, &ended))
    }

    /// Merges the update of a node into the state that the graph has, and evaluates the edge.
    pub(crate) fn merge(
        &self,
        node: &TopologyNode,
        place: &NodeLocation,
        state: &Snapshot,
        update: StateUpdate,
    ) -> Result<NodeStep> {
        let after = merge_into(state, place, update)?;
        let target = self.route(node, place, &after)?;
        Ok((after, target))
    }

    /// Evaluates a node's edge on the state after its update: the next node, or none for the end.
    fn route(&self, node: &TopologyNode, place: &NodeLocation, state: &Snapshot) -> Result<Option<usize>> {
        let nowhere =
            |destination| Error::Routing { place: place.clone(), destination, state: state.clone() };
        let failed = |source| Error::Edge { place: place.clone(), source, state: state.clone() };
        let chosen;
        let target = match &node.edge {
            None => return Err(nowhere(None)),
            Some(GraphEdge::Static(target)) => target,
            Some(GraphEdge::Conditional { choose, .. }) => {
                chosen = caught(|| choose(state)).map_err(|error| failed(error.into()))?.map_err(failed)?;
                &chosen
            }
        };
        match target {
            Target::End => Ok(None),
            Target::Node(name) => {
                let next = self.level.core.topology.index(name);
                next.map(Some).ok_or_else(|| nowhere(Some(name.clone())))
            }
        }
    }
}
