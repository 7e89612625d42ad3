//! w2: many sessions, some at a time; the turns of one session in order.

use std::cell::{Cell, RefCell};

use futures_util::future::try_join_all;
use serde_json::json;

use crate::agents::build_reply_graph;
use crate::args::Args;
use crate::disk::database_bytes;
use crate::measure::{ResourceReading, figures_from_json, peak_rss_mib, percentile};
use crate::store::{self, OpenedChat};
use crate::w1::{check_stored_messages, run_checked_turn};
use crate::{Failure, Figures, ensure};

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open_chat_variant(args, build_reply_graph()?).await?;
    let (next, latencies) = (Cell::new(0), RefCell::new(Vec::new()));
    let worker = || async {
        loop {
            let session = next.replace(next.get() + 1);
            if session >= args.sessions {
                return Ok::<_, Failure>(());
            }
            for n in 0..args.per_session {
                let before = ResourceReading::now();
                run_checked_turn(&chat, &session_name(session), n).await?;
                latencies.borrow_mut().push(before.elapsed_usage().wall_s);
            }
        }
    };
    let before = ResourceReading::now();
    try_join_all((0..args.concurrency).map(|_| worker())).await?;
    let span = before.elapsed_usage();
    for session in 0..args.sessions {
        check_stored_messages(&chat, &session_name(session), args.per_session).await?;
    }
    let latencies = latencies.into_inner();
    let turns = latencies.len();
    ensure(turns == args.sessions * args.per_session, || format!("{turns} turns were run"))?;
    Ok(figures_from_json(json!({
        "turns": turns,
        "turns_per_s": turns as f64 / span.wall_s,
        "cpu_ms_per_turn": span.cpu_s / turns as f64 * 1e3,
        "p50_ms": percentile(&latencies, 50.0) * 1e3,
        "p99_ms": percentile(&latencies, 99.0) * 1e3,
        "db_bytes": database_bytes(&args.db)?,
        "peak_rss_mib": peak_rss_mib()?,
    })))
}

fn session_name(session: usize) -> String {
    format!("s{session}")
}
