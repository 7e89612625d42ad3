//! Running fan-outs (pipeline-utilities §9).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use singletree_durable::BoxFuture;

use super::attempt::OpenAttempt;
use super::chain::{Next, Seat, Unit};
use super::container::{Container, FanIn, Member, Reached};
use super::event::{ContainerConfig, FanOutConfig};
use super::fan_out::Fan;
use super::fault::NodeError;
use super::level::Level;
use super::members::Members;
use super::panic::caught;
use super::scope::{Run, Scope};
use super::strand::Strand;
use super::walk::{Begin, walk_below};
use crate::error::{Error, Place};
use crate::plan::fan_out::{By, FanOutPlan, OnEmpty, Source};
use crate::plan::lineage::{Boundary, Lineage};
use crate::plan::snapshot::Snapshot;
use crate::plan::update::Update;

/// Why a fan-out cannot run.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("there is nothing to fan out over")]
    Empty,
    #[error("the count is {0}, which is negative")]
    Count(i64),
    #[error("the concurrency is {0}, which is not positive")]
    Concurrency(i64),
}

impl Refused {
    fn category(&self) -> &'static str {
        match self {
            Self::Empty => "fan_out_empty",
            Self::Count(_) => "fan_out_invalid_count",
            Self::Concurrency(_) => "fan_out_invalid_concurrency",
        }
    }

    fn error(self) -> NodeError {
        let category = self.category();
        NodeError::from(self).with_category(category)
    }
}

/// What a fan-out is resolved to when it is entered.
pub(crate) struct Resolved {
    count: u64,
    limit: Option<u64>,
}

/// Resolves a fan-out against the state that it received. Functions are called once.
pub(crate) fn resolve(plan: &FanOutPlan, state: &Snapshot) -> Result<Resolved, NodeError> {
    let count = match &plan.source {
        Source::Items { from, .. } => {
            let list = state.slot(*from).as_list();
            list.map_or(0, |it| it.len() - it.first_held())
        }
        Source::Count(count) => {
            let count = number(count, state)?;
            u64::try_from(count).map_err(|_| Refused::Count(count).error())?
        }
    };
    let limit = number(&plan.concurrency, state)?;
    let positive = |it: i64| u64::try_from(it).ok().filter(|it| *it > 0);
    let limit = limit.map(|it| positive(it).ok_or_else(|| Refused::Concurrency(it).error()));
    Ok(Resolved { count, limit: limit.transpose()? })
}

fn number<T: Clone>(by: &By<T>, state: &Snapshot) -> Result<T, NodeError> {
    match by {
        By::Fixed(number) => Ok(number.clone()),
        By::Function(function) => {
            let called = caught(|| function(state)).map_err(NodeError::new)?;
            called.map_err(|it| NodeError::new(it.to_string()).with_cause(it))
        }
    }
}

impl Resolved {
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Makes the record of one attempt.
    pub(crate) fn container(
        &self,
        plan: &Arc<FanOutPlan>,
        (place, lineage, execution): (&Place, &Lineage, u64),
    ) -> Container {
        let config = FanOutConfig {
            item_count: self.count,
            concurrency: self.limit,
            error_policy: plan.error_policy,
            parent_node_name: place.node.clone(),
        };
        let (plan, count) = (plan.clone(), self.count);
        let fan_in: FanIn = Box::new(move |members: &[Member]| {
            let contributions = members.iter().filter_map(|it| match &it.reached {
                Reached::Contributed(update) => Some(update),
                Reached::NotStarted | Reached::InFlight(_) | Reached::Failed(_) => None,
            });
            let errors = members.iter().filter_map(|it| match &it.reached {
                Reached::Failed(record) => Some(record.clone()),
                Reached::NotStarted | Reached::InFlight(_) | Reached::Contributed(_) => None,
            });
            Ok(plan.fan_in(&contributions.collect::<Vec<_>>(), errors.collect(), count)?)
        });
        let config = ContainerConfig::FanOut(Arc::new(config));
        let members = (0..self.count).map(Boundary::Instance);
        Container::new(config, (place.clone(), lineage.clone(), execution), members, fan_in)
    }
}

/// One attempt of a fan-out.
pub(crate) struct Fanning<'a> {
    pub(crate) run: &'a Arc<Run>,
    pub(crate) fan: &'a Fan,
    pub(crate) plan: &'a FanOutPlan,
    /// The attempt, with the container's record.
    pub(crate) scope: &'a Arc<Scope>,
    pub(crate) container: &'a Arc<Container>,
    /// The inner graph, but for what each instance has of its own.
    pub(crate) level: Level,
}

impl Fanning<'_> {
    /// Runs all instances and puts together what they contribute.
    pub(crate) async fn run(&self, resolved: &Resolved) -> Result<Update, NodeError> {
        if resolved.count == 0 && self.plan.on_empty == OnEmpty::Raise {
            return Err(Refused::Empty.error());
        }
        let members = Members {
            run: self.run,
            container: self.container,
            level: &self.level,
            count: resolved.count,
            limit: resolved.limit.and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX),
        };
        let record = |index, error: &NodeError| (self.fan.record)(index, error);
        match members.run(|index| self.instance(index), record).await? {
            Some(failed) => Err(self.failed(failed)),
            None => self.container.gathered(),
        }
    }

    /// The failure of one instance, as the fan-out's.
    fn failed(&self, error: NodeError) -> NodeError {
        let (place, state) = (self.scope.place.clone(), self.scope.base().clone());
        NodeError::carry(Error::Node { place, source: error.into_fault(), state })
    }

    /// One instance with its chain.
    fn instance(&self, index: u64) -> BoxFuture<'_, Result<Update, NodeError>> {
        Box::pin(async move {
            let start = caught(|| self.plan.start(&self.scope.state, index)).map_err(NodeError::new)?;
            let start = start.map_err(|source| {
                let (place, state) = (Some(self.scope.place.clone()), Some(self.scope.base().clone()));
                NodeError::carry(Error::Validation { place, source, state })
            })?;
            let lineage = self.level.lineage.below(Boundary::Instance(index));
            if self.fan.chain.is_empty() {
                return self.walk(index, lineage, &start, self.scope.attempt).await;
            }
            let seat = Seat {
                run: self.run.clone(),
                level: self.scope.level.clone(),
                place: self.scope.place.clone(),
                lineage,
                first: self.scope.attempt,
                resumed: AtomicBool::new(false),
                last: AtomicU32::new(self.scope.attempt),
                open: Arc::new(OpenAttempt::default()),
            };
            let instance = Instance { fanning: self, index, seat };
            Next::outermost(&self.fan.chain, &instance, &start).run(&start).await
        })
    }

    /// Walks the inner graph once, from its entry, on a strand of its own.
    async fn walk(
        &self,
        index: u64,
        lineage: Lineage,
        start: &Snapshot,
        attempt: u32,
    ) -> Result<Update, NodeError> {
        let strand = Arc::new(Strand::default());
        self.container.reach(index, Reached::InFlight(strand.clone()));
        let level = self.level.member(lineage, strand, attempt);
        let ended = walk_below(self.run, Arc::new(level), Begin::Entry(start.clone())).await;
        ended.map(|it| self.plan.contribution(&it)).map_err(NodeError::carry)
    }
}

/// What the middleware of instances surrounds: one instance.
struct Instance<'a> {
    fanning: &'a Fanning<'a>,
    index: u64,
    seat: Seat,
}

impl Unit for Instance<'_> {
    fn perform<'a>(&'a self, state: &'a Snapshot, attempt: u32) -> BoxFuture<'a, Result<Update, NodeError>> {
        self.seat.last.store(attempt, Ordering::Relaxed);
        Box::pin(self.fanning.walk(self.index, self.seat.lineage.clone(), state, attempt))
    }

    fn settle(&self) {
        // Its nodes' attempts have told their ends themselves.
    }

    fn seat(&self) -> &Seat {
        &self.seat
    }
}
