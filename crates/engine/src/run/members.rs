//! Running the members of a container: in order, at most so many at once, with one policy for failures.

use std::future::poll_fn;
use std::task::Poll;

use serde_json::{Value, json};
use singletree_durable::BoxFuture;
use singletree_graph::{Item, StateUpdate, catch_panic};

use super::container::{MemberContainer, MemberStage};
use super::crew::IndexedFutures;
use super::fault::NodeError;
use super::level::GraphLevel;
use super::scope::RunContext;
use crate::plan::policy::ErrorPolicy;

/// After how many ends in a row other tasks have a turn.
const POLITENESS: u64 = 256;

/// The members of a container that is about to run.
pub(crate) struct MemberSet<'a> {
    pub(crate) run: &'a RunContext,
    pub(crate) container: &'a MemberContainer,
    /// The graph that the members walk, where their ends are saved.
    pub(crate) saves: Option<&'a GraphLevel>,
    pub(crate) count: u64,
    /// How many run at once.
    pub(crate) limit: usize,
}

impl MemberSet<'_> {
    /// Runs all members, started in the order of their numbers, and notes the outcome of each in the container.
    ///
    /// Where failures are not collected, returns the first failure with the number of its member. The others are
    /// cancelled by being dropped, in order. When a member asks the driver for something, no other one goes on.
    ///
    /// # Errors
    /// The error of making the record of a failure.
    pub(crate) async fn run_members<'b>(
        &self,
        start: impl Fn(u64) -> BoxFuture<'b, Result<StateUpdate, NodeError>>,
        record: impl Fn(u64, &NodeError) -> Value + Sync,
    ) -> Result<Option<(u64, NodeError)>, NodeError> {
        let mut crew = IndexedFutures::new();
        let (mut next, mut ended) = (0, 0_u64);
        let halted = || self.run.requests.has_requests();
        loop {
            let polled = poll_fn(|cx| {
                loop {
                    // One that has begun goes on before another one begins: few are in memory that need not be.
                    let polled = crew.poll_next_ended(cx, halted);
                    while next < self.count && self.container.has_member_ended(next) {
                        next += 1;
                    }
                    let waits = matches!(polled, Poll::Pending | Poll::Ready(None));
                    if !waits || crew.len() >= self.limit || next >= self.count {
                        return polled;
                    }
                    if halted() {
                        // If the run goes on after all, so do those that have not begun.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    crew.add_future(next, self.run_member(next, start(next), &record));
                    next += 1;
                }
            });
            match polled.await {
                None => return Ok(None),
                Some((_, Ok(None))) => ended += 1,
                Some((member, failed)) => return failed.map(|failed| failed.map(|error| (member, error))),
            }
            if ended.is_multiple_of(POLITENESS) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// One member: its run, the handling of its outcome, and the checkpoint of it. Contribution and checkpoint come
    /// together, so that a record that calls a member completed has its contribution (pipeline-utilities §10.11).
    fn run_member<'b>(
        &'b self,
        number: u64,
        running: BoxFuture<'b, Result<StateUpdate, NodeError>>,
        record: &'b (impl Fn(u64, &NodeError) -> Value + Sync),
    ) -> BoxFuture<'b, Result<Option<NodeError>, NodeError>> {
        Box::pin(async move {
            let reached = match (running.await, self.container.error_policy()) {
                (Ok(update), _) => MemberStage::Contributed(update),
                (Err(error), ErrorPolicy::FailFast) => return Ok(Some(error)),
                (Err(error), ErrorPolicy::Collect) => {
                    let record = catch_panic(|| record(number, &error)).map_err(NodeError::new)?;
                    MemberStage::Failed(Item::from_json(record))
                }
            };
            self.container.set_member_stage(number, reached);
            if let Some(level) = self.saves {
                level.save_checkpoint_or_abort(self.run, || level.describe_ended_member(number)).await;
            }
            Ok(None)
        })
    }
}

/// Records a failed member; texts only, so that a list of maps of texts can hold it (R26).
pub(crate) fn make_error_record(key: &str, member: &str, error: &NodeError) -> Value {
    let mut record = json!({
        key: member,
        "category": error.surface_category(),
        "message": error.classify().message,
    });
    if let Some(cause) = error.as_node_fault().category() {
        record["cause"] = cause.into();
    }
    record
}
