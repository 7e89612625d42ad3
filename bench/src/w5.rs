//! w5: from the start of the process to its first durable turn; timed from outside.

use serde_json::json;

use crate::agents::constant;
use crate::args::Args;
use crate::measure::{figures, peak_rss_mib};
use crate::store::{self, OpenedChat};
use crate::w1::{SESSION, turn};
use crate::{Failure, Figures};

pub(crate) async fn run(args: &Args) -> Result<Figures, Failure> {
    let OpenedChat { chat, .. } = store::open(args, constant()?).await?;
    turn(&chat, SESSION, 0).await?;
    Ok(figures(json!({ "peak_rss_mib": peak_rss_mib()? })))
}
