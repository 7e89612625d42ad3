//! One member of a container: the chain around it, and the walk of an inner graph on a strand of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use singletree_durable::BoxFuture;
use singletree_graph::{FieldFault, NodeLineage, Snapshot, StateUpdate, catch_panic};

use super::attempt::OpenAttempt;
use super::chain::{ExecutionUnit, Next, UnitContext};
use super::container::{MemberContainer, MemberStage};
use super::fault::NodeError;
use super::graph::GraphCore;
use super::level::GraphLevel;
use super::lifecycle::ReportedUnit;
use super::metadata::MetadataScope;
use super::middleware::MiddlewareChain;
use super::scope::{NodeAttempt, RunContext};
use super::strand::SequentialWalk;
use super::walk::{WalkStart, walk_inner_graph};
use crate::error::Error;

/// The data that the members of one attempt of a container share.
#[derive(Clone, Copy)]
pub(crate) struct MemberContext<'a> {
    pub(crate) run: &'a Arc<RunContext>,
    /// The container's attempt.
    pub(crate) scope: &'a Arc<NodeAttempt>,
    pub(crate) container: &'a Arc<MemberContainer>,
}

/// The work of a member, performed each time that its chain reaches it.
pub(crate) trait MemberWork: Send + Sync {
    /// Returns the graph that the member walks, unless it is a function.
    fn inner_graph(&self) -> Option<&GraphCore>;

    fn perform_member<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: (u32, &'a Arc<MetadataScope>),
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>>;
}

impl MemberContext<'_> {
    /// Makes the state that a member starts with.
    pub(crate) fn make_start_state(
        &self,
        make: impl FnOnce(&Snapshot) -> Result<Snapshot, FieldFault>,
    ) -> Result<Snapshot, NodeError> {
        let made = catch_panic(|| make(&self.scope.state)).map_err(NodeError::new)?;
        made.map_err(|source| {
            let (place, state) = (Some(self.scope.place.clone()), Some(self.scope.graph_state().clone()));
            NodeError::from_engine_error(Error::Validation { place, source, state })
        })
    }

    /// Runs a member with its chain. The attempt is the one that the work itself opens, if it has events of its own.
    pub(crate) async fn run_with_chain(
        &self,
        chain: &MiddlewareChain,
        (lineage, open): (NodeLineage, Arc<OpenAttempt>),
        start: &Snapshot,
        work: &dyn MemberWork,
    ) -> Result<StateUpdate, NodeError> {
        let scope = self.scope;
        let metadata = scope.level.metadata.fork();
        let unit = self.run.lifecycle_outlet().map(|_| ReportedUnit {
            run: self.run,
            observers: &scope.level.observers,
            place: &scope.place,
            lineage: lineage.clone(),
            attempt: scope.attempt,
            metadata: &metadata,
        });
        if let Some(unit) = &unit {
            unit.report_entered(work.inner_graph());
        }
        let ended = self.run_chain_around(chain, (lineage, open, metadata.clone()), start, work).await;
        // A function's end is reported after that of its attempt.
        if let Some(unit) = unit.filter(|_| work.inner_graph().is_some()) {
            unit.report_ended(ended.as_ref().err().map(|error| scope.describe_node_error(error)));
        }
        ended
    }

    async fn run_chain_around(
        &self,
        chain: &MiddlewareChain,
        (lineage, open, metadata): (NodeLineage, Arc<OpenAttempt>, Arc<MetadataScope>),
        start: &Snapshot,
        work: &dyn MemberWork,
    ) -> Result<StateUpdate, NodeError> {
        let scope = self.scope;
        if chain.is_empty() {
            return work.perform_member(start, (scope.attempt, &metadata)).await;
        }
        let seat = UnitContext {
            run: self.run.clone(),
            level: scope.level.clone(),
            place: scope.place.clone(),
            lineage,
            first: scope.attempt,
            resumed: AtomicBool::new(false),
            last: AtomicU32::new(scope.attempt),
            within: Some(scope.clone()),
            open,
            metadata,
        };
        Next::begin_chain(chain, &WrappedMember { work, seat }, start).run(start).await
    }

    /// Walks an inner graph once, from its entry, on a strand of its own.
    pub(crate) async fn walk_member_graph(
        &self,
        index: u64,
        (level, lineage): (&GraphLevel, &NodeLineage),
        start: &Snapshot,
        (attempt, metadata): (u32, &Arc<MetadataScope>),
    ) -> Result<Snapshot, NodeError> {
        let strand = Arc::new(SequentialWalk::default());
        self.container.set_member_stage(index, MemberStage::InFlight(strand.clone()));
        let level = level.member_level(lineage.clone(), (strand, metadata.clone()), attempt);
        let ended = walk_inner_graph(self.run, Arc::new(level), WalkStart::Entry(start.clone())).await;
        ended.map_err(NodeError::from_engine_error)
    }
}

/// The unit that the middleware of members surrounds: one member.
struct WrappedMember<'a> {
    work: &'a dyn MemberWork,
    seat: UnitContext,
}

impl ExecutionUnit for WrappedMember<'_> {
    fn perform_attempt<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: u32,
    ) -> BoxFuture<'a, Result<StateUpdate, NodeError>> {
        Box::pin(async move {
            let outcome = self.work.perform_member(state, (attempt, &self.seat.metadata)).await;
            self.seat.open.record_outcome(&outcome);
            outcome
        })
    }

    fn settle_attempt(&self) {
        // The nodes of an inner graph have told their attempts' ends themselves: nothing is open then.
        self.seat.open.settle_attempt();
    }

    fn unit_context(&self) -> &UnitContext {
        &self.seat
    }
}
