//! From descriptions to graphs of the engine.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use singletree_durable::{BoxFuture, Timestamp};
use std::any::Any;

use singletree_engine::{
    Branch, Branches, Clock, Ctx, END, EmptyFanOutPolicy, ErrorPolicy, FailureIsolation, FanOut, Graph,
    IdGenerator, Middleware, MonotonicClock, NodeError, NodeResult, Projection, Retry, RetryBackoff,
    RetryableError, SeededRandomSource, Signal, Snapshot, StateUpdate, Target, Timing, around,
};

use super::plan::{self, Doing, Fan, Fork, Jump, Kind, Node, Plan, When, Wrap};
use super::state::{View, fields, number};
use super::work::{Job, TRANSIENT, degraded};
use super::world::{Ended, World};
use crate::rig::{Builder, over};

/// A clock that stands still.
#[derive(Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }
}

impl MonotonicClock for Still {
    fn elapsed_since_origin(&self) -> Duration {
        Duration::ZERO
    }
}

/// Identifiers that count over all processes.
#[derive(Debug, Default)]
pub(crate) struct Numbered(AtomicU64);

impl Numbered {
    fn id(number: u64) -> String {
        format!("00000000-0000-4000-8000-{number:012}")
    }

    /// Returns the one that comes next.
    pub(crate) fn next(&self) -> String {
        Self::id(self.0.load(Ordering::Relaxed))
    }
}

impl IdGenerator for Numbered {
    fn generate_uuid(&self) -> String {
        Self::id(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The parts that graphs are built with.
#[derive(Debug, Clone)]
pub(crate) struct Workshop {
    pub(crate) world: Arc<World>,
    pub(crate) ids: Arc<Numbered>,
    /// Whether the first branch of each fork loses its contribution, as in an engine that forgets a member.
    pub(crate) drops: bool,
    /// Whether retries wait, and for how long is random.
    pub(crate) jitters: bool,
}

/// The fields that cross into any inner graph.
const INWARDS: [&str; 2] = ["acc", "answer"];
/// The fields that a subgraph projects out.
const OUTWARDS: [&str; 6] = ["log", "acc", "rows", "results", "nested", "errors"];
/// The fields that a branch contributes.
const CONTRIBUTES: [&str; 4] = ["log", "acc", "rows", "results"];

async fn perform(cx: Ctx<Snapshot>, job: Arc<Job>, world: Arc<World>) -> NodeResult<Snapshot> {
    let view = View::of(cx.snapshot());
    let number = world.begin(&cx, view.acc);
    if job.work.takes > 0 {
        tokio::time::sleep(Duration::from_millis(job.work.takes.into())).await;
    }
    if let Some(category) = job.failure(&view, cx.attempt_index()) {
        world.end(number, Ended::Failed);
        return Err(NodeError::new("it failed").with_category(category));
    }
    if let Some(done) = job.asks(&view) {
        world.end(number, Ended::Asked(done));
        return cx.suspend(Signal::new(job.name.clone()).mark_node_completed(done)).await;
    }
    world.end(number, Ended::Done);
    Ok(job.change(&view).update())
}

fn retry(attempts: u32, jitters: bool) -> Retry {
    let transient = |error: &dyn RetryableError, _: &dyn Any| {
        let error = error.downcast_ref::<NodeError>().unwrap();
        error.classify().category.as_deref() == Some(TRANSIENT)
    };
    let backoff = if jitters { RetryBackoff::default() } else { RetryBackoff::Constant(Duration::ZERO) };
    Retry::new().max_attempts(attempts).classifier(transient).backoff(backoff)
}

fn isolation(id: u32, turns: bool) -> FailureIsolation {
    FailureIsolation::from_function("isolated", move |state| {
        Ok(degraded(id, turns, &View::of(state)).update())
    })
}

fn timing() -> Timing {
    Timing::for_each_site(|_| ready(Ok(()))).clock(Arc::new(Still))
}

/// Loses the update of the inner part of the chain.
fn dropping() -> impl Middleware {
    around(|state: Arc<Snapshot>, mut next| {
        Box::pin(async move { next.run(&state).await.map(|_| StateUpdate::new()) })
    })
}

/// Hands a middleware to whatever takes one.
macro_rules! wrapped {
    ($target:expr, $chain:expr, ($id:expr, $turns:expr, $jitters:expr), $put:expr) => {
        $chain.iter().fold($target, |target, wrap| match *wrap {
            Wrap::Retry(attempts) => $put(target, retry(attempts, $jitters)),
            Wrap::Isolation => $put(target, isolation($id, $turns)),
            Wrap::Timing => $put(target, timing()),
        })
    };
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self { world: Arc::default(), ids: Arc::default(), drops: false, jitters: false }
    }

    fn body(
        &self,
        job: Job,
    ) -> impl Fn(Ctx<Snapshot>) -> BoxFuture<'static, NodeResult<Snapshot>> + Send + Sync + use<> + 'static
    {
        let (job, world) = (Arc::new(job), self.world.clone());
        move |cx| Box::pin(perform(cx, job.clone(), world.clone()))
    }

    /// Starts a graph; the caller adds the stores.
    pub(crate) fn graph(&self, plan: &Plan) -> Builder {
        let mut builder = over(fields(plan.items))
            .clock(Arc::new(Still))
            .ids(self.ids.clone())
            .chance(Arc::new(SeededRandomSource::new(7)));
        for node in &plan.nodes {
            builder = self.node(builder, node);
            let (id, turns, name) = (node.id, node.turns(), node.name());
            let chain = plan.chain(node);
            builder = wrapped!(builder, chain, (id, turns, self.jitters), |it: Builder, wrap| it
                .node_middleware(name.clone(), wrap));
        }
        for at in 0..plan.nodes.len() {
            builder = edge(builder, plan, at);
        }
        builder.entry(plan.nodes[0].name())
    }

    pub(crate) fn inner(&self, plan: &Plan) -> Graph<Snapshot> {
        self.graph(plan).compile().unwrap()
    }

    fn node(&self, builder: Builder, node: &Node) -> Builder {
        let name = node.name();
        match &node.kind {
            Kind::Work(work) => {
                let job = Job { work: *work, id: node.id, name: name.clone(), turns: node.turns() };
                builder.node(name, self.body(job))
            }
            Kind::Sub(plan) => {
                let same = |names: &[&'static str]| names.iter().map(|it| (*it, *it)).collect::<Vec<_>>();
                let inwards = same(&INWARDS).into_iter().chain([("n", "n")]);
                let projection = Projection::default().inputs(inwards).outputs(same(&OUTWARDS));
                builder.subgraph(name, &self.inner(plan), projection)
            }
            Kind::Fan(fan) => builder.fan_out(name, self.fan(node.id, fan)),
            Kind::Fork(fork) => builder.branches(name, self.fork(fork)),
        }
    }

    fn fan(&self, id: u32, fan: &Fan) -> FanOut<Snapshot> {
        let made = FanOut::over(&self.inner(&fan.inner));
        let made = match fan.count {
            Some(count) => made.count(count.into()).input("n", "n"),
            None => made.items("items", "n"),
        };
        let made = INWARDS.iter().fold(made, |made, name| made.input(*name, *name));
        let made = match fan.limit {
            Some(limit) => made.concurrency(limit.into()),
            None => made.unbounded(),
        };
        let made = made
            .collect("log", "rows")
            .extra_output("results", "acc")
            .extra_output("nested", "rows")
            .count_field("count")
            .on_empty(EmptyFanOutPolicy::Noop)
            .error_policy(policy(fan.collect))
            .errors_field("errors")
            .error_record(|index, _| json!(index));
        wrapped!(made, fan.chain, (id, false, self.jitters), |it: FanOut<Snapshot>, wrap| it
            .instance_middleware(wrap))
    }

    fn fork(&self, fork: &Fork) -> Branches<Snapshot> {
        let none = Branches::new()
            .error_policy(policy(fork.collect))
            .errors_field("errors")
            .error_record(|name, _| json!(name));
        fork.branches.iter().enumerate().fold(none, |all, (at, branch)| {
            all.branch(branch.name(), self.branch(branch, self.drops && at == 0))
        })
    }

    fn branch(&self, branch: &plan::Branch, drops: bool) -> Branch<Snapshot> {
        let made = match &branch.doing {
            Doing::Call(work) => {
                let job = Job { work: *work, id: branch.id, name: branch.name(), turns: false };
                Branch::new().call(self.body(job))
            }
            Doing::Graph(plan) => {
                let made = Branch::new().subgraph(&self.inner(plan));
                let made = INWARDS.iter().chain(&["n"]).fold(made, |made, name| made.input(*name, *name));
                CONTRIBUTES.iter().fold(made, |made, name| made.output(*name, *name))
            }
        };
        let made = match branch.when {
            When::Always => made,
            When::Never => made.when(|_| false),
            When::Odd => made.when(|state: &Snapshot| number(state, "acc") % 2 == 1),
        };
        let made = if drops { made.middleware(dropping()) } else { made };
        wrapped!(made, branch.chain, (branch.id, false, self.jitters), |it: Branch<Snapshot>, wrap| it
            .middleware(wrap))
    }
}

fn policy(collect: bool) -> ErrorPolicy {
    if collect { ErrorPolicy::Collect } else { ErrorPolicy::FailFast }
}

/// Leads a node to the next one, or where it jumps to.
fn edge(builder: Builder, plan: &Plan, at: usize) -> Builder {
    let node = &plan.nodes[at];
    let target = |at: usize| plan.nodes.get(at).map_or(Target::End, |it| Target::Node(it.name()));
    let next = target(at + 1);
    match node.jump {
        Jump::None if matches!(next, Target::End) => builder.edge(node.name(), END),
        Jump::None => builder.edge(node.name(), next),
        Jump::Back { to, until } => {
            let back = plan.nodes.iter().position(|it| it.id == to).map_or_else(|| next.clone(), target);
            let turns_back = move |state: &Snapshot| number(state, "turns") < i64::from(until);
            let choose = move |state: &Snapshot| if turns_back(state) { back.clone() } else { next.clone() };
            builder.conditional_edge(node.name(), choose)
        }
        Jump::Skip => {
            let over = target(at + 2);
            let skips = |state: &Snapshot| number(state, "acc") % 2 == 0;
            builder.conditional_edge(
                node.name(),
                move |it: &Snapshot| if skips(it) { over.clone() } else { next.clone() },
            )
        }
    }
}
