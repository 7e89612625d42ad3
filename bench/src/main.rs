//! The program `singletree-bench`: the cost of a durable chat turn, measured through the public API with its
//! defaults.
//!
//! One run is one workload on one file; it checks its own results and prints one JSON object as its last line. The
//! command line and the keys are those of the peers that `compare.sh` runs beside it; keys of ours alone are extra
//! keys.

mod agents;
mod args;
mod blocks;
mod calls;
mod disk;
mod engine;
mod measure;
mod mock;
mod store;
mod streams;
mod w1;
mod w2;
mod w3;
mod w4;
mod w5;

use std::alloc::System;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use serde_json::{Map, Value};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

use crate::args::{Args, RuntimeFlavor, Workload};

/// The system's allocator, counting: the counter's own cost is in our figures.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Any failure: of the store, of the chat, or a wrong result.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The measurements of a workload.
pub(crate) type Figures = Map<String, Value>;

fn main() -> ExitCode {
    let args = Args::parse();
    match run_and_print(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell when this fails, too.
            drop(writeln!(std::io::stderr(), "error: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run_and_print(args: &Args) -> Result<(), Failure> {
    // One thread runs everything, as in the examples, or there are workers, as in the server; the store has threads of its
    // own.
    let mut builder = match args.runtime {
        RuntimeFlavor::CurrentThread => tokio::runtime::Builder::new_current_thread(),
        RuntimeFlavor::MultiThread => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let figures = runtime.block_on(async {
        match args.workload {
            Workload::W1 => w1::run_workload(args).await,
            Workload::W2 => w2::run_workload(args).await,
            Workload::W3 => w3::run_workload(args).await,
            Workload::W4Suspend => w4::run_suspensions(args).await,
            Workload::W4Resume => w4::run_resumptions(args).await,
            Workload::W5 => w5::run_workload(args).await,
            Workload::Engine => engine::run_workload(args).await,
            Workload::Calls => calls::run_workload(args).await,
            Workload::Streams => streams::run_workload(args).await,
            Workload::Blocks => blocks::run_workload(args).await,
        }
    })?;
    let mut line = Figures::new();
    line.insert("workload".into(), args.workload.to_string().into());
    line.insert("variant".into(), args.variant.to_string().into());
    line.insert("runtime".into(), args.runtime.to_string().into());
    line.extend(figures);
    print_json_line(&Value::Object(line))
}

/// Prints one line of JSON.
pub(crate) fn print_json_line(line: &Value) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// Checks a result: a workload that does not do its work has no figures.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(what().into()) }
}
