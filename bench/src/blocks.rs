//! w1 in blocks, so that another program can alternate with it turn and turn about: process and file stay open.

use std::io::BufRead as _;

use serde_json::json;

use crate::agents::constant;
use crate::args::Args;
use crate::measure::{ResourceReading, figures};
use crate::store::{self, OpenedChat};
use crate::w1::{SESSION, check_stored, turn};
use crate::{Failure, Figures, print};

pub(crate) async fn run(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open(args, constant()?).await?;
    let mut turns = 0;
    // Nothing else runs between blocks: waiting for the next one may hold the thread.
    for line in std::io::stdin().lock().lines() {
        line?;
        let before = ResourceReading::take();
        for n in turns..turns + args.turns {
            turn(&chat, SESSION, n).await?;
        }
        let span = before.span();
        turns += args.turns;
        print(&json!({ "turns": args.turns, "wall_s": span.wall_s, "cpu_s": span.cpu_s }))?;
    }
    check_stored(&chat, SESSION, turns).await?;
    Ok(figures(json!({ "turns": turns })))
}
