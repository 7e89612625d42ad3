//! streams: many turns whose answers are on their way at the same time; the memory that they hold, the server
//! included.

use futures_util::future::try_join_all;
use serde_json::json;

use crate::args::Args;
use crate::calls::{asking, listened};
use crate::measure::{ResourceReading, figures, peak_rss_mib};
use crate::mock::MockModelServer;
use crate::store::{self, OpenedChat};
use crate::{Failure, Figures, ensure};

pub(crate) async fn run(args: &Args) -> Result<Figures, Failure> {
    ensure(args.sessions > 0, || "streams needs sessions".into())?;
    // No answer goes on before all have begun.
    let mock = MockModelServer::start(&[], args.sessions)?;
    let OpenedChat { chat, .. } = store::open(args, asking(&mock, "held", true)?).await?;
    let names: Vec<_> = (0..args.sessions).map(|n| format!("s{n}")).collect();
    let idle = peak_rss_mib()?;
    let before = ResourceReading::take();
    try_join_all(names.iter().map(|session| listened(&chat, session, 2))).await?;
    let span = before.span();
    let peak = peak_rss_mib()?;
    Ok(figures(json!({
        "streams": args.sessions,
        "wall_s": span.wall_s,
        "cpu_ms_per_stream": span.cpu_s / args.sessions as f64 * 1e3,
        "idle_rss_mib": idle,
        "peak_rss_mib": peak,
        "kib_per_stream": (peak - idle) * 1024.0 / args.sessions as f64,
    })))
}
