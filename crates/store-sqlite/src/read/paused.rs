//! Paused records.

use rusqlite::{Connection, OptionalExtension, Result, params};
use singletree_durable::{InvocationId, PausedRecord, TenantId};

use crate::column;

/// Reads a paused record.
pub(crate) fn one(
    connection: &Connection,
    tenant: &TenantId,
    invocation: &InvocationId,
) -> Result<Option<PausedRecord>> {
    connection
        .prepare_cached("SELECT status, body FROM paused WHERE tenant = ? AND invocation = ?")?
        .query_row(params![tenant.as_str(), invocation.as_str()], |row| {
            Ok(PausedRecord { status: column::word(row, 0)?, body: column::json(row, 1)? })
        })
        .optional()
}
