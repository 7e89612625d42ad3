//! Node executions with a chain of middleware around them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::BoxFuture;
use singletree_graph::{FramePosition, NodeLineage, Snapshot, StateUpdate};

use super::attempt::OpenAttempt;
use super::branches::BranchesWork;
use super::calls::CallNumbers;
use super::chain::{ExecutionUnit, Next, UnitContext};
use super::checkpoint::EndedExecution;
use super::container::MemberContainer;
use super::dispatch::{self, BranchesAttempt};
use super::fan::{self, FanOutAttempt};
use super::fan_out::FanOutWork;
use super::fault::NodeError;
use super::graph::{GraphCore, NodeBody, NodeWork};
use super::lifecycle::ReportedUnit;
use super::member::MemberContext;
use super::scope::{NodeAttempt, describe_graph_error};
use super::walk::{GraphWalker, InnerStandpoints, NodeStep, run_node_body};
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
pub(crate) fn execute_node<'a>(
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
        walker.set_graph_position(node, (position, first), state);
        let step = match work {
            NodeWork::Function(_) | NodeWork::FanOut(_) | NodeWork::Branches(_) => {
                Some(walker.take_step_number().await)
            }
            NodeWork::Subgraph(_) => None,
        };
        let seat = UnitContext {
            run: walker.run.clone(),
            level: walker.level.clone(),
            place: walker.level.node_location(node),
            lineage: walker.level.lineage.clone(),
            first,
            resumed: AtomicBool::new(resumed.is_some()),
            last: AtomicU32::new(first),
            within: walker.level.within.clone(),
            open: Arc::new(OpenAttempt::default()),
            metadata: walker.level.metadata.clone(),
        };
        let (below, reached, performed) = (Mutex::new(below), AtomicBool::new(false), AtomicU32::new(first));
        let ordinal = walker.level.take_ordinal();
        let base = state;
        let execution =
            NodeExecutionUnit { walker, node, work, base, step, ordinal, seat, below, reached, performed };
        execution.run_chain(&core.chains[at]).await
    })
}

impl NodeExecutionUnit<'_> {
    async fn run_chain(&self, chain: &[Arc<dyn super::middleware::Middleware>]) -> Result<NodeStep> {
        let (walker, place) = (self.walker, &self.seat.place);
        let returned = Next::begin_chain(chain, self, self.base).run(self.base).await;
        let led = match returned {
            Ok(update) => walker.merge_and_route(self.node, place, self.base, update),
            Err(error) => Err(error.into_graph_error(place, self.base)),
        };
        // An attempt whose end no middleware reported is reported with the outcome of the chain (R5).
        let open = self.seat.open.take_attempt();
        let (after, target) = match led {
            Ok(led) => led,
            Err(error) => {
                if let Some(open) = &open {
                    open.report_failed(&error);
                }
                self.save_failed_attempt().await;
                return Err(error);
            }
        };
        if let Some(open) = &open {
            open.report_merged(&after);
        }
        if self.step.is_none() && !self.reached.load(Ordering::Relaxed) {
            // A subgraph that its chain never enters counts as a step: without one a cycle of them had no bound.
            walker.take_step_number().await;
        }
        let led = (after, target);
        match self.work {
            NodeWork::Subgraph(_) => walker.set_graph_position(self.node, (FramePosition::After, 0), &led.0),
            NodeWork::Function(_) | NodeWork::FanOut(_) | NodeWork::Branches(_) => {
                walker
                    .record_completed_node(
                        self.node,
                        &led,
                        (|| self.describe_ended_execution(), self.ordinal),
                    )
                    .await;
            }
        }
        Ok(led)
    }

    /// Saves that an attempt has failed, if one ran. A fan-out does so while its record is there; a subgraph is no
    /// step.
    async fn save_failed_attempt(&self) {
        if matches!(self.work, NodeWork::Function(_)) && self.reached.load(Ordering::Relaxed) {
            let failed = || EndedExecution {
                attempt: self.performed.load(Ordering::Relaxed),
                ..self.describe_ended_execution()
            };
            self.walker.level.save_checkpoint_or_abort(self.walker.run, failed).await;
        }
    }

    /// Describes the ended execution for a save: its last attempt is the one that counts.
    fn describe_ended_execution(&self) -> EndedExecution {
        let (place, lineage) = (self.seat.place.clone(), self.seat.lineage.clone());
        let attempt = self.seat.last.load(Ordering::Relaxed);
        EndedExecution { place, lineage, step: self.step.unwrap_or_default(), attempt }
    }

    /// Begins an attempt that has events.
    fn make_attempt(&self, state: &Snapshot, attempt: u32) -> NodeAttempt {
        self.walker.set_graph_position(self.node, (FramePosition::Before, attempt), self.base);
        NodeAttempt {
            run: self.walker.run.clone(),
            level: self.walker.level.clone(),
            place: self.seat.place.clone(),
            step: self.step.expect("what has events has a step"),
            attempt,
            ordinal: self.ordinal,
            state: state.clone(),
            base: (!state.is_same_state(self.base)).then(|| self.base.clone()),
            container: None,
            calls: CallNumbers::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Tells that an attempt has begun.
    fn register_started_attempt(&self, scope: NodeAttempt) -> Arc<NodeAttempt> {
        let scope = Arc::new(scope);
        self.seat.open.begin_attempt(&scope);
        scope.report_started();
        scope
    }

    async fn call_function_body(
        &self,
        body: &NodeBody,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let scope = self.register_started_attempt(self.make_attempt(state, attempt));
        run_node_body(self.walker.run, body, &scope).await
    }

    async fn run_fan_out(
        &self,
        fan: &FanOutWork,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let TopologyNodeKind::FanOut { plan } = &self.node.kind else {
            unreachable!("work and kind are compiled together")
        };
        let scope = self.make_attempt(state, attempt);
        let resolved = match fan::resolve_fan_out(plan, state) {
            Ok(resolved) => resolved,
            // A fan-out that could not be resolved has no configuration to report (R22).
            Err(error) => {
                self.register_started_attempt(scope);
                self.walker
                    .level
                    .save_checkpoint_or_abort(self.walker.run, || self.describe_ended_execution())
                    .await;
                return Err(error);
            }
        };
        let run = self.walker.run;
        if let Err(error) = run.core.limits.check_instance_count(resolved.instance_count()) {
            return self.walker.abort_invocation(error).await;
        }
        let container = resolved.make_fan_out_container(plan, self.execution_location());
        if let Err(error) = run.restore_container(&container) {
            // A record that does not fit the graph ends the invocation (pipeline-utilities §10.11).
            return self.walker.abort_invocation(error).await;
        }
        let (scope, container) = self.begin_container_attempt(scope, container);
        let _contained = run.register_container(&container);
        let level = self.walker.level.container_level(self.node, &fan.core, &scope);
        let inside = MemberContext { run, scope: &scope, container: &container };
        let outcome = FanOutAttempt { inside, fan, plan, level }.run_instances(&resolved).await;
        self.save_container_failure(outcome).await
    }

    async fn run_branches(
        &self,
        dispatch: &BranchesWork,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let TopologyNodeKind::Branches { plan } = &self.node.kind else {
            unreachable!("work and kind are compiled together")
        };
        let scope = self.make_attempt(state, attempt);
        let resolved = dispatch::resolve_dispatched_branches(plan, state);
        // When a condition fails, no branch is dispatched; events still carry the declared branches (graph-engine §6).
        let numbers = resolved.as_deref().unwrap_or_default();
        let (scope, container) = self.begin_container_attempt(
            scope,
            dispatch::make_branches_container(plan, numbers, self.execution_location()),
        );
        let dispatched = match resolved {
            Ok(dispatched) => dispatched,
            Err(error) => return self.save_container_failure(Err(error)).await,
        };
        let run = self.walker.run;
        let _contained = run.register_container(&container);
        let inside = MemberContext { run, scope: &scope, container: &container };
        let dispatching =
            BranchesAttempt { inside, node: self.node, dispatch, plan, dispatched: &dispatched };
        let outcome = dispatching.run_branches().await;
        self.save_container_failure(outcome).await
    }

    /// Saves that an attempt of a container has failed, while the contributions of its members are still held.
    async fn save_container_failure<T>(
        &self,
        outcome: std::result::Result<T, NodeError>,
    ) -> std::result::Result<T, NodeError> {
        if outcome.is_err() {
            self.walker
                .level
                .save_checkpoint_or_abort(self.walker.run, || self.describe_ended_execution())
                .await;
        }
        outcome
    }

    /// Which execution of which node it is.
    fn execution_location(&self) -> (NodeLocation, NodeLineage, u64) {
        (self.seat.place.clone(), self.seat.lineage.clone(), self.ordinal)
    }

    /// Tells that an attempt of a container has begun.
    fn begin_container_attempt(
        &self,
        mut scope: NodeAttempt,
        container: MemberContainer,
    ) -> (Arc<NodeAttempt>, Arc<MemberContainer>) {
        let container = Arc::new(container);
        scope.container = Some(container.clone());
        (self.register_started_attempt(scope), container)
    }

    async fn enter_subgraph(
        &self,
        child: &Arc<GraphCore>,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<StateUpdate, NodeError> {
        let walker = self.walker;
        walker.set_graph_position(self.node, (FramePosition::Inside, attempt), self.base);
        let mut level = walker.level.subgraph_level(walker.run, self.node, child, self.base);
        level.attempt = attempt;
        let below = self.below.lock().unwrap_or_else(PoisonError::into_inner).take();
        let unit = ReportedUnit::of_subgraph(walker.run, walker.level, &self.seat.place, attempt);
        if let Some(unit) = &unit {
            unit.report_entered(Some(child));
        }
        let ended = walker.walk_subgraph(self.node, level, (state, below), &self.seat.place).await;
        if let Some(unit) = &unit {
            unit.report_ended(ended.as_ref().err().map(describe_graph_error));
        }
        ended.map_err(NodeError::from_engine_error)
    }
}

impl ExecutionUnit for NodeExecutionUnit<'_> {
    fn perform_attempt<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: u32,
    ) -> BoxFuture<'a, std::result::Result<StateUpdate, NodeError>> {
        let again = self.reached.swap(true, Ordering::Relaxed);
        Box::pin(async move {
            if again {
                self.save_failed_attempt().await;
            }
            self.performed.store(attempt, Ordering::Relaxed);
            let outcome = match self.work {
                NodeWork::Function(body) => self.call_function_body(body, state, attempt).await,
                NodeWork::Subgraph(child) => self.enter_subgraph(child, state, attempt).await,
                NodeWork::FanOut(fan) => self.run_fan_out(fan, state, attempt).await,
                NodeWork::Branches(branches) => self.run_branches(branches, state, attempt).await,
            };
            self.seat.open.record_outcome(&outcome);
            outcome
        })
    }

    fn settle_attempt(&self) {
        self.seat.open.settle_attempt();
    }

    fn unit_context(&self) -> &UnitContext {
        &self.seat
    }
}
