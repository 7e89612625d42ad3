//! `singletree completions SHELL`.

use clap::CommandFactory;

use crate::args::{Args, Completions};
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::print::TerminalOutput;

/// Prints the script that makes a shell complete this command line.
pub(super) fn run_completions_command(args: &Completions) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "singletree", &mut script);
    TerminalOutput::standard_output().write_line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(COMPLETED)
}
