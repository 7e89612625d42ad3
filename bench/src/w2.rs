//! w2: many sessions, some at a time; the turns of one session in order.

use std::cell::{Cell, RefCell};

use futures_util::future::try_join_all;
use serde_json::json;

use crate::agents::constant;
use crate::args::Args;
use crate::disk::db_bytes;
use crate::measure::{ResourceReading, figures, peak_rss_mib, percentile};
use crate::store::{self, OpenedChat};
use crate::w1::{check_stored, turn};
use crate::{Failure, Figures, ensure};

pub(crate) async fn run(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open(args, constant()?).await?;
    let (next, latencies) = (Cell::new(0), RefCell::new(Vec::new()));
    let worker = || async {
        loop {
            let session = next.replace(next.get() + 1);
            if session >= args.sessions {
                return Ok::<_, Failure>(());
            }
            for n in 0..args.per_session {
                let before = ResourceReading::take();
                turn(&chat, &name(session), n).await?;
                latencies.borrow_mut().push(before.span().wall_s);
            }
        }
    };
    let before = ResourceReading::take();
    try_join_all((0..args.concurrency).map(|_| worker())).await?;
    let span = before.span();
    for session in 0..args.sessions {
        check_stored(&chat, &name(session), args.per_session).await?;
    }
    let latencies = latencies.into_inner();
    let turns = latencies.len();
    ensure(turns == args.sessions * args.per_session, || format!("{turns} turns were run"))?;
    Ok(figures(json!({
        "turns": turns,
        "turns_per_s": turns as f64 / span.wall_s,
        "cpu_ms_per_turn": span.cpu_s / turns as f64 * 1e3,
        "p50_ms": percentile(&latencies, 50.0) * 1e3,
        "p99_ms": percentile(&latencies, 99.0) * 1e3,
        "db_bytes": db_bytes(&args.db)?,
        "peak_rss_mib": peak_rss_mib()?,
    })))
}

fn name(session: usize) -> String {
    format!("s{session}")
}
