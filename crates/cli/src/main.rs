//! The binary `singletree`: durable chat in a terminal, and the same for scripts.
//!
//! It is the composition root: only here are a store and an agent chosen, the environment read and the terminal known
//! (INV-17).

mod args;
mod artifact_shelf;
mod caller_trace;
mod campaigns;
mod conversation_store;
mod erasure_log;
mod error;
mod exit;
mod json;
mod log;
mod narration_screen;
mod operator;
mod place;
mod ports;
mod print;
mod served;
mod serving;
mod shell_word;
mod store_url;
mod system;
mod usage;
mod who;
mod wire;

mod ask;
mod follow;
mod hint;
mod prompt;
mod traces;
mod turn_view;

mod command;

use std::process::ExitCode;

use clap::CommandFactory;
use singletree::env::TraceHeaders;

use crate::args::Args;
use crate::caller_trace::read_caller_trace;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::log::write_with_timeout;
use crate::print::TerminalOutput;

/// A turn is many small allocations, and hundreds of turns run at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = usage::parse_arguments();
    let json = args.command.as_ref().is_some_and(args::Command::wants_json);
    match run_arguments(args) {
        Ok(code) => code,
        Err(error) => {
            let exit = error.exit_code();
            write_with_timeout(move || {
                print_error(&error, json);
            });
            exit
        }
    }
    .into()
}

fn run_arguments(args: Args) -> Result<u8> {
    let Some(command) = args.command else {
        TerminalOutput::standard_output().write_line(&Args::command().render_help().to_string())?;
        return Ok(COMPLETED);
    };
    // One thread runs everything; the store and the line editor have their own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|source| Error::Input { source })?;
    let trace = read_caller_trace(&command);
    runtime.block_on(TraceHeaders::scope(trace, command::run_command(command)))
}

/// Prints an error: one line, or one JSON object.
pub(crate) fn print_error(error: &Error, json: bool) -> u8 {
    let told = if json {
        json::print_json(
            &mut TerminalOutput::standard_output(),
            &json::PrintedErrorDocument::from_error(error),
        )
    } else if let Some(report) = error.config_report() {
        // Each mistake has lines of its own.
        TerminalOutput::standard_error().write_config_report(error.category(), report)
    } else {
        error.show_error(&mut TerminalOutput::standard_error())
    };
    // Where nobody reads, nobody can be told.
    told.unwrap_or_default();
    error.exit_code()
}
