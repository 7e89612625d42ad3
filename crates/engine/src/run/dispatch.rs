//! Running parallel branches (pipeline-utilities §11).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_durable::BoxFuture;
use singletree_graph::{FramePosition, LineageBoundary, NodeLineage, Snapshot, StateUpdate};

use super::attempt::OpenAttempt;
use super::branches::{BranchBody, BranchWork, BranchesWork};
use super::calls::CallNumbers;
use super::container::{
    ContainerMember, FanIn, MemberContainer, MemberStage, collect_failure_records, iter_contributions,
};
use super::event::{BranchesConfig, ContainerConfig};
use super::fault::NodeError;
use super::graph::{GraphCore, NodeBody};
use super::level::GraphLevel;
use super::lifecycle::ReportedUnit;
use super::member::{MemberContext, MemberWork};
use super::members::MemberSet;
use super::metadata::MetadataScope;
use super::panic::call_state_function;
use super::scope::{NodeAttempt, merge_node_update};
use super::walk::run_node_body;
use crate::error::{Error, NodeLocation};
use crate::plan::branches::{BranchPlan, BranchesPlan};
use crate::plan::topology::TopologyNode;

/// Decides which branches are dispatched, by their numbers: each condition is called once, in the order of declaration.
///
/// # Errors
/// The error of a condition.
pub(crate) fn resolve_dispatched_branches(
    plan: &BranchesPlan,
    state: &Snapshot,
) -> Result<Vec<usize>, NodeError> {
    let mut dispatched = Vec::with_capacity(plan.branches.len());
    for (number, branch) in plan.branches.iter().enumerate() {
        if branch.when.as_ref().map_or(Ok(true), |when| call_state_function(when, state))? {
            dispatched.push(number);
        }
    }
    Ok(dispatched)
}

/// Makes the record of one attempt, whose members are the dispatched branches.
pub(crate) fn make_branches_container(
    plan: &Arc<BranchesPlan>,
    dispatched: &[usize],
    at: (NodeLocation, NodeLineage, u64),
) -> MemberContainer {
    let config = BranchesConfig {
        branch_names: plan.names.clone(),
        branch_count: dispatched.len() as u64,
        error_policy: plan.error_policy,
        parent_node_name: at.0.node.clone(),
    };
    let members: Vec<_> =
        dispatched.iter().map(|it| LineageBoundary::Branch(plan.branches[*it].name.clone())).collect();
    let (plan, numbers) = (plan.clone(), dispatched.to_vec());
    let fan_in: FanIn = Box::new(move |members: &[ContainerMember]| {
        let contributed: Vec<_> =
            iter_contributions(members).map(|(at, update)| (numbers[at], update)).collect();
        Ok(plan.combine_contributions(&contributed, collect_failure_records(members)))
    });
    MemberContainer::new(ContainerConfig::Branches(Arc::new(config)), at, members, fan_in)
}

/// One attempt of a node that dispatches branches.
pub(crate) struct BranchesAttempt<'a> {
    pub(crate) inside: MemberContext<'a>,
    pub(crate) node: &'a TopologyNode,
    pub(crate) dispatch: &'a BranchesWork,
    pub(crate) plan: &'a BranchesPlan,
    /// The numbers of the branches that are dispatched.
    pub(crate) dispatched: &'a [usize],
}

impl BranchesAttempt<'_> {
    /// Runs the dispatched branches and combines their contributions.
    pub(crate) async fn run_branches(&self) -> Result<StateUpdate, NodeError> {
        let MemberContext { run, container, scope } = self.inside;
        let count = self.dispatched.len() as u64;
        let members = MemberSet { run, container, saves: None, count, limit: usize::MAX };
        let record = |index, error: &NodeError| {
            (self.dispatch.record)(&self.branch_plan_and_work(index).0.name, error)
        };
        match members.run_members(|index| self.run_branch(index), record).await? {
            Some((index, error)) => {
                let (place, branch) = (scope.place.clone(), self.branch_plan_and_work(index).0.name.clone());
                let (source, state) = (Box::new(error.into_fault()), scope.graph_state().clone());
                Err(NodeError::from_engine_error(Error::Branch { place, branch, source, state }))
            }
            None => container.combine_contributions(),
        }
    }

    /// Returns a member's plan and work.
    fn branch_plan_and_work(&self, index: u64) -> (&BranchPlan, &BranchWork) {
        let at = usize::try_from(index).expect("members are held in memory");
        let number = self.dispatched[at];
        (&self.plan.branches[number], &self.dispatch.branches[number])
    }

    /// One branch with its chain.
    fn run_branch(&self, index: u64) -> BoxFuture<'_, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let (plan, work) = self.branch_plan_and_work(index);
            let start = self.inside.make_start_state(|state| plan.make_start_state(state))?;
            match &work.doing {
                BranchBody::Subgraph(core) => self.run_subgraph_branch(index, core, &start).await,
                BranchBody::Call(body) => self.run_function_branch(index, body, &start).await,
            }
        })
    }

    fn branch_lineage(&self, plan: &BranchPlan) -> NodeLineage {
        self.inside.scope.level.lineage.with_inner_boundary(LineageBoundary::Branch(plan.name.clone()))
    }

    /// A branch that is a graph.
    async fn run_subgraph_branch(
        &self,
        index: u64,
        core: &Arc<GraphCore>,
        start: &Snapshot,
    ) -> Result<StateUpdate, NodeError> {
        let (plan, work) = self.branch_plan_and_work(index);
        let (inside, lineage) = (self.inside, self.branch_lineage(plan));
        let level = inside.scope.level.container_level(self.node, core, inside.scope);
        let walking = SubgraphBranch { inside, plan, index, level, lineage: lineage.clone() };
        inside.run_with_chain(&work.chain, (lineage, Arc::default()), start, &walking).await
    }

    /// A branch that is a function: one node execution of its own (graph-engine §6), whose update is merged with the
    /// others'. That it can be merged is seen here, where the failure is the branch's.
    async fn run_function_branch(
        &self,
        index: u64,
        body: &NodeBody,
        start: &Snapshot,
    ) -> Result<StateUpdate, NodeError> {
        let (plan, work) = self.branch_plan_and_work(index);
        let (inside, lineage) = (self.inside, self.branch_lineage(plan));
        let MemberContext { run, scope, container } = inside;
        let level = scope.level.function_member_level(self.node, scope, lineage.clone());
        container.set_member_stage(index, MemberStage::InFlight(level.strand.clone()));
        let namespace = level.path.iter().cloned().chain([plan.name.clone()]).collect();
        let calling = FunctionBranch {
            inside,
            body,
            place: NodeLocation { node: plan.name.clone(), namespace },
            step: match run.take_step_number() {
                Ok(step) => step,
                Err(error) => scope.abort_invocation(error).await,
            },
            ordinal: level.take_ordinal(),
            level,
            open: Arc::default(),
        };
        let unit = run.lifecycle_outlet().map(|_| ReportedUnit {
            run,
            observers: &scope.level.observers,
            place: &scope.place,
            lineage: lineage.clone(),
            attempt: scope.attempt,
            metadata: &scope.level.metadata,
        });
        let returned =
            inside.run_with_chain(&work.chain, (lineage, calling.open.clone()), start, &calling).await;
        let ended = returned.and_then(|update| {
            let after = merge_node_update(scope.graph_state(), &calling.place, update.clone());
            after.map(|after| (update, after)).map_err(NodeError::from_engine_error)
        });
        if let Some(open) = calling.open.take_attempt() {
            match &ended {
                Ok((_, after)) => open.report_merged(after),
                Err(error) => open.report_failed_with(open.describe_node_error(error)),
            }
        }
        if let Some(unit) = unit {
            unit.report_ended(ended.as_ref().err().map(|error| scope.describe_node_error(error)));
        }
        let (update, _) = ended?;
        run.settle_completed_member_node(|| calling.level.fact_name_prefix(&plan.name, calling.ordinal));
        Ok(update)
    }
}

/// The walk of a branch that is a graph.
struct SubgraphBranch<'a> {
    inside: MemberContext<'a>,
    plan: &'a BranchPlan,
    index: u64,
    level: GraphLevel,
    lineage: NodeLineage,
}

impl MemberWork for SubgraphBranch<'_> {
    fn inner_graph(&self) -> Option<&GraphCore> {
        Some(&self.level.core)
    }

    fn perform_member<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: (u32, &'a Arc<MetadataScope>),
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let walked = self
                .inside
                .walk_member_graph(self.index, (&self.level, &self.lineage), state, attempt)
                .await?;
            Ok(self.plan.extract_contribution(&walked))
        })
    }
}

/// The execution of a branch that is a function.
struct FunctionBranch<'a> {
    inside: MemberContext<'a>,
    body: &'a NodeBody,
    place: NodeLocation,
    level: GraphLevel,
    step: u64,
    ordinal: u64,
    open: Arc<OpenAttempt>,
}

impl MemberWork for FunctionBranch<'_> {
    fn inner_graph(&self) -> Option<&GraphCore> {
        None
    }

    fn perform_member<'a>(
        &'a self,
        state: &'a Snapshot,
        (attempt, metadata): (u32, &'a Arc<MetadataScope>),
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        let (run, base) = (self.inside.run, self.inside.scope.graph_state());
        let (lineage, strand) = (self.level.lineage.clone(), self.level.strand.clone());
        let level = self.level.member_level(lineage, (strand, metadata.clone()), attempt);
        level.strand.set_frame_position(0, &self.place.node, (FramePosition::Before, attempt), state);
        let scope = Arc::new(NodeAttempt {
            run: run.clone(),
            level: Arc::new(level),
            place: self.place.clone(),
            step: self.step,
            attempt,
            ordinal: self.ordinal,
            state: state.clone(),
            base: (!state.is_same_state(base)).then(|| base.clone()),
            container: None,
            calls: CallNumbers::default(),
            ended: AtomicBool::new(false),
        });
        self.open.begin_attempt(&scope);
        scope.report_started();
        Box::pin(async move { run_node_body(run, self.body, &scope).await })
    }
}
