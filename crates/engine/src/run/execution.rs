//! Node executions with a chain of middleware around them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::BoxFuture;
use singletree_graph::{FramePosition, NodeLineage, Snapshot, StateUpdate};

use super::attempt::OpenAttempt;
use super::branches::BranchesWork;
use super::chain::{ExecutionUnit, Next, UnitContext};
use super::checkpoint::EndedExecution;
use super::container::MemberContainer;
use super::dispatch::{self, BranchesAttempt};
use super::fan::{self, FanOutAttempt};
use super::fan_out::FanOutWork;
use super::fault::NodeError;
use super::graph::{GraphCore, NodeBody, NodeWork};
use super::member::MemberContext;
use super::scope::NodeAttempt;
use super::walk::{GraphWalker, InnerStandpoints, NodeStep, run_body};
use crate::error::{NodeLocation, Result};
use crate::plan::topology::{TopologyNode, TopologyNodeKind};

/// One execution of one node of any kind: the unit that the node's chain surrounds.
struct NodeExecutionUnit<'a> {
    walker: &'a GraphWalker<'a>,
    node: &'a TopologyNode,
    work: &'a NodeWork,
    /// The state that the graph has.
    base: &'a Snapshot,
    /// The number of the execution; a plain subgraph has none (R23).
    step: Option<u64>,
    ordinal: u64,
    seat: UnitContext,
    /// Where a subgraph stands that is gone on with; the first attempt takes it.
    below: Mutex<Option<InnerStandpoints>>,
    /// Whether the chain has reached the unit.
    reached: AtomicBool,
    /// The attempt under which it did last.
    performed: AtomicU32,
}

/// Executes a node with its chain: its attempts, then one merge and one edge.
pub(crate) fn execute<'a>(
    walker: &'a GraphWalker<'a>,
    at: usize,
    state: &'a Snapshot,
    (resumed, below): (Option<u32>, Option<InnerStandpoints>),
) -> BoxFuture<'a, Result<NodeStep>> {
    Box::pin(async move {
        let core = &walker.level.core;
        let (node, work) = (&core.topology.nodes[at], &core.works[at]);
        let first = resumed.unwrap_or(walker.level.attempt);
        let position = if below.is_some() { FramePosition::Inside } else { FramePosition::Before };
        walker.stand(node, (position, first), state);
        let step = match work {
            NodeWork::Function(_) | NodeWork::FanOut(_) | NodeWork::Branches(_) => {
                Some(walker.take_step().await)
            }
            NodeWork::Subgraph(_) => None,
        };
        let seat = UnitContext {
            run: walker.run.clone(),
            level: walker.level.clone(),
            place: walker.level.place(node),
            lineage: walker.level.lineage.clone(),
            first,
            resumed: AtomicBool::new(resumed.is_some()),
            last: AtomicU32::new(first),
            within: walker.level.within.clone(),
            open: Arc::new(OpenAttempt::default()),
        };
        let (below, reached, performed) = (Mutex::new(below), AtomicBool::new(false), AtomicU32::new(first));
        let ordinal = walker.level.ordinal();
        let base = state;
        let execution =
            NodeExecutionUnit { walker, node, work, base, step, ordinal, seat, below, reached, performed };
        execution.run(&core.chains[at]).await
    })
}

impl NodeExecutionUnit<'_> {
    async fn run(&self, chain: &[Arc<dyn super::middleware::Middleware>]) -> Result<NodeStep> {
        let (walker, place) = (self.walker, &self.seat.place);
        let returned = Next::outermost(chain, self, self.base).run(self.base).await;
        let led = match returned {
            Ok(update) => walker.merge(self.node, place, self.base, update),
            Err(error) => Err(error.leave(place, self.base)),
        };
        // An attempt whose end no middleware reported is reported with the outcome of the chain (R5).
        let open = self.seat.open.take();
        let (after, target) = match led {
            Ok(led) => led,
            Err(error) => {
                if let Some(open) = &open {
                    open.failed(&error);
                }
                self.captured().await;
                return Err(error);
            }
        };
        if let Some(open) = &open {
            open.merged(&after);
        }
        if self.step.is_none() && !self.reached.load(Ordering::Relaxed) {
            // A subgraph that its chain never enters counts as a step: without one a cycle of them had no bound.
            walker.take_step().await;
        }
        let led = (after, target);
        match self.work {
            NodeWork::Subgraph(_) => walker.stand(self.node, (FramePosition::After, 0), &led.0),
            NodeWork::Function(_) | NodeWork::FanOut(_) | NodeWork::Branches(_) => {
                walker.completed(self.node, &led, (|| self.over(), self.ordinal)).await;
            }
        }
        Ok(led)
    }

    /// Saves that an attempt has failed, if one ran. A fan-out does so while its record is there; a subgraph is no
    /// step.
    async fn captured(&self) {
        if matches!(self.work, NodeWork::Function(_)) && self.reached.load(Ordering::Relaxed) {
            let failed = || EndedExecution { attempt: self.performed.load(Ordering::Relaxed), ..self.over() };
            self.walker.level.checkpoint(self.walker.run, failed).await;
        }
    }

    /// Describes the ended execution for a save: its last attempt is the one that counts.
    fn over(&self) -> EndedExecution {
        let (place, lineage) = (self.seat.place.clone(), self.seat.lineage.clone());
        let attempt = self.seat.last.load(Ordering::Relaxed);
        EndedExecution { place, lineage, step: self.step.unwrap_or_default(), attempt }
    }

    /// Begins an attempt that has events.
    fn begin(&self, state: &Snapshot, attempt: u32) -> NodeAttempt {
        self.walker.stand(self.node, (FramePosition::Before, attempt), self.base);
        NodeAttempt {
            run: self.walker.run.clone(),
            level: self.walker.level.clone(),
            place: self.seat.place.clone(),
            step: self.step.expect("what has events has a step"),
            attempt,
            ordinal: self.ordinal,
            state: state.clone(),
            base: (!state.same(self.base)).then(|| self.base.clone()),
            container: None,
            ended: AtomicBool::new(false),
        }
    }

    /// Tells that an attempt has begun.
    fn started(&self, scope: NodeAttempt) -> Arc<NodeAttempt> {
        let scope = Arc::new(scope);
        self.seat.open.begin(&scope);
        scope.started();
        scope
    }

    async fn call(
        &self,
        body: &NodeBody,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let scope = self.started(self.begin(state, attempt));
        run_body(self.walker.run, body, &scope).await
    }

    async fn fan_out(
        &self,
        fan: &FanOutWork,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let TopologyNodeKind::FanOut { plan } = &self.node.kind else {
            unreachable!("work and kind are compiled together")
        };
        let scope = self.begin(state, attempt);
        let resolved = match fan::resolve(plan, state) {
            Ok(resolved) => resolved,
            // A fan-out that could not be resolved has no configuration to report (R22).
            Err(error) => {
                self.started(scope);
                self.walker.level.checkpoint(self.walker.run, || self.over()).await;
                return Err(error);
            }
        };
        let run = self.walker.run;
        if let Err(error) = run.core.limits.check_instances(resolved.count()) {
            return self.walker.abort(error).await;
        }
        let container = resolved.container(plan, self.at());
        if let Err(error) = run.restore(&container) {
            // A record that does not fit the graph ends the invocation (pipeline-utilities §10.11).
            return self.walker.abort(error).await;
        }
        let (scope, container) = self.contain(scope, container);
        let _contained = run.contains(&container);
        let level = self.walker.level.inside(self.node, &fan.core, &scope);
        let inside = MemberContext { run, scope: &scope, container: &container };
        let outcome = FanOutAttempt { inside, fan, plan, level }.run(&resolved).await;
        self.ended(outcome).await
    }

    async fn dispatch(
        &self,
        dispatch: &BranchesWork,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let TopologyNodeKind::Branches { plan } = &self.node.kind else {
            unreachable!("work and kind are compiled together")
        };
        let scope = self.begin(state, attempt);
        let resolved = dispatch::resolve(plan, state);
        // When a condition fails, no branch is dispatched; events still carry the declared branches (graph-engine §6).
        let numbers = resolved.as_deref().unwrap_or_default();
        let (scope, container) = self.contain(scope, dispatch::container(plan, numbers, self.at()));
        let dispatched = match resolved {
            Ok(dispatched) => dispatched,
            Err(error) => return self.ended(Err(error)).await,
        };
        let run = self.walker.run;
        let _contained = run.contains(&container);
        let inside = MemberContext { run, scope: &scope, container: &container };
        let dispatching =
            BranchesAttempt { inside, node: self.node, dispatch, plan, dispatched: &dispatched };
        let outcome = dispatching.run().await;
        self.ended(outcome).await
    }

    /// Saves that an attempt of a container has failed, while the contributions of its members are still held.
    async fn ended<T>(
        &self,
        outcome: std::result::Result<T, NodeError>,
    ) -> std::result::Result<T, NodeError> {
        if outcome.is_err() {
            self.walker.level.checkpoint(self.walker.run, || self.over()).await;
        }
        outcome
    }

    /// Which execution of which node it is.
    fn at(&self) -> (NodeLocation, NodeLineage, u64) {
        (self.seat.place.clone(), self.seat.lineage.clone(), self.ordinal)
    }

    /// Tells that an attempt of a container has begun.
    fn contain(
        &self,
        mut scope: NodeAttempt,
        container: MemberContainer,
    ) -> (Arc<NodeAttempt>, Arc<MemberContainer>) {
        let container = Arc::new(container);
        scope.container = Some(container.clone());
        (self.started(scope), container)
    }

    async fn enter(
        &self,
        child: &Arc<GraphCore>,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let walker = self.walker;
        walker.stand(self.node, (FramePosition::Inside, attempt), self.base);
        let mut level = walker.level.below(walker.run, self.node, child, self.base);
        level.attempt = attempt;
        let below = self.below.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = walker.walk_subgraph(self.node, level, (state, below), &self.seat.place).await;
        ended.map_err(NodeError::carry)
    }
}

impl ExecutionUnit for NodeExecutionUnit<'_> {
    fn perform<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: u32,
    ) -> BoxFuture<'a, std::result::Result<StateUpdate, NodeError>> {
        let again = self.reached.swap(true, Ordering::Relaxed);
        Box::pin(async move {
            if again {
                self.captured().await;
            }
            self.performed.store(attempt, Ordering::Relaxed);
            let outcome = match self.work {
                NodeWork::Function(body) => self.call(body, state, attempt).await,
                NodeWork::Subgraph(child) => self.enter(child, state, attempt).await,
                NodeWork::FanOut(fan) => self.fan_out(fan, state, attempt).await,
                NodeWork::Branches(branches) => self.dispatch(branches, state, attempt).await,
            };
            self.seat.open.ended(&outcome);
            outcome
        })
    }

    fn settle(&self) {
        self.seat.open.settle();
    }

    fn seat(&self) -> &UnitContext {
        &self.seat
    }
}
