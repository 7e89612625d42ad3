//! Arguments of `torture` and of its processes.

use std::path::PathBuf;

use crate::store_url::StoreUrl;

/// `singletree torture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Torture {
    /// For how long.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) minutes: u64,
    /// Instead: until so many kills.
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    pub(crate) kills: Option<u64>,
    /// What the load is drawn from; the same seed asks for the same.
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// A new folder to work in, which is kept; by default a temporary one, which is kept when something is wrong.
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Instead of one process: so many over one PostgreSQL database, which are also stopped for longer than their lease, and
    /// whose connections are cut and whose writes are held up.
    #[arg(long, value_name = "N", requires = "store", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(crate) nodes: Option<u8>,
    /// The empty database for --nodes, with one host and without TLS; it keeps the data of the run.
    #[arg(long, value_name = "URL", requires = "nodes")]
    pub(crate) store: Option<StoreUrl>,
    /// With --nodes: a command that makes PostgreSQL crash and brings it back, run after every thirtieth kill.
    #[arg(long, value_name = "COMMAND", requires = "nodes")]
    pub(crate) restart_with: Option<String>,
    /// Print one JSON document, also for errors.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `singletree torture-stall`.
#[derive(Debug, clap::Args)]
pub(crate) struct TortureStall {
    /// For how many milliseconds.
    #[arg(value_name = "MS")]
    pub(crate) time: u64,
}

/// `singletree torture-child`.
#[derive(Debug, clap::Args)]
pub(crate) struct TortureChild {
    /// The database.
    #[arg(long, value_name = "FILE", required_unless_present = "node")]
    pub(crate) db: Option<PathBuf>,
    /// Its name beside other nodes over the PostgreSQL database that the environment names.
    #[arg(long, value_name = "NAME", conflicts_with = "db")]
    pub(crate) node: Option<String>,
    /// The lease in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    pub(crate) lease: u64,
    /// The log of effects.
    #[arg(long, value_name = "FILE")]
    pub(crate) effects: PathBuf,
    /// Do not sync commits: what the audit must notice.
    #[arg(long)]
    pub(crate) relaxed: bool,
    /// Which release of the second agent it has; every second one has a list field that the others do not have.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) release: u32,
    /// The commits that fail, and whether they land all the same: FROM:COUNT:before or FROM:COUNT:after.
    #[arg(long, value_name = "FAULTS")]
    pub(crate) fail_commits: Option<singletree_torture::CommitFaults>,
}
