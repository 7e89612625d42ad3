//! The command line as it is parsed, and how to say that it is wrong.

use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use crate::args::Args;

/// Parses the command line; ends the process where there is nothing to run.
pub(crate) fn parse_arguments() -> Args {
    let told = |error: clap::Error| -> ! { error.exit() };
    let line = || std::env::args_os();
    let args = Args::command().try_get_matches_from(line());
    // The full usages take time to build, so they are built only after a mistake.
    let args: Result<ArgMatches, clap::Error> = match args {
        Err(error) if error.use_stderr() => set_plain_usages(Args::command()).try_get_matches_from(line()),
        parsed => parsed,
    };
    let args = args.unwrap_or_else(|args| told(args));
    Args::from_arg_matches(&args)
        .unwrap_or_else(|from_arg_matches| told(from_arg_matches.format(&mut Args::command())))
}

/// Gives every command the usage of its help. Otherwise an error shows a usage made of the typed arguments, which
/// lists options as if they were required.
fn set_plain_usages(mut root: Command) -> Command {
    root.build();
    with_help_usage(root)
}

fn with_help_usage(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim_start().to_owned();
    command.override_usage(usage).mut_subcommands(with_help_usage)
}
