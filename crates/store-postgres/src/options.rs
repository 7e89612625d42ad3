//! How a database is opened.

use std::path::PathBuf;
use std::time::Duration;

use singletree_durable::Result;
use singletree_env::Env;

use crate::PostgresStore;

/// The options of opening a database.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(crate) url: String,
    pub(crate) env: Env,
    pub(crate) node: String,
    pub(crate) address: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) connections: usize,
    pub(crate) statement_time: Duration,
    pub(crate) erasure_list: Option<PathBuf>,
}

impl PostgresOptions {
    /// Starts with the default options. `url` is a connection URL or a list of parameters as libpq takes them, such as
    /// `postgres://user@host/database?sslmode=require`.
    ///
    /// Two parameters are this store's own; in a list of parameters they come last:
    ///
    /// - `pooler=transaction`: a pooler may be in between that gives each transaction another connection, as pgbouncer does
    ///   with `pool_mode = transaction`. Statements are not prepared. Behind such a pooler, [`open`](Self::open) without this
    ///   parameter fails, unless the pooler keeps track of prepared statements (pgbouncer's `max_prepared_statements`).
    /// - `tenant_role=NAME`: statements for one tenant run under this role, and the database itself confines them to the rows
    ///   of that tenant (row-level security). The role must exist, own nothing and bypass nothing; the user of the address must be a
    ///   member of it and own the tables. [`open`](Self::open) grants it the rights that it needs.
    ///
    /// Without an `sslmode` connections to this machine are not encrypted, and others are wherever the server can. The
    /// server's certificate is always verified, with its name.
    #[must_use]
    pub fn new(url: impl Into<String>, env: Env) -> Self {
        Self {
            url: url.into(),
            env,
            node: "node".to_owned(),
            address: None,
            lease: Duration::from_secs(5),
            connections: 16,
            statement_time: Duration::from_secs(30),
            erasure_list: None,
        }
    }

    /// Sets the name of this process among the owners of sessions. For people: each opening is another owner.
    #[must_use]
    pub fn node(mut self, name: impl Into<String>) -> Self {
        self.node = name.into();
        self
    }

    /// Sets the address at which other processes reach this one.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets how long this process stays the owner of its sessions without a heartbeat, between 3 and 60 seconds; by
    /// default 5. Heartbeats come five times as often.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease.clamp(Duration::from_secs(3), Duration::from_secs(60));
        self
    }

    /// Sets how many connections are kept beside the two of the heartbeat; by default 16, at least 2.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(2);
        self
    }

    /// Sets how long a statement may take; by default 30 seconds. A write that takes longer is settled before it is
    /// answered.
    #[must_use]
    pub fn statement_time(mut self, time: Duration) -> Self {
        self.statement_time = time;
        self
    }

    /// Lists every session that is deleted by this process in a file ([`ErasureList`](singletree_erasures::ErasureList)) outside of
    /// the database, synced before the deletion is committed, for a database that is restored from a backup. About 80 bytes
    /// for each deletion. Where the file cannot be written, the deletion fails with `store_unavailable` or `store_full`. Each
    /// process has its own file, or shares one with others of its machine.
    #[must_use]
    pub fn list_erasures(mut self, file: impl Into<PathBuf>) -> Self {
        self.erasure_list = Some(file.into());
        self
    }

    /// Opens the database: makes or migrates its schema, under a lock so that one process does it, and registers this
    /// process as an owner of sessions. It needs a tokio runtime, on which it also starts the heartbeat.
    ///
    /// # Errors
    /// `store_unavailable` when the database cannot be reached, or only through a pooler of transactions of which the address
    /// says nothing; `store_not_durable` when it acknowledges commits before
    /// they are durable (`synchronous_commit` off); `store_format_unsupported` when a newer version has written it;
    /// `store_unavailable` when the list of erasures cannot be read.
    ///
    /// # Cancellation
    /// The schema may have been made; the process is registered or is not, until its lease ends.
    pub async fn open(self) -> Result<PostgresStore> {
        PostgresStore::open_with_options(self).await
    }

    /// Opens the database for reading: makes no schema, and registers no owner of sessions. Every write, and acquiring a
    /// session, is answered with `store_closed`; the database itself refuses them.
    ///
    /// # Errors
    /// `store_unavailable` when the database cannot be reached or has no schema of this store;
    /// `store_format_unsupported` when another version has written it.
    ///
    /// # Cancellation
    /// Nothing is left behind.
    pub async fn open_read_only(self) -> Result<PostgresStore> {
        PostgresStore::open_for_reading(self).await
    }
}
