//! `singletree telemetry`.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Subcommand;

use super::Common;

/// `singletree telemetry`.
#[derive(Debug, Subcommand)]
pub(crate) enum Telemetry {
    /// Show how many turns of each tenant wait to be exported. Works beside a running server.
    Status {
        #[command(flatten)]
        common: Common,
    },
    /// Send the traces of turns of a time that is over, whether they were sent before or not. Works beside a running server.
    ///
    /// Spans that a receiver has already have the same ids. Headers, profile and sampling are those of [telemetry].
    Backfill {
        /// Turns that ended at this time or later: as in 2026-11-28T09:00:00Z, or a span before now, as in 2h.
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        since: SystemTime,
        /// Turns that ended at this time or earlier; by default all until now.
        #[arg(long, value_name = "TIME", value_parser = parse_time)]
        until: Option<SystemTime>,
        /// Where to, in place of the endpoint of [telemetry], and without its headers.
        #[arg(long, value_name = "URL")]
        to: Option<String>,
        /// The file of the agents, with the table [telemetry]; by default singletree.toml in this folder.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
}

impl Telemetry {
    /// Returns what all of them take.
    pub(crate) fn common_options(&self) -> &Common {
        match self {
            Self::Status { common } | Self::Backfill { common, .. } => common,
        }
    }
}

/// Reads a time, or a span before now.
fn parse_time(text: &str) -> Result<SystemTime, String> {
    if let Ok(time) = humantime::parse_rfc3339_weak(text) {
        return Ok(time);
    }
    let span = humantime::parse_duration(text);
    let before = span.ok().and_then(|span| SystemTime::now().checked_sub(span));
    before
        .ok_or_else(|| "write a time, as in 2026-11-28T09:00:00Z, or a span before now, as in 2h".to_owned())
}
