//! Checkpoints.

use rusqlite::{Connection, OptionalExtension, Result, params};
use singletree_durable::{
    CheckpointFilter, CheckpointRecord, CheckpointSummary, InvocationId, NodePosition, TenantId,
};

use super::query_rows_by_index;
use crate::column;
use crate::number::session_key_range;

/// Reads a checkpoint.
pub(crate) fn read_checkpoint(
    connection: &Connection,
    tenant: &TenantId,
    invocation: &InvocationId,
) -> Result<Option<CheckpointRecord>> {
    let found = connection
        .prepare_cached("SELECT id, body FROM checkpoint WHERE tenant = ? AND invocation = ?")?
        .query_row(params![tenant.as_str(), invocation.as_str()], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                check_decoded(column::read_json(row, 1)?.decode::<CheckpointRecord>(), 1)?,
            ))
        })
        .optional()?;
    let Some((id, record)) = found else { return Ok(None) };
    let (first, end) = session_key_range(id);
    let positions = query_rows_by_index(
        connection,
        "SELECT body FROM checkpoint_position WHERE id >= ? AND id < ? ORDER BY id",
        params![first, end],
        |row| check_decoded(column::read_json(row, 0)?.decode::<NodePosition>(), 0),
    )?;
    Ok(Some(CheckpointRecord { completed_positions: positions.into_iter().collect(), ..record }))
}

fn check_decoded<T, E: std::error::Error + Send + Sync + 'static>(
    decoded: std::result::Result<T, E>,
    at: usize,
) -> Result<T> {
    decoded.map_err(|error| column::unfit_value_error(at, error))
}

/// Lists the checkpoints of a tenant, ordered by invocation.
pub(crate) fn list_checkpoints(
    connection: &Connection,
    tenant: &TenantId,
    filter: &CheckpointFilter,
) -> Result<Vec<CheckpointSummary>> {
    query_rows_by_index(
        connection,
        "SELECT invocation, correlation, saved_at, positions FROM checkpoint WHERE tenant = ?1 \
         AND (?2 IS NULL OR correlation = ?2) AND (?3 IS NULL OR saved_at > ?3) AND (?4 IS NULL OR saved_at < ?4) \
         ORDER BY invocation",
        params![
            tenant.as_str(),
            filter.correlation_id,
            filter.saved_after.map(|saved_after| saved_after.as_millis()),
            filter.saved_before.map(|saved_before| saved_before.as_millis()),
        ],
        |row| {
            Ok(CheckpointSummary {
                invocation_id: column::read_invocation_id(row, 0)?,
                correlation_id: row.get(1)?,
                last_saved_at: column::read_time(row, 2)?,
                completed_node_count: column::read_number(row, 3)?,
            })
        },
    )
}
