//! `singletree man DIR`: the manual pages, for those who make packages.

use std::fs;

use clap::CommandFactory;

use crate::args::{Args, Man};
use crate::error::{Error, Result};
use crate::exit::COMPLETED;

/// Writes a page for each command that is not hidden.
pub(super) fn run_man_command(args: &Man) -> Result<u8> {
    let mut tree = Args::command().disable_help_subcommand(true);
    tree.build();
    let mut next = vec![tree];
    while let Some(command) = next.pop() {
        next.extend(command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned());
        let page = clap_mangen::Man::new(command);
        let path = args.folder.join(page.get_filename());
        let place = |source| Error::Place { doing: "write", path: path.clone(), source };
        let mut text = Vec::new();
        page.render(&mut text).map_err(place)?;
        fs::write(&path, text).map_err(place)?;
    }
    Ok(COMPLETED)
}
