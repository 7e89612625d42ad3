//! Arguments of `sim`.

use std::path::PathBuf;

/// `singletree sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Sim {
    /// How many seeds to run.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) seeds: u64,
    /// The first of them.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: u64,
    /// Instead: until so many hours of simulated time have passed in which work was open.
    #[arg(long, value_name = "H", conflicts_with = "seeds")]
    pub(crate) hours: Option<f64>,
    /// Only this seed.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "from", "hours"])]
    pub(crate) seed: Option<u64>,
    /// Print everything that happens in it, each line with its simulated time in seconds.
    #[arg(long, requires = "seed")]
    pub(crate) trace: bool,
    /// Stop at the first seed that fails.
    #[arg(long, conflicts_with = "seed")]
    pub(crate) first: bool,
    /// Instead: plant faults by rule in the commits, one after the other, each under at most so many seeds, and print how
    /// many are found.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "seed", "hours", "first"])]
    pub(crate) plant: Option<u64>,
    /// Instead of the simulation's own agents: those of this file, with models whose answers follow from the seed and with
    /// simulated tools of the same names, schemas and effects. A tool that is not idempotent is reported when its effect
    /// stays unknown or happens twice. MCP servers are asked for their tools, and no tool is called.
    #[arg(long, value_name = "FILE", conflicts_with = "plant")]
    pub(crate) config: Option<PathBuf>,
    /// How many processes share the store, each of them killed, frozen and started again. Campaigns are simulated in one
    /// process only.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5), conflicts_with = "plant")]
    pub(crate) nodes: u8,
    /// Print one JSON document, also for errors.
    #[arg(long)]
    pub(crate) json: bool,
}
