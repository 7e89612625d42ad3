//! w1 in blocks, so that another program can alternate with it turn and turn about: process and file stay open.

use std::io::BufRead as _;

use serde_json::json;

use crate::agents::build_reply_graph;
use crate::args::Args;
use crate::measure::{ResourceReading, figures_from_json};
use crate::store::{self, OpenedChat};
use crate::w1::{SESSION, check_stored_messages, run_checked_turn};
use crate::{Failure, Figures, print_json_line};

pub(crate) async fn run_workload(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open_chat_variant(args, build_reply_graph()?).await?;
    let mut turns = 0;
    // Nothing else runs between blocks: waiting for the next one may hold the thread.
    for line in std::io::stdin().lock().lines() {
        line?;
        let before = ResourceReading::now();
        for n in turns..turns + args.turns {
            run_checked_turn(&chat, SESSION, n).await?;
        }
        let span = before.elapsed_usage();
        turns += args.turns;
        print_json_line(&json!({ "turns": args.turns, "wall_s": span.wall_s, "cpu_s": span.cpu_s }))?;
    }
    check_stored_messages(&chat, SESSION, turns).await?;
    Ok(figures_from_json(json!({ "turns": turns })))
}
