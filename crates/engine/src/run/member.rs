//! One member of a container: the chain around it, and the walk of an inner graph on a strand of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use singletree_durable::BoxFuture;
use singletree_graph::{FieldFault, NodeLineage, Snapshot, StateUpdate, catch_panic};

use super::attempt::OpenAttempt;
use super::chain::{ExecutionUnit, Next, UnitContext};
use super::container::{MemberContainer, MemberStage};
use super::fault::NodeError;
use super::level::GraphLevel;
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
    fn perform_member<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: u32,
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
        if chain.is_empty() {
            return work.perform_member(start, scope.attempt).await;
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
        };
        Next::begin_chain(chain, &WrappedMember { work, seat }, start).run(start).await
    }

    /// Walks an inner graph once, from its entry, on a strand of its own.
    pub(crate) async fn walk_member_graph(
        &self,
        index: u64,
        (level, lineage): (&GraphLevel, &NodeLineage),
        start: &Snapshot,
        attempt: u32,
    ) -> Result<Snapshot, NodeError> {
        let strand = Arc::new(SequentialWalk::default());
        self.container.set_member_stage(index, MemberStage::InFlight(strand.clone()));
        let level = level.member_level(lineage.clone(), strand, attempt);
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
            let outcome = self.work.perform_member(state, attempt).await;
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
