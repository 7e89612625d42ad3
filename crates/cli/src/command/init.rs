//! `singletree init`: a file to begin with.

use std::fs::OpenOptions;
use std::io::{self, Write};

use singletree::config::SAMPLE;

use crate::args::Init;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::{self, PrintedCommandEffect};
use crate::print::{TerminalOutput, TextStyle};

/// Runs the command. An existing file stays as it is.
pub(crate) fn run_init_command(args: &Init) -> Result<u8> {
    let path = &args.file;
    let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::Exists(path.clone()));
        }
        Err(source) => return Err(Error::Place { doing: "write", path: path.clone(), source }),
    };
    let written = file.write_all(SAMPLE.as_bytes()).and_then(|()| file.sync_all());
    written.map_err(|source| Error::Place { doing: "write", path: path.clone(), source })?;
    let mut screen = TerminalOutput::standard_output();
    let shown = path.display().to_string();
    if args.json {
        json::print_json(&mut screen, &PrintedCommandEffect::Written(&shown))?;
        return Ok(COMPLETED);
    }
    screen.write_line(&format!("written: {shown}"))?;
    screen.write_styled_line(
        TextStyle::Dim,
        "  next: set OPENAI_API_KEY, or choose another model in the file; then singletree check",
    )?;
    Ok(COMPLETED)
}
