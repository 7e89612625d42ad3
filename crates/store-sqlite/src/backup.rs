//! A copy of the file while somebody writes to it.

use std::fs::{self, OpenOptions};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use singletree_durable::Result;
use tokio::sync::oneshot;

use crate::error::{translate, unavailable};
use crate::lock::private;
use crate::open;

/// Copies a database, in a thread of its own.
pub(crate) async fn backup(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (open::real(from)?, to.to_owned());
    let (answer, copied) = oneshot::channel();
    let thread = std::thread::Builder::new().name("sqlite-backup".to_owned());
    let started = thread.spawn(move || {
        // Whoever dropped the future does not want to know; the copy is made or removed all the same.
        drop(answer.send(copy(&from, &to)));
    });
    started.map_err(|error| unavailable("start its backup", error))?;
    copied.await.unwrap_or(Err(singletree_durable::Error::Closed))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let source = open::reader(from)?;
    // Made here, so that an existing one is refused and nobody else can read it.
    let made = private().write(true).create_new(true).open(to);
    drop(made.map_err(|error| unavailable("make the copy", error))?);
    let copied = fill(&source, to);
    if copied.is_err() {
        // What is half a copy is none; if it cannot be removed, the error that is told is the first one.
        fs::remove_file(to).unwrap_or_default();
    }
    copied
}

fn fill(source: &Connection, to: &Path) -> Result<()> {
    let name = to.to_str().ok_or_else(|| unavailable("make the copy", "its name is no text"))?;
    // One read transaction: the copy is the database as it is at one moment.
    source.execute("VACUUM INTO ?", [name]).map_err(|error| translate(error, "copy its file"))?;
    let made = |error| translate(error, "finish the copy");
    let copy = Connection::open_with_flags(to, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(made)?;
    // Both go on by themselves: an event id of one must not name an event of the other.
    copy.execute("UPDATE meta SET log_epoch = lower(hex(randomblob(8)))", []).map_err(made)?;
    copy.close().map_err(|(_, error)| made(error))?;
    let file = OpenOptions::new().read(true).open(to).and_then(|it| it.sync_all());
    file.map_err(|error| unavailable("sync the copy", error))
}
