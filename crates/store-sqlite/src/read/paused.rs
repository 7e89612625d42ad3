//! Paused records.

use rusqlite::{Connection, OptionalExtension, Result, params};
use singletree_durable::{InvocationId, PausedRecord, TenantId};

use crate::column;

/// Reads a paused record.
pub(crate) fn read_paused_record(
    connection: &Connection,
    tenant: &TenantId,
    invocation: &InvocationId,
) -> Result<Option<PausedRecord>> {
    connection
        .prepare_cached("SELECT status, body FROM paused WHERE tenant = ? AND invocation = ?")?
        .query_row(params![tenant.as_str(), invocation.as_str()], |row| {
            Ok(PausedRecord { status: column::read_keyword(row, 0)?, body: column::read_json(row, 1)? })
        })
        .optional()
}
