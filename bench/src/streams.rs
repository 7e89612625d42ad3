//! streams: many turns whose answers are on their way at the same time; the memory that they hold, the server
//! included.

use futures_util::future::try_join_all;
use serde_json::json;

use crate::args::Args;
use crate::calls::{build_asking_agent, run_turn_with_listener};
use crate::measure::{ResourceReading, figures_from_json, peak_rss_mib};
use crate::mock::MockModelServer;
use crate::store::{self, OpenedChat};
use crate::{Failure, Figures, ensure};

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    ensure(args.sessions > 0, || "streams needs sessions".into())?;
    // No answer goes on before all have begun.
    let mock = MockModelServer::start(&[], args.sessions)?;
    let OpenedChat { chat, .. } =
        store::open_chat_variant(args, build_asking_agent(&mock, "held", true)?).await?;
    let names: Vec<_> = (0..args.sessions).map(|n| format!("s{n}")).collect();
    let idle = peak_rss_mib()?;
    let before = ResourceReading::now();
    try_join_all(names.iter().map(|session| run_turn_with_listener(&chat, session, 2))).await?;
    let span = before.elapsed_usage();
    let peak = peak_rss_mib()?;
    Ok(figures_from_json(json!({
        "streams": args.sessions,
        "wall_s": span.wall_s,
        "cpu_ms_per_stream": span.cpu_s / args.sessions as f64 * 1e3,
        "idle_rss_mib": idle,
        "peak_rss_mib": peak,
        "kib_per_stream": (peak - idle) * 1024.0 / args.sessions as f64,
    })))
}
