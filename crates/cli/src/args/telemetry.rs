//! `singletree telemetry`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

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
        #[arg(long, value_name = "TIME")]
        since: PastTime,
        /// Turns that ended at this time or earlier; by default all until now.
        #[arg(long, value_name = "TIME")]
        until: Option<PastTime>,
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

/// A time, or a span before now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PastTime {
    At(SystemTime),
    Before(Duration),
}

impl FromStr for PastTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = humantime::parse_rfc3339_weak(text).map(Self::At);
        at.or_else(|_| humantime::parse_duration(text).map(Self::Before)).map_err(|_| {
            "write a time, as in 2026-11-28T09:00:00Z, or a span before now, as in 2h".to_owned()
        })
    }
}
