//! The queries, one file per kind of row. Each query starts from (tenant, session), or returns the tenant of each row.
//!
//! Each names its index: the planner, which knows nothing of how rows are distributed, must not choose. A plus before a
//! column keeps the planner from putting the value it is compared with in its place elsewhere.

pub(crate) mod checkpoint;
pub(crate) mod document;
pub(crate) mod dossier;
pub(crate) mod event;
pub(crate) mod item;
pub(crate) mod paused;
pub(crate) mod position;
pub(crate) mod session;
pub(crate) mod turn;
pub(crate) mod usage;
pub(crate) mod wait;

use rusqlite::{Connection, Params, Result, Row, StatementStatus};

/// Runs a query that goes through an index only as far as its answer lies there, and reads all rows (INV-5).
fn query_rows_by_index<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?.collect();
    debug_assert_eq!(statement.reset_status(StatementStatus::FullscanStep), 0, "INV-5: scanned by {sql}");
    debug_assert_eq!(statement.reset_status(StatementStatus::RePrepare), 0, "prepared again: {sql}");
    #[cfg(test)]
    tests::note(sql, statement.reset_status(StatementStatus::VmStep));
    rows
}

/// Runs a query that goes through a whole index of things to do, few at any time, and reads all rows.
fn query_rows_by_sweep<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params, read)?.collect();
    #[cfg(test)]
    tests::note(sql, statement.reset_status(StatementStatus::VmStep));
    rows
}

#[cfg(test)]
mod tests;
