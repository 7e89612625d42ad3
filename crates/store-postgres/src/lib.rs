//! The store of several servers: one PostgreSQL database.
//!
//! # Use
//! [`PostgresOptions::open`] makes or migrates the schema and returns a handle, which is a `Journal`, a
//! `JournalMaintenance`, a `PausedStore`, a `Checkpointer` and a `DocumentStore` at once and can be cloned. Any number of
//! processes may have the database open; each session has one owner among them.
//!
//! # How it works
//! Each process has a row in `node`, which a heartbeat renews. A session has a row in `lease`: its owner and its fence.
//! The lease is valid while the owner's node is alive, so that many sessions cost one heartbeat. A batch is one call of a
//! function of the schema: one round trip and one transaction, whose first statement locks the lease and checks owner and
//! fence. Batches of one session run one after the other, those of different sessions beside each other. If the answer
//! to a commit is lost, its outcome is settled by a write: it raises the session's own fence and returns the id of the
//! last commit.
//!
//! # Limits
//! Identifiers and words must not contain the character NUL: such a batch is refused. A commit whose wait for a
//! synchronous standby was cancelled counts as one whose answer was lost.
//!
//! # Invariants
//! INV-1 (one owner), INV-3 (a batch is one transaction), INV-13 (the schema has a version), INV-14 (every query begins
//! at the tenant).

mod address;
mod changes;
mod checkpoint;
mod commit;
mod connection;
mod database;
mod documents;
mod encode;
mod erasure_record;
mod error;
mod import;
mod journal;
mod keyword;
mod lease;
mod maintenance;
mod migration;
mod node;
mod nodes;
mod options;
mod paused;
mod pooler;
mod read;
mod row;
mod served;
mod stall;
mod store;
mod tenant_role;
mod tls;

pub use import::ImportCounts;
pub use nodes::NodeSummary;
pub use options::PostgresOptions;
pub use store::PostgresStore;
