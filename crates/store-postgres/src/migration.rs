//! The versions of the schema. Servers of one version and of the one before may use a database together, so that servers are
//! replaced one after the other.
//!
//! The first process of a new version migrates, under a lock. It is refused while a process runs that is older than the version
//! before. A process that finds a newer schema uses it if that schema works with its version.

use deadpool_postgres::{Object, Transaction};
use singletree_durable::{Error, Result};
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use crate::database::{Parameter, bind};

use crate::error::unavailable_error;

/// The key of the lock under which one process migrates: "singletr" as a number.
const LOCK: i64 = 0x7369_6e67_6c65_7472;

/// The steps from one version to the next. A step adds, or takes away what no version relies on, so that the version before can work
/// beside it.
const STEPS: [&str; 5] = [
    include_str!("schema/v1.sql"),
    include_str!("schema/v2.sql"),
    include_str!("schema/v3.sql"),
    include_str!("schema/v4.sql"),
    include_str!("schema/v5.sql"),
];

/// The functions of the newest version; each migration makes them anew. The version before calls them, too: one that takes other
/// parameters, or returns something else, is another function with another name.
pub(crate) const FUNCTIONS: &str = include_str!("schema/functions.sql");

const DOING: &str = "migrate its schema";

const SCHEMA_EXISTS: &str = "SELECT to_regclass('singletree.meta') IS NOT NULL";

/// Makes or migrates the schema in one transaction, and returns the epoch of the log.
pub(crate) async fn migrate_schema(client: &mut Object) -> Result<String> {
    let failed = |error: tokio_postgres::Error| unavailable_error(DOING, error);
    let known = known_version();
    let change = client.transaction().await.map_err(failed)?;
    lock_schema(&change).await?;
    let exists: bool = query_row(&*change, SCHEMA_EXISTS, &[], DOING).await?.get(0);
    let version: i32 = match exists {
        true => query_row(&*change, "SELECT version FROM singletree.meta", &[], DOING).await?.get(0),
        false => 0,
    };
    check_newer_version(&*change, version).await?;
    if version < known {
        if version > 0 {
            refuse_beside_older(&*change).await?;
        }
        change.batch_execute("CREATE SCHEMA IF NOT EXISTS singletree").await.map_err(failed)?;
        for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
            change.batch_execute(step).await.map_err(failed)?;
        }
        change.batch_execute(FUNCTIONS).await.map_err(failed)?;
        let works_with = (known - 1).max(1);
        let update = "UPDATE singletree.meta SET version = $1, works_with = $2 RETURNING version";
        let parameters = [bind(&known, Type::INT4), bind(&works_with, Type::INT4)];
        query_row(&*change, update, &parameters, DOING).await?;
    }
    let epoch = query_row(&*change, "SELECT log_epoch FROM singletree.meta", &[], DOING).await?.get(0);
    change.commit().await.map_err(failed)?;
    Ok(epoch)
}

/// Waits for the lock under which schema and properties are changed, until the end of the transaction.
pub(crate) async fn lock_schema(change: &Transaction<'_>) -> Result<()> {
    query_row(&**change, "SELECT pg_advisory_xact_lock($1)", &[bind(&LOCK, Type::INT8)], DOING)
        .await
        .map(drop)
}

/// Checks that the schema is there in the version that this store knows, and returns the epoch of the log.
pub(crate) async fn check_schema(client: &Object) -> Result<String> {
    const DOING: &str = "read its schema";
    if !query_row(&***client, SCHEMA_EXISTS, &[], DOING).await?.get::<_, bool>(0) {
        return Err(unavailable_error(DOING, "no server has used this database yet"));
    }
    let row = query_row(&***client, "SELECT version, log_epoch FROM singletree.meta", &[], DOING).await?;
    let version: i32 = row.get(0);
    check_newer_version(&***client, version).await?;
    // Who only reads does not migrate.
    if version < known_version() { Err(unknown_version_error(version)) } else { Ok(row.get(1)) }
}

/// Refuses a schema that is newer than the next version, or does not work with this one.
async fn check_newer_version(client: &impl GenericClient, version: i32) -> Result<()> {
    let known = known_version();
    if version <= known {
        return Ok(());
    }
    if version > known + 1 {
        return Err(unknown_version_error(version));
    }
    let works_with = query_row(client, "SELECT works_with FROM singletree.meta", &[], DOING).await?;
    if works_with.get::<_, i32>(0) <= known { Ok(()) } else { Err(unknown_version_error(version)) }
}

/// Refuses to migrate while a process runs that could not use the new schema.
async fn refuse_beside_older(client: &impl GenericClient) -> Result<()> {
    let known = known_version();
    let sql = "SELECT coalesce(min(schema_version), $1) FROM singletree.node WHERE alive_until > now()";
    let oldest: i32 = query_row(client, sql, &[bind(&known, Type::INT4)], DOING).await?.get(0);
    if oldest >= known - 1 {
        return Ok(());
    }
    let found = format!("a process of version {oldest} that uses it");
    Err(Error::Format { found, known: format!("versions {} and {known}", known - 1) })
}

/// Runs a statement that returns a row. It gets no name: a pooler may send each to another connection of the database.
pub(crate) async fn query_row(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[Parameter<'_>],
    doing: &'static str,
) -> Result<Row> {
    let rows = client.query_typed(sql, parameters).await.map_err(|error| unavailable_error(doing, error))?;
    rows.into_iter().next().ok_or_else(|| unavailable_error(doing, "a row is missing"))
}

/// Returns the newest version of the schema.
pub(crate) fn known_version() -> i32 {
    i32::try_from(STEPS.len()).expect("there are only as many versions as people wrote")
}

fn unknown_version_error(found: i32) -> Error {
    Error::Format { found: format!("version {found}"), known: format!("version {}", known_version()) }
}

/// Checks that an acknowledged commit is durable.
pub(crate) async fn check_durability(client: &Object) -> Result<()> {
    let sql = "SELECT current_setting('synchronous_commit')";
    let setting: String = query_row(&***client, sql, &[], "read its settings").await?.get(0);
    match setting.as_str() {
        "off" => Err(Error::NotDurable { setting: "synchronous_commit", value: setting }),
        _ => Ok(()),
    }
}
