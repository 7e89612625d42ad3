//! Fills an empty database with the rows of another store, in one transaction.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use futures_util::pin_mut;
use singletree_durable::archive::{
    ArchiveColumnType, ArchiveRows, ArchiveSource, ArchiveTable, ArchiveValue,
};
use singletree_durable::{Error, Result};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use crate::PostgresOptions;
use crate::database::{Database, DatabaseAccess};
use crate::error::{StatementFailure, corrupt_error, unavailable_error};
use crate::migration::{FUNCTIONS, check_durability, lock_schema, migrate_schema};

const DOING: &str = "import a database";

/// How many rows of each table were imported.
pub type ImportCounts = BTreeMap<ArchiveTable, u64>;

impl PostgresOptions {
    /// Fills the database with the rows of another one, in one transaction: makes its schema, and takes over the epoch of
    /// the log and the key of the hashes of names, so that event ids and keys of effects stay true. Sessions have no owner
    /// afterwards. No server may use the database, and nothing may be in it.
    ///
    /// # Errors
    /// - `store_unavailable`: the database cannot be reached or only through a pooler, a server uses it, or it is not
    ///   empty.
    /// - `store_refused`: it refuses a row. `store_full`: it has no space.
    /// - Those of [`open`](Self::open), and of the source.
    ///
    /// After an error nothing is imported.
    ///
    /// # Cancellation
    /// Nothing is imported, unless the transaction was being committed.
    pub async fn import(self, source: &mut dyn ArchiveSource) -> Result<ImportCounts> {
        let access = (self.url.as_str(), DatabaseAccess::Write);
        let database = Database::new(access, 1, self.env.timer.clone(), self.statement_time)?;
        if database.is_pooled() {
            return Err(unavailable_error(DOING, "it needs a connection without a pooler"));
        }
        let mut client = database.connect("open").await?;
        check_durability(&client).await?;
        migrate_schema(&mut client).await?;
        let change = client.transaction().await.map_err(failed)?;
        // A server that starts meanwhile waits for the end, and then reads the new epoch.
        lock_schema(&change).await?;
        check_unused(&change).await?;
        adopt_metadata(&change, source).await.map_err(failed)?;
        let mut counts = ImportCounts::new();
        let mut part = source.next_rows().await?;
        for table in ArchiveTable::ALL {
            let written = copy_table(&change, table, &mut part, source).await?;
            counts.insert(table, written);
        }
        if part.is_some() {
            return Err(corrupt_error("the order of the tables", None));
        }
        finish_sessions(&change, source).await.map_err(failed)?;
        change.commit().await.map_err(failed)?;
        Ok(counts)
    }
}

/// Tells why a statement of the import failed: then nothing of it is stored.
fn failed(error: tokio_postgres::Error) -> Error {
    StatementFailure::from_statement(error, DOING).into_error(DOING)
}

/// Checks that no server is alive and that nothing is stored.
async fn check_unused(change: &Transaction<'_>) -> Result<()> {
    let alive = "SELECT EXISTS (SELECT 1 FROM singletree.node WHERE alive_until > now())";
    if change.query_one(alive, &[]).await.map_err(failed)?.get(0) {
        return Err(unavailable_error(DOING, "a server uses the database; stop it first"));
    }
    for table in ArchiveTable::ALL {
        let filled = format!("SELECT EXISTS (SELECT 1 FROM singletree.{})", table.name());
        if change.query_one(&filled, &[]).await.map_err(failed)?.get(0) {
            let why = format!("the database is not empty: it has rows in the table {}", table.name());
            return Err(unavailable_error(DOING, why));
        }
    }
    Ok(())
}

/// Takes over the properties of the source. The functions are made anew: an older version hashed names in another way.
async fn adopt_metadata(
    change: &Transaction<'_>,
    source: &dyn ArchiveSource,
) -> std::result::Result<(), tokio_postgres::Error> {
    let metadata = source.metadata();
    change.batch_execute(FUNCTIONS).await?;
    change.batch_execute("TRUNCATE singletree.lease").await?;
    let values: [&(dyn ToSql + Sync); 2] = [&metadata.log_epoch, &metadata.name_key];
    change.execute("UPDATE singletree.meta SET log_epoch = $1, name_key = $2", &values).await.map(drop)
}

/// Writes all parts of a table; `part` is the next part, of this table or a later one. Returns the number of rows.
async fn copy_table(
    change: &Transaction<'_>,
    table: ArchiveTable,
    part: &mut Option<ArchiveRows>,
    source: &mut dyn ArchiveSource,
) -> Result<u64> {
    let names: Vec<&str> = table.columns().iter().map(|(name, _)| *name).collect();
    let types: Vec<Type> = table.columns().iter().map(|(_, kind)| column_type(*kind)).collect();
    let sql = format!("COPY singletree.{} ({}) FROM STDIN BINARY", table.name(), names.join(", "));
    let sink = change.copy_in(&sql).await.map_err(failed)?;
    let writer = BinaryCopyInWriter::new(sink, &types);
    pin_mut!(writer);
    while let Some(rows) = part.take_if(|part| part.table == table) {
        for row in &rows.rows {
            let values = row.iter().zip(&types).map(|(value, kind)| ColumnValue::new(value, kind));
            let values: Vec<ColumnValue<'_>> = values
                .collect::<Option<_>>()
                .ok_or_else(|| corrupt_error(format!("a row of the table {}", table.name()), None))?;
            writer.as_mut().write_raw(values.iter().map(ColumnValue::as_sql)).await.map_err(failed)?;
        }
        *part = source.next_rows().await?;
    }
    writer.finish().await.map_err(failed)
}

fn column_type(kind: ArchiveColumnType) -> Type {
    match kind {
        ArchiveColumnType::Number => Type::INT8,
        ArchiveColumnType::Text => Type::TEXT,
        ArchiveColumnType::Bytes => Type::BYTEA,
    }
}

/// A value as the driver takes it.
enum ColumnValue<'a> {
    Number(Option<i64>),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
}

impl<'a> ColumnValue<'a> {
    /// Returns nothing for a value that is not of the column's type.
    fn new(value: &'a ArchiveValue, kind: &Type) -> Option<Self> {
        Some(match (value, kind) {
            (ArchiveValue::Null, &Type::INT8) => Self::Number(None),
            (ArchiveValue::Null, &Type::TEXT) => Self::Text(None),
            (ArchiveValue::Null, &Type::BYTEA) => Self::Bytes(None),
            (ArchiveValue::Number(number), &Type::INT8) => Self::Number(Some(*number)),
            (ArchiveValue::Text(text), &Type::TEXT) => Self::Text(Some(text)),
            (ArchiveValue::Bytes(bytes), &Type::BYTEA) => Self::Bytes(Some(bytes)),
            _ => return None,
        })
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Number(number) => number,
            Self::Text(text) => text,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Makes a lease without an owner for each session, under the highest fence of the source, and lets further sessions have
/// numbers of their own.
async fn finish_sessions(
    change: &Transaction<'_>,
    source: &dyn ArchiveSource,
) -> std::result::Result<(), tokio_postgres::Error> {
    let fence = source.metadata().fence.0.cast_signed();
    let leases = "INSERT INTO singletree.lease (tenant, session, owner, fence, commit_id) \
                  SELECT tenant, session, NULL, $1, NULL FROM singletree.session";
    change.execute(leases, &[&fence]).await?;
    // Further fences are higher.
    change.execute("SELECT setval('singletree.fence', greatest($1::bigint, 1))", &[&fence]).await?;
    change
        .batch_execute(
            "SELECT setval(pg_get_serial_sequence('singletree.session', 'id'), max(id)) FROM singletree.session",
        )
        .await
}
