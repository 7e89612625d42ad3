//! Running fan-outs (pipeline-utilities §9).

use std::sync::Arc;

use singletree_durable::BoxFuture;
use singletree_graph::{LineageBoundary, NodeLineage, Snapshot, StateUpdate};

use super::container::{
    ContainerMember, FanIn, MemberContainer, collect_failure_records, iter_contributions,
};
use super::event::{ContainerConfig, FanOutConfig};
use super::fan_out::FanOutWork;
use super::fault::NodeError;
use super::graph::GraphCore;
use super::level::GraphLevel;
use super::member::{MemberContext, MemberWork};
use super::members::MemberSet;
use super::metadata::MetadataScope;
use super::panic::call_state_function;
use crate::error::{Error, NodeLocation};
use crate::plan::fan_out::{EmptyFanOutPolicy, FanOutPlan, FixedOrComputed, InstanceSource};

/// Why a fan-out cannot run.
#[derive(Debug, thiserror::Error)]
enum FanOutRefusal {
    #[error("there is nothing to fan out over")]
    Empty,
    #[error("the count is {0}, which is negative")]
    Count(i64),
    #[error("the concurrency is {0}, which is not positive")]
    Concurrency(i64),
}

impl FanOutRefusal {
    fn category(&self) -> &'static str {
        match self {
            Self::Empty => "fan_out_empty",
            Self::Count(_) => "fan_out_invalid_count",
            Self::Concurrency(_) => "fan_out_invalid_concurrency",
        }
    }

    fn into_node_error(self) -> NodeError {
        let category = self.category();
        NodeError::from(self).with_category(category)
    }
}

/// The numbers of a fan-out, resolved when it is entered.
pub(crate) struct ResolvedFanOut {
    count: u64,
    limit: Option<u64>,
}

/// Resolves a fan-out against the state that it received. Functions are called once.
pub(crate) fn resolve_fan_out(plan: &FanOutPlan, state: &Snapshot) -> Result<ResolvedFanOut, NodeError> {
    let count = match &plan.source {
        InstanceSource::Items { from, .. } => {
            let list = state.field_content_at(*from).as_list();
            list.map_or(0, |list| list.len() - list.first_held_position())
        }
        InstanceSource::Count(count) => {
            let count = evaluate_number(count, state)?;
            u64::try_from(count).map_err(|_| FanOutRefusal::Count(count).into_node_error())?
        }
    };
    let limit = evaluate_number(&plan.concurrency, state)?;
    let positive = |it: i64| u64::try_from(it).ok().filter(|it| *it > 0);
    let limit =
        limit.map(|limit| positive(limit).ok_or_else(|| FanOutRefusal::Concurrency(limit).into_node_error()));
    Ok(ResolvedFanOut { count, limit: limit.transpose()? })
}

fn evaluate_number<T: Clone>(by: &FixedOrComputed<T>, state: &Snapshot) -> Result<T, NodeError> {
    match by {
        FixedOrComputed::Fixed(number) => Ok(number.clone()),
        FixedOrComputed::Function(function) => call_state_function(function, state),
    }
}

impl ResolvedFanOut {
    pub(crate) fn instance_count(&self) -> u64 {
        self.count
    }

    /// Makes the record of one attempt.
    pub(crate) fn make_fan_out_container(
        &self,
        plan: &Arc<FanOutPlan>,
        at: (NodeLocation, NodeLineage, u64),
    ) -> MemberContainer {
        let config = FanOutConfig {
            item_count: self.count,
            concurrency: self.limit,
            error_policy: plan.error_policy,
            parent_node_name: at.0.node.clone(),
        };
        let (plan, count) = (plan.clone(), self.count);
        let fan_in: FanIn = Box::new(move |members: &[ContainerMember]| {
            let contributed: Vec<_> = iter_contributions(members).map(|(_, update)| update).collect();
            Ok(plan.combine_contributions(&contributed, collect_failure_records(members), count)?)
        });
        let config = ContainerConfig::FanOut(Arc::new(config));
        let members = (0..self.count).map(LineageBoundary::Instance);
        MemberContainer::new(config, at, members, fan_in)
    }
}

/// One attempt of a fan-out.
pub(crate) struct FanOutAttempt<'a> {
    pub(crate) inside: MemberContext<'a>,
    pub(crate) fan: &'a FanOutWork,
    pub(crate) plan: &'a FanOutPlan,
    /// The inner graph, without the data that each instance has of its own.
    pub(crate) level: GraphLevel,
}

impl FanOutAttempt<'_> {
    /// Runs all instances and combines their contributions.
    pub(crate) async fn run_instances(&self, resolved: &ResolvedFanOut) -> Result<StateUpdate, NodeError> {
        if resolved.count == 0 && self.plan.on_empty == EmptyFanOutPolicy::Raise {
            return Err(FanOutRefusal::Empty.into_node_error());
        }
        let MemberContext { run, container, scope } = self.inside;
        let limit = resolved.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        let members = MemberSet { run, container, saves: Some(&self.level), count: resolved.count, limit };
        let record = |index, error: &NodeError| (self.fan.record)(index, error);
        match members.run_members(|index| self.run_instance(index), record).await? {
            Some((_, error)) => {
                let (place, state) = (scope.place.clone(), scope.graph_state().clone());
                Err(NodeError::from_engine_error(Error::Node { place, source: error.into_fault(), state }))
            }
            None => container.combine_contributions(),
        }
    }

    /// One instance with its chain.
    fn run_instance(&self, index: u64) -> BoxFuture<'_, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let start = self.inside.make_start_state(|state| self.plan.make_start_state(state, index))?;
            let lineage = self.level.lineage.with_inner_boundary(LineageBoundary::Instance(index));
            let instance = FanOutInstance { fanning: self, index, lineage: lineage.clone() };
            self.inside.run_with_chain(&self.fan.chain, (lineage, Arc::default()), &start, &instance).await
        })
    }
}

/// The walk of one instance.
struct FanOutInstance<'a> {
    fanning: &'a FanOutAttempt<'a>,
    index: u64,
    lineage: NodeLineage,
}

impl MemberWork for FanOutInstance<'_> {
    fn inner_graph(&self) -> Option<&GraphCore> {
        Some(&self.fanning.fan.core)
    }

    fn perform_member<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: (u32, &'a Arc<MetadataScope>),
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let FanOutAttempt { inside, plan, level, .. } = self.fanning;
            let walked = inside.walk_member_graph(self.index, (level, &self.lineage), state, attempt).await?;
            Ok(plan.extract_contribution(&walked))
        })
    }
}
