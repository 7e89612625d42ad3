//! The only way to write: every value that is bound is counted (INV-4).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params_from_iter};
use singletree_durable::checksum::Checksum;
use singletree_durable::{JsonDocument, SessionKey, TenantId, Timestamp};

use crate::error::BatchFailure;
use crate::name::NameIdCache;
use crate::name_hash::{hash_actor_name, hash_session_name};

/// The totals of a store's commits since it was opened.
#[derive(Debug, Default)]
pub(crate) struct CommitMetrics {
    bytes: AtomicU64,
    commits: AtomicU64,
}

impl CommitMetrics {
    /// Adds a commit of so many bytes.
    pub(crate) fn record_commit(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the bytes of all commits.
    pub(crate) fn committed_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of commits.
    pub(crate) fn commit_count(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// A value to bind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BoundValue<'a> {
    /// Nothing: no bytes.
    Null,
    /// An integer: eight bytes.
    Int(i64),
    /// A text: its length.
    Text(&'a str),
    /// Bytes: their number.
    Bytes(&'a [u8]),
}

impl BoundValue<'_> {
    /// Adds the value to a checksum.
    pub(crate) fn add_to_checksum(self, sum: Checksum) -> Checksum {
        match self {
            Self::Null => sum.add_null(),
            Self::Int(number) => sum.add_number(number),
            Self::Text(text) => sum.add_bytes(text.as_bytes()),
            Self::Bytes(bytes) => sum.add_bytes(bytes),
        }
    }

    fn count_bytes(self) -> u64 {
        match self {
            Self::Null => 0,
            Self::Int(_) => 8,
            Self::Text(text) => text.len() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

impl ToSql for BoundValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<i64> for BoundValue<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for BoundValue<'_> {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<Timestamp> for BoundValue<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Int(time.as_millis())
    }
}

impl<'a> From<&'a str> for BoundValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for BoundValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a JsonDocument> for BoundValue<'a> {
    fn from(json: &'a JsonDocument) -> Self {
        Self::Text(json.as_str())
    }
}

impl<'a, T: Into<Self>> From<Option<T>> for BoundValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Writes and looks up within the transaction of a group.
#[derive(Debug)]
pub(crate) struct WriteTransaction<'c> {
    /// The ids of names, as far as they are known without a look.
    pub(crate) names: &'c NameIdCache,
    connection: &'c Connection,
    bytes: Cell<u64>,
    has_written: Cell<bool>,
}

impl<'c> WriteTransaction<'c> {
    /// Starts with nothing counted.
    pub(crate) fn new(connection: &'c Connection, names: &'c NameIdCache) -> Self {
        Self { names, connection, bytes: Cell::new(0), has_written: Cell::new(false) }
    }

    /// Runs a statement that writes and returns how many rows it touched.
    pub(crate) fn execute_write(&self, sql: &str, values: &[BoundValue<'_>]) -> Result<usize, BatchFailure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        // Also on failure: SQLite undoes the changes of a failed statement, but no caller needs to rely on that.
        self.has_written.set(true);
        let touched = statement.execute(params_from_iter(values))?;
        self.bytes.set(self.bytes.get() + values.iter().map(|value| value.count_bytes()).sum::<u64>());
        Ok(touched)
    }

    /// Tells whether a statement that writes has run.
    pub(crate) fn has_written(&self) -> bool {
        self.has_written.get()
    }

    /// Returns the rowid of the row that was added last.
    pub(crate) fn last_added_rowid(&self) -> i64 {
        self.connection.last_insert_rowid()
    }

    /// Returns the hash under which the name of a session is kept that is deleted.
    pub(crate) fn hash_session_name(&self, key: &SessionKey) -> Result<String, BatchFailure> {
        Ok(hash_session_name(self.connection, key)?)
    }

    /// Returns the hash under which is kept who deleted something.
    pub(crate) fn hash_actor_name(&self, tenant: &TenantId, name: &str) -> Result<String, BatchFailure> {
        Ok(hash_actor_name(self.connection, tenant, name)?)
    }

    /// Looks for one row.
    pub(crate) fn query_one_row<T>(
        &self,
        sql: &str,
        values: &[BoundValue<'_>],
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, BatchFailure> {
        Ok(self.connection.prepare_cached(sql)?.query_row(params_from_iter(values), read).optional()?)
    }

    /// Runs a member of the group so that it leaves a trace only when it succeeds.
    pub(crate) fn run_under_savepoint<T>(
        &self,
        member: impl FnOnce() -> Result<T, BatchFailure>,
    ) -> Result<T, BatchFailure> {
        let before = self.bytes.get();
        self.run_control_statement("SAVEPOINT member")?;
        let result = member();
        if let Err(BatchFailure::Refused(_)) = result {
            self.run_control_statement("ROLLBACK TO member")?;
            self.names.forget_names();
            self.bytes.set(before);
        }
        if !matches!(result, Err(BatchFailure::Store(_))) {
            self.run_control_statement("RELEASE member")?;
        }
        result
    }

    /// Recomputes the checksum of the `meta` row.
    pub(crate) fn seal_meta_row(&self) -> Result<(), BatchFailure> {
        Ok(crate::checksum::seal_meta_row(self.connection)?)
    }

    /// Returns the bytes bound by everything that stands.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes.get()
    }

    fn run_control_statement(&self, sql: &str) -> rusqlite::Result<()> {
        run_control_statement(self.connection, sql)
    }
}

/// Runs a statement that begins or ends a transaction or a part of one.
pub(crate) fn run_control_statement(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}
