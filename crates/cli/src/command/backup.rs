//! `singletree backup`: a copy of the database while it is in use.

use std::io;

use singletree::{SqliteStore, harness};

use crate::args::Backup;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::{self, Done};
use crate::place::Place;
use crate::print::Screen;

/// Runs the command, beside a writer or alone.
pub(crate) async fn run(args: Backup) -> Result<u8> {
    let place = Place::of(args.common.db.db.as_deref())?;
    if args.file.exists() {
        let source = io::Error::from(io::ErrorKind::AlreadyExists);
        return Err(Error::Place { doing: "make the backup", path: args.file, source });
    }
    let store = SqliteStore::read_only(place.db()).await.map_err(|source| Error::Open { source })?;
    let copied = store.backup(&args.file).await;
    store.close().await;
    copied.map_err(harness::Error::from)?;
    let file = args.file.display().to_string();
    let mut screen = Screen::out();
    match args.common.json {
        true => json::print(&mut screen, &Done::Backup(&file))?,
        false => screen.line(&format!("copied to {file}"))?,
    }
    Ok(COMPLETED)
}
