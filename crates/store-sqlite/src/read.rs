//! The queries, one file per kind of row. Every one begins at (tenant, session), or names the tenant of what it finds.

pub(crate) mod event;
pub(crate) mod item;
pub(crate) mod paused;
pub(crate) mod position;
pub(crate) mod session;
pub(crate) mod turn;
pub(crate) mod wait;

use rusqlite::{Connection, Params, Result, Row};

/// Runs a query and reads all its rows.
fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}
