//! The embedded store: one SQLite file.
//!
//! # Use
//! [`SqliteStore::open`] makes or opens a file; the handle is a `Journal`, a `JournalMaintenance`, a `PausedStore`, a
//! `Checkpointer` and `DocumentStore` at once and can be cloned. One process writes; others may look with
//! [`SqliteStore::open_read_only`] or the sqlite3 shell. Not on a network file system: its locks cannot be trusted.
//!
//! # How it works
//! One thread owns the only connection that writes. It takes all batches that wait, up to a limit, into one
//! transaction, commits once, and answers them all: each caller waits for a sync to disk, but concurrent callers share
//! it. A batch that is refused before it has written needs no undoing; when one is refused half way, the transaction is
//! done again with a savepoint for each batch. A few threads with read-only connections answer queries beside it.
//!
//! # Build
//! SQLite is built in, and compiled as `LIBSQLITE3_FLAGS` in the environment of the build says. This workspace sets in
//! `.cargo/config.toml`: `HAVE_FDATASYNC` (a sync of the log leaves out times that nobody reads after a crash; without
//! it SQLite calls `fsync`, which writes the file's inode with every commit) and `SQLITE_DEFAULT_MEMSTATUS=0` (SQLite
//! does not count its allocations under a lock; nothing here asks for the count). A library does not hand its settings
//! on to who uses it: without them everything works and every promise stands, a commit only costs more. Who wants them
//! says `LIBSQLITE3_FLAGS = "-DHAVE_FDATASYNC=1 -DSQLITE_DEFAULT_MEMSTATUS=0"` under `[env]` in a `.cargo/config.toml`
//! of their own.
//!
//! # Invariants
//! INV-3 (a batch stands or falls alone in its transaction), INV-4 (all values that are bound are counted), INV-12
//! (queues and groups are limited), INV-13 (the format has a version), INV-14 (every query begins at (tenant,
//! session)).
//!
//! # Example
//! ```no_run
//! # async fn example() -> singletree_durable::Result<()> {
//! use singletree_durable::Journal;
//! use singletree_store_sqlite::{CommitDurability, SqliteStore};
//!
//! let store = SqliteStore::options("chat.db").durability(CommitDurability::Full).open().await?;
//! println!("log {}", store.log_epoch());
//! store.close().await;
//! # Ok(())
//! # }
//! ```

mod apply;
mod archive;
mod backup;
mod check;
mod checkpoint;
mod checksum;
mod column;
mod documents;
mod error;
mod file_identity;
mod format;
mod journal;
mod lease;
mod lock;
mod meter;
mod name;
mod name_hash;
mod number;
mod open;
mod options;
mod paused;
mod queue;
mod read;
mod reader;
mod store;
mod tail;
mod upkeep;
mod usual;
mod wal;
mod word;
mod writer;

pub use check::Damage;
pub use options::{CommitDurability, SqliteOptions};
pub use singletree_erasures::{ErasedName, ErasureList};
pub use store::SqliteStore;
