//! `singletree import`: moves a database of SQLite into a PostgreSQL database.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use singletree::durable::archive::ArchiveTable;
use singletree::env::Env;
use singletree::{ImportCounts, PostgresOptions, SqliteStore};

use super::doctor::count_store_findings;
use crate::args::Import;
use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::place::{DatabaseLocation, DatabaseName};
use crate::print::TerminalOutput;
use crate::store_url::StoreUrl;

/// The printed result: how many rows of each table there are now.
#[derive(Debug, Serialize)]
struct PrintedImport {
    sessions: u64,
    rows: BTreeMap<&'static str, u64>,
}

/// Runs the command. The source is held like by a server, so that nothing is added to it meanwhile.
pub(crate) async fn run_import_command(args: Import) -> Result<u8> {
    let target = DatabaseLocation::from_options(&args.common.db)?;
    let DatabaseName::Postgres(url, _) = target.name() else {
        let why = "an import goes into a PostgreSQL database: name it with --store or --store-env";
        return Err(Error::Usage(why.to_owned()));
    };
    if !args.from.is_file() {
        return Err(Error::Usage(format!("there is no database {}", args.from.display())));
    }
    let failed = |source| Error::Open { source };
    let opened = SqliteStore::options(&args.from).command("singletree import").open().await;
    let source = opened.map_err(failed)?;
    let counts = import_sound_database(&args.from, &source, url).await;
    source.close().await;
    let counts = counts?;
    let imported = ConversationStore::open_read_only(&target).await?;
    let findings = count_store_findings(&imported).await;
    imported.close().await;
    match findings? {
        0 => show_counts(&counts, args.common.json),
        count => Err(Error::Unsound { database: url.shown().to_owned(), count, repair: None }),
    }
}

/// Copies all rows, unless the doctor finds something about them.
async fn import_sound_database(from: &Path, source: &SqliteStore, url: &StoreUrl) -> Result<ImportCounts> {
    let failed = |source| Error::Open { source };
    let count = count_store_findings(&ConversationStore::Sqlite(source.clone())).await?;
    if count > 0 {
        let repair = Some(from.to_owned());
        return Err(Error::Unsound { database: from.display().to_string(), count, repair });
    }
    let mut archive = source.read_archive().await.map_err(failed)?;
    let options = PostgresOptions::new(url.expose(), Env::from_system());
    options.import(archive.as_mut()).await.map_err(failed)
}

fn show_counts(counts: &ImportCounts, as_json: bool) -> Result<u8> {
    let count = |table: ArchiveTable| counts.get(&table).copied().unwrap_or_default();
    let sessions = count(ArchiveTable::Session);
    let mut screen = TerminalOutput::standard_output();
    if as_json {
        let rows = counts.iter().map(|(table, count)| (table.name(), *count)).collect();
        json::print_json(&mut screen, &PrintedImport { sessions, rows })?;
        return Ok(COMPLETED);
    }
    let (turns, documents) = (count(ArchiveTable::Turn), count(ArchiveTable::Document));
    screen.write_line(&format!(
        "imported {sessions} sessions with {turns} turns, and {documents} documents; no findings"
    ))?;
    Ok(COMPLETED)
}
