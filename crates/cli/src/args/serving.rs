//! The command line of serving: a server, its keys, and a shell to talk to one.

use std::time::Duration;

use clap::{Subcommand, ValueEnum};

use super::{Common, Db, parse_server_url, parse_session_id};
use crate::who::Who;

/// `singletree serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// Where to listen; by default as the file says, else 127.0.0.1:8787. Port 0 is a free one.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// Where other servers of the same database reach this one; by default as the file says, else where it listens.
    #[arg(long, value_name = "URL", value_parser = parse_server_url)]
    pub(crate) address: Option<String>,
    /// Ask everybody for a key; where others than this machine reach the server, it is a must.
    #[arg(long)]
    pub(crate) auth: bool,
    /// Whether people are told in words what goes on; by default as the file says, else on.
    #[arg(long, value_name = "ON|OFF", value_enum)]
    pub(crate) narration: Option<Switch>,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) db: Db,
}

/// `singletree health`.
#[derive(Debug, clap::Args)]
pub(crate) struct Health {
    /// The server's address; by default that of the server that has the database open.
    #[arg(long, value_name = "URL", conflicts_with_all = ["db", "store", "store_env"])]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) db: Db,
}

/// `singletree shell`.
#[derive(Debug, clap::Args)]
pub(crate) struct Shell {
    /// The server, or the engine's own address; of a bare server the engine is at /v1/openharness.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8787")]
    pub(crate) url: String,
    /// The environment variable of the key; none is shown otherwise.
    #[arg(long, value_name = "NAME")]
    pub(crate) key_env: Option<String>,
    /// Which conversation; a new one otherwise.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    /// Which thread of it.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) conversation: Option<String>,
    /// Which procedure to follow.
    #[arg(long, value_name = "ID")]
    pub(crate) sop: Option<String>,
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// `singletree keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key, and print it: it is never shown again.
    Create {
        /// What people call it.
        #[arg(long, value_name = "NAME", default_value = "key")]
        name: String,
        /// What it may do; by default read, write and approve.
        #[arg(long = "scope", value_name = "SCOPE", value_enum)]
        scopes: Vec<ScopeName>,
        /// After what time it is good no more, as in 90d; never otherwise.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        expires: Option<Duration>,
        #[command(flatten)]
        of: KeysOf,
    },
    /// List keys, without their secrets.
    List {
        #[command(flatten)]
        of: KeysOf,
    },
    /// Give a key another secret, and print it; the old one stays good for a while.
    Rotate {
        /// The key's id.
        #[arg(value_name = "ID")]
        id: String,
        /// For how long the old secret stays good; 0s ends it at once.
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = humantime::parse_duration)]
        grace: Duration,
        /// End the old secret at once, its sign-ins and streams too: after a leak.
        #[arg(long, conflicts_with = "grace")]
        now: bool,
        #[command(flatten)]
        of: KeysOf,
    },
    /// Take a key back, for good.
    Revoke {
        /// The key's id.
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        of: KeysOf,
    },
}

/// Whose keys, and where.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct KeysOf {
    /// Whose keys; by default those of `default`, whose conversations `chat` and `send` have. With --url, by default the key's own.
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// A server elsewhere, asked with a key that may `admin`.
    #[arg(long, value_name = "URL", conflicts_with_all = ["db", "store", "store_env"], requires = "key_env")]
    pub(crate) url: Option<String>,
    /// The environment variable of that key.
    #[arg(long, value_name = "NAME", requires = "url")]
    pub(crate) key_env: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeName {
    /// Read sessions, turns, events, agents.
    Read,
    /// Send messages, cancel, steer, fork, upload.
    Write,
    /// Answer what waits for a person.
    Approve,
    /// Delete sessions, read usage and audits, pair devices, manage the tenant's keys.
    Admin,
}

impl Keys {
    /// Returns whose keys, and where.
    pub(crate) fn keyring_options(&self) -> &KeysOf {
        match self {
            Self::Create { of, .. }
            | Self::List { of }
            | Self::Rotate { of, .. }
            | Self::Revoke { of, .. } => of,
        }
    }
}
