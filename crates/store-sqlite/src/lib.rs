//! The embedded store: one SQLite file.
//!
//! # Use
//! [`SqliteStore::open`] makes or opens a file; the handle is a `Journal`, an `Upkeep` and a `PausedStore` at once and
//! can be cloned. One process writes; others may look with [`SqliteStore::read_only`] or the sqlite3 shell. Not on a
//! network file system: its locks cannot be trusted.
//!
//! # How it works
//! One thread owns the only connection that writes. It takes all batches that wait, up to a limit, into one
//! transaction with a savepoint each, commits once, and answers them all: each caller waits for a sync to disk, but
//! concurrent callers share it. A few threads with read-only connections answer queries beside it.
//!
//! # Invariants
//! INV-3 (a batch is a savepoint in a transaction), INV-4 (all values that are bound are counted), INV-12 (queues and
//! groups are limited), INV-13 (the format has a version), INV-14 (every query begins at (tenant, session)).
//!
//! # Example
//! ```no_run
//! # async fn example() -> singletree_durable::Result<()> {
//! use singletree_durable::Journal;
//! use singletree_store_sqlite::{Durability, SqliteStore};
//!
//! let store = SqliteStore::options("chat.db").durability(Durability::Full).open().await?;
//! println!("fence {}, log {}", store.fence().0, store.log_epoch());
//! store.close().await;
//! # Ok(())
//! # }
//! ```

mod apply;
mod backup;
mod check;
mod column;
mod error;
mod format;
mod journal;
mod lock;
mod meter;
mod number;
mod open;
mod options;
mod paused;
mod queue;
mod read;
mod reader;
mod store;
mod upkeep;
mod word;
mod writer;

pub use options::{Durability, Options};
pub use store::SqliteStore;
