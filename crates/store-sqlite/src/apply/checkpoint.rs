//! Writes of checkpoints (pipeline-utilities §10.1).

use singletree_durable::{CheckpointRecord, InvocationId, JsonDocument, PositionHistory, TenantId};

use crate::column;
use crate::error::{BatchFailure, refuse_batch};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{pack_row_key, session_key_range, to_stored_number};

/// A change of a checkpoint.
#[derive(Debug)]
pub(crate) enum CheckpointChange {
    /// Stores it, whatever was there.
    Save(Box<CheckpointRecord>),
    /// Removes it.
    Delete(InvocationId),
}

/// A checkpoint that is stored.
struct StoredCheckpoint {
    id: i64,
    /// How many positions it has, and their digest.
    positions: u64,
    digest: i64,
}

/// Changes a checkpoint.
pub(crate) fn change_checkpoint(
    scribe: &WriteTransaction<'_>,
    tenant: &TenantId,
    change: &CheckpointChange,
) -> Result<(), BatchFailure> {
    match change {
        CheckpointChange::Save(record) => save_checkpoint(scribe, tenant, record),
        CheckpointChange::Delete(invocation) => {
            let Some(stored) = find_checkpoint(scribe, tenant, invocation)? else { return Ok(()) };
            drop_positions(scribe, stored.id)?;
            scribe.execute_write("DELETE FROM checkpoint WHERE id = ?", &[stored.id.into()])?;
            Ok(())
        }
    }
}

fn find_checkpoint(
    scribe: &WriteTransaction<'_>,
    tenant: &TenantId,
    invocation: &InvocationId,
) -> Result<Option<StoredCheckpoint>, BatchFailure> {
    let name = [BoundValue::Text(tenant.as_str()), BoundValue::Text(invocation.as_str())];
    scribe.query_one_row(
        "SELECT id, positions, digest FROM checkpoint WHERE tenant = ? AND invocation = ?",
        &name,
        |row| {
            Ok(StoredCheckpoint {
                id: row.get(0)?,
                positions: column::read_number(row, 1)?,
                digest: row.get(2)?,
            })
        },
    )
}

fn drop_positions(scribe: &WriteTransaction<'_>, id: i64) -> Result<(), BatchFailure> {
    let (first, end) = session_key_range(id);
    let range = [first.into(), end.into()];
    scribe.execute_write("DELETE FROM checkpoint_position WHERE id >= ? AND id < ?", &range).map(drop)
}

const INSERT: &str = "INSERT INTO checkpoint (correlation, saved_at, positions, digest, body, tenant, invocation) \
    VALUES (?, ?, ?, ?, ?, ?, ?)";

const UPDATE: &str =
    "UPDATE checkpoint SET correlation = ?, saved_at = ?, positions = ?, digest = ?, body = ? WHERE id = ?";

fn save_checkpoint(
    scribe: &WriteTransaction<'_>,
    tenant: &TenantId,
    record: &CheckpointRecord,
) -> Result<(), BatchFailure> {
    let positions = &record.completed_positions;
    let body = CheckpointRecord { completed_positions: PositionHistory::new(), ..record.clone() };
    let Ok(body) = JsonDocument::from_serializable(&body) else { return refuse_batch("the state is JSON") };
    let count = positions.len() as u64;
    let digest = digest_of_prefix(positions, count).unwrap_or_default();
    let values = [
        BoundValue::from(&record.correlation_id),
        record.last_saved_at.into(),
        to_stored_number(count)?.into(),
        digest.into(),
        (&body).into(),
    ];
    let (id, from) = match find_checkpoint(scribe, tenant, &record.invocation_id)? {
        Some(known) => {
            let [correlation, saved_at, count, digested, body] = values;
            scribe.execute_write(UPDATE, &[correlation, saved_at, count, digested, body, known.id.into()])?;
            if digest_matches(positions, &known) {
                (known.id, known.positions)
            } else {
                drop_positions(scribe, known.id)?;
                (known.id, 0)
            }
        }
        None => {
            let name = [BoundValue::Text(tenant.as_str()), BoundValue::Text(record.invocation_id.as_str())];
            scribe.execute_write(INSERT, &[values.as_slice(), &name].concat())?;
            (scribe.last_added_rowid(), 0)
        }
    };
    let first = usize::try_from(from).unwrap_or(usize::MAX);
    for (no, position) in (from..).zip(positions.positions_from(first)) {
        let Ok(body) = JsonDocument::from_serializable(&position) else {
            return refuse_batch("a position is JSON");
        };
        scribe.execute_write(
            "INSERT INTO checkpoint_position (id, body) VALUES (?, ?)",
            &[pack_row_key(id, no)?.into(), (&body).into()],
        )?;
    }
    Ok(())
}

fn digest_of_prefix(positions: &PositionHistory, len: u64) -> Option<i64> {
    positions.prefix_digest(usize::try_from(len).ok()?).map(u64::cast_signed)
}

/// Tells whether the positions begin with those that are stored.
fn digest_matches(positions: &PositionHistory, known: &StoredCheckpoint) -> bool {
    digest_of_prefix(positions, known.positions) == Some(known.digest)
}
