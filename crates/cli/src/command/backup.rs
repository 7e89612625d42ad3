//! `singletree backup`: a copy of the database while it is in use.

use std::io;

use singletree::SqliteStore;

use crate::args::Backup;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::{self, PrintedCommandEffect};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;

/// Runs the command, beside a writer or alone.
pub(crate) async fn run_backup_command(args: Backup) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let database = place.require_file("copy a PostgreSQL database with pg_dump")?;
    if args.file.exists() {
        let source = io::Error::from(io::ErrorKind::AlreadyExists);
        return Err(Error::Place { doing: "make the backup", path: args.file, source });
    }
    let failed = |source| Error::Open { source };
    let store = SqliteStore::open_read_only(database).await.map_err(failed)?;
    store.backup(&args.file).await.map_err(failed)?;
    store.close().await;
    let file = args.file.display().to_string();
    let mut screen = TerminalOutput::standard_output();
    match args.common.json {
        true => json::print_json(&mut screen, &PrintedCommandEffect::Backup(&file))?,
        false => screen.write_line(&format!("copied to {file}"))?,
    }
    Ok(COMPLETED)
}
