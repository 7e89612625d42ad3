//! The engine beside w3: observers, checkpoints, fan-out, long runs and long histories. One run measures all of them.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use singletree::durable::{BoxError, BoxFuture, Checkpointer};
use singletree::engine::{GraphEvent, InvokeOptions, Limits, Observer, RunOutcome, Target};
use singletree::store_sqlite::CommitDurability as Synced;
use singletree::{ChatMessage, Ctx, END, FanOut, Graph, Messages, NodeResult, SqliteStore, State};
use stats_alloc::INSTRUMENTED_SYSTEM;

use crate::agents::{CounterState, build_counter_line, increment_counter, user_message_text};
use crate::args::Args;
use crate::measure::{ResourceReading, ResourceUsage, figures_from_json, median};
use crate::{Failure, Figures, ensure};

/// How many instances the wide fan-out has.
const WIDE: i64 = 10_000;

/// How many steps the long run takes, how many are measured together, and from which on.
const LONG: usize = 100_000;
const STRETCH: usize = 1_000;
const EARLY: usize = 10;

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    let folder = args.db.parent().ok_or("the database is in no folder")?;
    let (early, late) = measure_long_run(&folder.join("long.db")).await?;
    Ok(figures_from_json(json!({
        "observed_us_per_node": measure_observed_line(args.iters).await?,
        "checkpoint_us_normal": measure_checkpoints(args, &folder.join("normal.db"), Synced::Normal).await?.0,
        "checkpoint_by_raw_commit": measure_checkpoints(args, &folder.join("full.db"), Synced::Full).await?.1,
        "fan_out_ms": measure_wide_fan_out(args.iters).await?,
        "live_bytes_1000_steps": measure_live_bytes(1_000).await?,
        "live_bytes_100000_steps": measure_live_bytes(LONG).await?,
        "late_step_cpu_by_early": late.cpu_us / early.cpu_us,
        "late_step_bytes_by_early": late.bytes / early.bytes,
        "step_cpu_us_early": early.cpu_us,
        "long_history_by_short": measure_large_history(args.iters, 100_000).await? / measure_large_history(args.iters, 10).await?,
    })))
}

#[derive(Debug)]
struct DiscardingObserver;

impl Observer for DiscardingObserver {
    fn observe_event<'a>(&'a self, _: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }
}

fn microseconds_per_node(span: ResourceUsage, nodes: usize) -> f64 {
    span.wall_s / nodes as f64 * 1e6
}

/// A line of a hundred nodes with one observer, until it has been told everything.
async fn measure_observed_line(iters: usize) -> Result<f64, Failure> {
    let graph = build_counter_line(100)?;
    let mut taken = Vec::new();
    for _ in 0..iters {
        let before = ResourceReading::now();
        let options = InvokeOptions::new().observer(DiscardingObserver);
        let outcome = graph.invoke(CounterState::update().x(0), options).await?;
        graph.drain(None).await?;
        taken.push(microseconds_per_node(before.elapsed_usage(), 100));
        ensure(matches!(outcome, RunOutcome::Completed(it) if it.state.x == 100), || {
            "the line broke".into()
        })?;
    }
    Ok(median(&taken))
}

/// Measures the time that a checkpoint after each node of a line adds to a node, in microseconds; and its ratio to
/// the time of a raw commit of one row in another file beside it, in alternation.
async fn measure_checkpoints(args: &Args, path: &Path, synced: Synced) -> Result<(f64, f64), Failure> {
    const NODES: usize = 100;
    let store = SqliteStore::options(path).durability(synced).open().await?;
    let keeper: Arc<dyn Checkpointer> = Arc::new(store.clone());
    let (bare, kept) =
        (build_counting_graph(NODES, None, |_| ())?, build_counting_graph(NODES, Some(keeper), |_| ())?);
    let raw = RawCommitTable::open(&path.with_extension("raw"), synced)?;
    let (mut added, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..args.iters {
        let (with, without) =
            (measure_counter_line(&kept, NODES).await?, measure_counter_line(&bare, NODES).await?);
        let commit = raw.measure_commits(NODES)?;
        added.push(with - without);
        ratios.push((with - without) / commit);
    }
    store.close().await;
    Ok((median(&added), median(&ratios)))
}

async fn measure_counter_line(graph: &Graph<CounterState>, nodes: usize) -> Result<f64, Failure> {
    let before = ResourceReading::now();
    let outcome = graph.invoke(CounterState::update().x(0), InvokeOptions::new()).await?;
    let taken = microseconds_per_node(before.elapsed_usage(), nodes);
    ensure(matches!(outcome, RunOutcome::Completed(it) if it.state.x == nodes as i64), || "it broke".into())?;
    Ok(taken)
}

/// A node that counts until it has run so often, and says before each step where it is.
fn build_counting_graph(
    steps: usize,
    checkpointer: Option<Arc<dyn Checkpointer>>,
    told: impl Fn(i64) + Send + Sync + 'static,
) -> Result<Graph<CounterState>, Failure> {
    let target = steps as i64;
    let count = move |cx: Ctx<CounterState>| {
        told(cx.state().x);
        increment_counter(cx)
    };
    let on = move |it: &CounterState| if it.x < target { Target::Node("count".into()) } else { Target::End };
    let limits = Limits { steps: steps as u64 + 1, ..Limits::default() };
    let builder = Graph::<CounterState>::builder().node("count", count).entry("count").limits(limits);
    let builder = builder.conditional_edge("count", on);
    let builder = checkpointer.into_iter().fold(builder, |it, keeper| it.checkpointer(keeper));
    Ok(builder.compile()?)
}

/// A table into which one row is put at a time.
struct RawCommitTable(rusqlite::Connection);

impl RawCommitTable {
    fn open(path: &Path, synced: Synced) -> Result<Self, Failure> {
        let raw = rusqlite::Connection::open(path)?;
        raw.pragma_update(None, "journal_mode", "WAL")?;
        raw.pragma_update(None, "synchronous", if synced == Synced::Full { "FULL" } else { "NORMAL" })?;
        raw.execute_batch("CREATE TABLE IF NOT EXISTS m (no INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
        Ok(Self(raw))
    }

    /// Returns how many microseconds a commit took, of so many.
    fn measure_commits(&self, count: usize) -> Result<f64, Failure> {
        let before = ResourceReading::now();
        for _ in 0..count {
            self.0.prepare_cached("INSERT INTO m (body) VALUES (?)")?.execute(["x".repeat(270)])?;
        }
        Ok(microseconds_per_node(before.elapsed_usage(), count))
    }
}

#[derive(Debug, State)]
struct FanOutState {
    #[state(append)]
    results: Vec<i64>,
}

#[derive(Debug, State)]
struct FanOutInstanceState {
    out: i64,
}

async fn run_fan_out_instance(_: Ctx<FanOutInstanceState>) -> NodeResult<FanOutInstanceState> {
    Ok(FanOutInstanceState::update().out(1))
}

async fn measure_wide_fan_out(iters: usize) -> Result<f64, Failure> {
    let inner = Graph::<FanOutInstanceState>::builder()
        .node("one", run_fan_out_instance)
        .edge("one", END)
        .entry("one")
        .compile()?;
    let fan = FanOut::over(&inner).count(WIDE).collect("out", "results");
    let graph =
        Graph::<FanOutState>::builder().fan_out("each", fan).edge("each", END).entry("each").compile()?;
    let mut taken = Vec::new();
    for _ in 0..iters {
        let before = ResourceReading::now();
        let outcome = graph.invoke(FanOutState::update(), InvokeOptions::new()).await?;
        taken.push(before.elapsed_usage().wall_s * 1e3);
        let RunOutcome::Completed(done) = outcome else { return Err("the fan-out did not end".into()) };
        let sum: i64 = done.state.results.iter().sum();
        ensure(sum == WIDE, || format!("{sum} of {WIDE} instances ran"))?;
    }
    Ok(median(&taken))
}

/// The bytes that a run without a checkpointer holds in its last step, beyond those before it.
async fn measure_live_bytes(steps: usize) -> Result<i64, Failure> {
    let held = || {
        let now = INSTRUMENTED_SYSTEM.stats();
        now.bytes_allocated as i64 - now.bytes_deallocated as i64
    };
    let at_end = Arc::new(AtomicI64::new(0));
    let (noted, last) = (at_end.clone(), steps as i64 - 1);
    let graph = build_counting_graph(steps, None, move |at| {
        if at == last {
            noted.store(held(), Ordering::Relaxed);
        }
    })?;
    let before = held();
    measure_counter_line(&graph, steps).await?;
    Ok(at_end.load(Ordering::Relaxed) - before)
}

/// The cost of a step with a checkpoint.
struct CheckpointStepCost {
    cpu_us: f64,
    bytes: f64,
}

/// The costs of a step near the beginning and near the end of a long run.
async fn measure_long_run(path: &Path) -> Result<(CheckpointStepCost, CheckpointStepCost), Failure> {
    let store = SqliteStore::options(path).durability(Synced::Normal).open().await?;
    let readings = Arc::new(Mutex::new(Vec::new()));
    let (noted, meter) = (readings.clone(), store.clone());
    let marks = [EARLY, EARLY + STRETCH, LONG - STRETCH - 1, LONG - 1];
    let graph = build_counting_graph(LONG, Some(Arc::new(store.clone())), move |at| {
        if marks.contains(&(at as usize)) {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push((ResourceReading::now(), meter.bytes_written()));
        }
    })?;
    measure_counter_line(&graph, LONG).await?;
    store.close().await;
    let readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
    let [first, second, third, last] = readings.as_slice() else {
        return Err("a mark was not passed".into());
    };
    let cost = |from: &(ResourceReading, u64), to: &(ResourceReading, u64)| CheckpointStepCost {
        cpu_us: from.0.usage_until(to.0).cpu_s / STRETCH as f64 * 1e6,
        bytes: (to.1 - from.1) as f64 / STRETCH as f64,
    };
    Ok((cost(first, second), cost(third, last)))
}

#[derive(Debug, State)]
struct HistoryState {
    #[state(append)]
    messages: Messages,
    x: i64,
}

/// Measures the time of a step, in microseconds, beside a history of so many messages to which it adds nothing.
async fn measure_large_history(iters: usize, messages: usize) -> Result<f64, Failure> {
    let passed = Arc::new(Mutex::new(Vec::new()));
    let (noted, last) = (passed.clone(), STRETCH as i64);
    let step = move |cx: Ctx<HistoryState>| {
        let at = cx.state().x;
        if at == 0 || at == last {
            noted.lock().unwrap_or_else(PoisonError::into_inner).push(ResourceReading::now());
        }
        async move { Ok(HistoryState::update().x(at + 1)) }
    };
    let on = move |it: &HistoryState| if it.x <= last { Target::Node("step".into()) } else { Target::End };
    let builder = Graph::<HistoryState>::builder().node("step", step).conditional_edge("step", on);
    let graph = builder.entry("step").compile()?;
    let said: Vec<_> = (0..messages).map(|at| ChatMessage::user(user_message_text(at))).collect();
    let mut taken = Vec::new();
    for _ in 0..iters {
        let initial = HistoryState::update().messages(said.clone()).x(0);
        let outcome = graph.invoke(initial, InvokeOptions::new()).await?;
        ensure(matches!(outcome, RunOutcome::Completed(it) if it.state.x == last + 1), || "it broke".into())?;
        let passed = std::mem::take(&mut *passed.lock().unwrap_or_else(PoisonError::into_inner));
        let [from, to] = passed.as_slice() else { return Err("a mark was not passed".into()) };
        taken.push(from.usage_until(*to).wall_s / STRETCH as f64 * 1e6);
    }
    Ok(median(&taken))
}
