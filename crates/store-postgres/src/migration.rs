//! The versions of the schema.

use deadpool_postgres::{Object, Transaction};
use singletree_durable::{Error, Result};
use tokio_postgres::types::Type;
use tokio_postgres::{GenericClient, Row};

use crate::database::{Parameter, bind};

use crate::error::unavailable_error;

/// The key of the lock under which one process migrates: "singletr" as a number.
const LOCK: i64 = 0x7369_6e67_6c65_7472;

/// The steps from one version to the next. A step only adds, so that the version before can work beside it.
const STEPS: [&str; 1] = [include_str!("schema/v1.sql")];

/// The functions of the newest version; each migration makes them anew.
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
    if version > known {
        return Err(unknown_version_error(version));
    }
    if version < known {
        change.batch_execute("CREATE SCHEMA IF NOT EXISTS singletree").await.map_err(failed)?;
        for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
            change.batch_execute(step).await.map_err(failed)?;
        }
        change.batch_execute(FUNCTIONS).await.map_err(failed)?;
        let update = "UPDATE singletree.meta SET version = $1 RETURNING version";
        query_row(&*change, update, &[bind(&known, Type::INT4)], DOING).await?;
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
    match row.get::<_, i32>(0) {
        version if version == known_version() => Ok(row.get(1)),
        version => Err(unknown_version_error(version)),
    }
}

/// Runs a statement that returns a row. It gets no name: a pooler may send each to another connection of the database.
async fn query_row(
    client: &impl GenericClient,
    sql: &str,
    parameters: &[Parameter<'_>],
    doing: &'static str,
) -> Result<Row> {
    let rows = client.query_typed(sql, parameters).await.map_err(|error| unavailable_error(doing, error))?;
    rows.into_iter().next().ok_or_else(|| unavailable_error(doing, "a row is missing"))
}

/// Returns the newest version of the schema.
fn known_version() -> i32 {
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
