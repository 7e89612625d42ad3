//! The binary `singletree`: durable chat in a terminal, and the same for scripts.
//!
//! It is the composition root: only here are a store and an agent chosen, the environment read and the terminal known
//! (INV-17).

mod args;
mod erasure_log;
mod error;
mod exit;
mod json;
mod log;
mod operator;
mod place;
mod ports;
mod print;
mod served;
mod serving;
mod shell_word;
mod system;
mod usage;
mod who;
mod wire;

mod ask;
mod follow;
mod hint;
mod prompt;
mod turn_view;

mod command;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Args;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::log::say_soon;
use crate::print::TerminalOutput;

/// A turn is many small allocations, and hundreds of turns run at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = usage::parse();
    let json = args.command.as_ref().is_some_and(args::Command::wants_json);
    match run(args) {
        Ok(code) => code,
        Err(error) => {
            let exit = error.exit();
            say_soon(move || {
                report(&error, json);
            });
            exit
        }
    }
    .into()
}

fn run(args: Args) -> Result<u8> {
    let Some(command) = args.command else {
        TerminalOutput::out().line(&Args::command().render_help().to_string())?;
        return Ok(COMPLETED);
    };
    // One thread runs everything; the store and the line editor have their own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| Error::Input { source })?.block_on(command::run(command))
}

/// Prints an error: one line, or one JSON object.
pub(crate) fn report(error: &Error, json: bool) -> u8 {
    let told = if json {
        json::print(&mut TerminalOutput::out(), &json::PrintedErrorDocument::of(error))
    } else if let Some(report) = error.report() {
        // Each mistake has lines of its own.
        TerminalOutput::err().report(error.category(), report)
    } else {
        error.show(&mut TerminalOutput::err())
    };
    // Where nobody reads, nobody can be told.
    told.unwrap_or_default();
    error.exit()
}
