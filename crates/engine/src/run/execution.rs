//! Node executions with a chain of middleware around them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::BoxFuture;

use super::attempt::OpenAttempt;
use super::chain::{Next, Seat, Unit};
use super::fault::NodeError;
use super::graph::{Body, Core, Work};
use super::scope::Scope;
use super::walk::{Below, Led, Walker, run_body};
use crate::error::Result;
use crate::plan::cursor::Position;
use crate::plan::snapshot::Snapshot;
use crate::plan::topology::Node;
use crate::plan::update::Update;

/// One execution of one node, of whatever kind: what its chain surrounds.
struct Execution<'a> {
    walker: &'a Walker<'a>,
    node: &'a Node,
    work: &'a Work,
    /// The state that the graph has.
    base: &'a Snapshot,
    /// The number of the execution; a plain subgraph has none (R23).
    step: Option<u64>,
    seat: Seat,
    /// Where a subgraph stands that is gone on with; the first attempt takes it.
    below: Mutex<Option<Below>>,
    /// Whether the chain has reached the unit.
    reached: AtomicBool,
}

/// Executes a node with its chain: its attempts, then one merge and one edge.
pub(crate) fn execute<'a>(
    walker: &'a Walker<'a>,
    at: usize,
    state: &'a Snapshot,
    (resumed, below): (Option<u32>, Option<Below>),
) -> BoxFuture<'a, Result<Led>> {
    Box::pin(async move {
        let core = &walker.level.core;
        let (node, work) = (&core.topology.nodes[at], &core.works[at]);
        let first = resumed.unwrap_or(walker.level.attempt);
        let position = if below.is_some() { Position::Inside } else { Position::Before };
        walker.stand(node, (position, first), state);
        let step = match work {
            Work::Function(_) => Some(walker.take_step().await),
            Work::Subgraph(_) => None,
        };
        let seat = Seat {
            run: walker.run.clone(),
            level: walker.level.clone(),
            place: walker.level.place(node),
            lineage: walker.level.lineage.clone(),
            first,
            resumed: AtomicBool::new(resumed.is_some()),
            last: AtomicU32::new(first),
            open: Arc::new(OpenAttempt::default()),
        };
        let (below, reached) = (Mutex::new(below), AtomicBool::new(false));
        let execution = Execution { walker, node, work, base: state, step, seat, below, reached };
        execution.run(&core.chains[at]).await
    })
}

impl Execution<'_> {
    async fn run(&self, chain: &[Arc<dyn super::middleware::Middleware>]) -> Result<Led> {
        let (walker, place) = (self.walker, &self.seat.place);
        let returned = Next::outermost(chain, self, self.base).run(self.base).await;
        let led = match returned {
            Ok(update) => walker.merge(self.node, place, self.base, update),
            Err(error) => Err(error.leave(place, self.base)),
        };
        // What no middleware told is told as the chain ended (R5).
        let open = self.seat.open.take();
        let (after, target) = led.inspect_err(|error| {
            if let Some(open) = &open {
                open.failed(error);
            }
        })?;
        if let Some(open) = &open {
            open.merged(&after);
        }
        if self.step.is_none() && !self.reached.load(Ordering::Relaxed) {
            // A subgraph that its chain never enters counts as a step: without one a cycle of them had no bound.
            walker.take_step().await;
        }
        match self.work {
            Work::Subgraph(_) => walker.stand(self.node, (Position::After, 0), &after),
            Work::Function(_) => walker.completed(self.node, &after, target).await,
        }
        Ok((after, target))
    }

    /// Begins an attempt that has events.
    fn begin(&self, state: &Snapshot, attempt: u32) -> Scope {
        self.walker.stand(self.node, (Position::Before, attempt), self.base);
        Scope {
            run: self.walker.run.clone(),
            level: self.walker.level.clone(),
            place: self.seat.place.clone(),
            step: self.step.expect("what has events has a step"),
            attempt,
            state: state.clone(),
            base: (!state.same(self.base)).then(|| self.base.clone()),
            container: None,
            ended: AtomicBool::new(false),
        }
    }

    /// Tells that an attempt has begun.
    fn started(&self, scope: Scope) -> Arc<Scope> {
        let scope = Arc::new(scope);
        self.seat.open.begin(&scope);
        scope.started();
        scope
    }

    async fn call(
        &self,
        body: &Body,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<Update, NodeError> {
        let scope = self.started(self.begin(state, attempt));
        run_body(self.walker.run, body, &scope).await
    }

    async fn enter(
        &self,
        child: &Arc<Core>,
        state: &Snapshot,
        attempt: u32,
    ) -> std::result::Result<Update, NodeError> {
        let walker = self.walker;
        walker.stand(self.node, (Position::Inside, attempt), self.base);
        let mut level = walker.level.below(walker.run, self.node, child, self.base);
        level.attempt = attempt;
        let below = self.below.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = walker.walk_subgraph(self.node, level, (state, below), &self.seat.place).await;
        ended.map_err(NodeError::carry)
    }
}

impl Unit for Execution<'_> {
    fn perform<'a>(
        &'a self,
        state: &'a Snapshot,
        attempt: u32,
    ) -> BoxFuture<'a, std::result::Result<Update, NodeError>> {
        self.reached.store(true, Ordering::Relaxed);
        Box::pin(async move {
            let outcome = match self.work {
                Work::Function(body) => self.call(body, state, attempt).await,
                Work::Subgraph(child) => self.enter(child, state, attempt).await,
            };
            self.seat.open.ended(&outcome);
            outcome
        })
    }

    fn settle(&self) {
        self.seat.open.settle();
    }

    fn seat(&self) -> &Seat {
        &self.seat
    }
}
