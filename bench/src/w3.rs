//! w3: the engine alone, without a store: the cost of a node.

use serde_json::json;
use singletree::Graph;
use singletree::engine::{InvokeOptions, RunOutcome};

use crate::agents::{CounterState, build_counter_line};
use crate::args::{Args, Variant};
use crate::measure::{ResourceReading, ResourceUsage, figures_from_json, median, peak_rss_mib};
use crate::{Failure, Figures, ensure};

/// Runs that are not measured.
const WARM_UP: usize = 3;

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    ensure(args.variant == Variant::None, || "w3 has no store: --variant none".into())?;
    ensure(args.nodes > 0 && args.iters > 0, || "w3 needs nodes and runs".into())?;
    let graph = build_counter_line(args.nodes)?;
    for _ in 0..WARM_UP {
        run_counter_line(&graph, args.nodes).await?;
    }
    let (mut wall_us, mut cpu_us) = (Vec::new(), Vec::new());
    for _ in 0..args.iters {
        let span = run_counter_line(&graph, args.nodes).await?;
        wall_us.push(span.wall_s / args.nodes as f64 * 1e6);
        cpu_us.push(span.cpu_s / args.nodes as f64 * 1e6);
    }
    Ok(figures_from_json(json!({
        "us_per_node": median(&wall_us),
        "cpu_us_per_node": median(&cpu_us),
        "us_per_node_min": wall_us.iter().copied().fold(f64::INFINITY, f64::min),
        "us_per_node_max": wall_us.iter().copied().fold(0.0, f64::max),
        "nodes": args.nodes,
        "iters": args.iters,
        "db_bytes": 0,
        "peak_rss_mib": peak_rss_mib()?,
    })))
}

async fn run_counter_line(graph: &Graph<CounterState>, nodes: usize) -> Result<ResourceUsage, Failure> {
    let before = ResourceReading::now();
    let outcome = graph.invoke(CounterState::update().x(0), InvokeOptions::new()).await?;
    let span = before.elapsed_usage();
    let RunOutcome::Completed(done) = outcome else { return Err("the line did not end".into()) };
    ensure(done.state.x == nodes as i64, || format!("the line counted {}", done.state.x))?;
    Ok(span)
}
