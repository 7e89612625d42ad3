//! w5: from the start of the process to its first durable turn; timed from outside.

use serde_json::json;

use crate::agents::build_reply_graph;
use crate::args::Args;
use crate::measure::{figures_from_json, peak_rss_mib};
use crate::store::{self, OpenedChat};
use crate::w1::{SESSION, run_checked_turn};
use crate::{Failure, Figures};

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open_chat_variant(args, build_reply_graph()?).await?;
    run_checked_turn(&chat, SESSION, 0).await?;
    Ok(figures_from_json(json!({ "peak_rss_mib": peak_rss_mib()? })))
}
