//! The command line, which all peers share.

use std::fmt;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures singletree: one workload on one database file.
#[derive(Debug, Clone, Parser)]
#[command(name = "singletree-bench")]
pub(crate) struct Args {
    /// What is measured.
    #[arg(value_enum)]
    pub(crate) workload: Workload,
    /// The database; it is made if there is none. For `postgres` its address.
    #[arg(long, value_name = "FILE")]
    pub(crate) db: PathBuf,
    /// Where sessions are kept, and how durably.
    #[arg(long, value_enum, default_value_t = Variant::Full)]
    pub(crate) variant: Variant,
    /// The runtime that runs the chat.
    #[arg(long, value_enum, default_value_t = RuntimeFlavor::CurrentThread)]
    pub(crate) runtime: RuntimeFlavor,
    /// How many turns w1 runs, one block, and each part of `calls`.
    #[arg(long, default_value_t = 1000)]
    pub(crate) turns: usize,
    /// After which turns w1 takes a reading.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 1000, 3000])]
    pub(crate) marks: Vec<usize>,
    /// How many sessions w2, w4 and `streams` have.
    #[arg(long, default_value_t = 1000)]
    pub(crate) sessions: usize,
    /// How many turns each session of w2 has.
    #[arg(long, default_value_t = 5)]
    pub(crate) per_session: usize,
    /// How many sessions of w2 are answered at a time.
    #[arg(long, default_value_t = 64)]
    pub(crate) concurrency: usize,
    /// How many bytes of conversation each call of `calls` sends.
    #[arg(long, default_value_t = 100 << 10)]
    pub(crate) prompt_bytes: usize,
    /// How many deltas a long answer of `calls` has.
    #[arg(long, default_value_t = 2000)]
    pub(crate) deltas: usize,
    /// How many nodes the line of w3 has.
    #[arg(long, default_value_t = 100)]
    pub(crate) nodes: usize,
    /// How often w3 runs it.
    #[arg(long, default_value_t = 30)]
    pub(crate) iters: usize,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// One session, turns one after the other.
    W1,
    /// Many sessions, some at a time.
    W2,
    /// A line of trivial nodes.
    W3,
    /// Every session suspends.
    W4Suspend,
    /// In a new process, every session is resumed.
    W4Resume,
    /// Open, one turn, exit; timed from outside.
    W5,
    /// The engine beside w3: observers, checkpoints, fan-out, long runs and long histories.
    Engine,
    /// A turn that asks a model over HTTP, beside a bare call with the same bytes; and what a delta costs.
    Calls,
    /// So many turns whose answers stream at the same time.
    Streams,
    /// As w1, in blocks: one of `--turns` turns for each line that is read, answered by one line.
    Blocks,
}

/// Where sessions are kept, and how durably.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Variant {
    /// The SQLite store and the chat as they are by default: every commit synced, level `turn`.
    Full,
    /// As `full`, with commits that a power loss may take.
    Normal,
    /// As `full`, with the memory store.
    Memory,
    /// As `full`, at level `step`.
    Step,
    /// As `full`, without records for telemetry.
    Unrecorded,
    /// As `full`, with the traces of all turns exported to a receiver that takes them at once.
    Exported,
    /// As `full`, over the PostgreSQL database that `--db` names.
    Postgres,
    /// No store (w3).
    None,
}

/// The runtime that runs the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeFlavor {
    /// One thread runs everything, as in the examples and in the terminal.
    CurrentThread,
    /// A thread for each processor, as in the server.
    MultiThread,
}

impl fmt::Display for RuntimeFlavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value_name(f, self)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value_name(f, self)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value_name(f, self)
    }
}

fn write_value_name(f: &mut fmt::Formatter<'_>, value: &impl ValueEnum) -> fmt::Result {
    value.to_possible_value().map_or(Ok(()), |possible_value| f.write_str(possible_value.get_name()))
}
