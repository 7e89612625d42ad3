//! Writes of checkpoints (pipeline-utilities §10.1).

use singletree_durable::{CheckpointRecord, InvocationId, JsonDocument, PositionHistory, TenantId};

use crate::column;
use crate::error::{BatchFailure, refused};
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{packed, rows_of, stored};

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
pub(crate) fn change(
    scribe: &WriteTransaction<'_>,
    tenant: &TenantId,
    change: &CheckpointChange,
) -> Result<(), BatchFailure> {
    match change {
        CheckpointChange::Save(record) => save(scribe, tenant, record),
        CheckpointChange::Delete(invocation) => {
            let Some(stored) = find(scribe, tenant, invocation)? else { return Ok(()) };
            drop_positions(scribe, stored.id)?;
            scribe.write("DELETE FROM checkpoint WHERE id = ?", &[stored.id.into()])?;
            Ok(())
        }
    }
}

fn find(
    scribe: &WriteTransaction<'_>,
    tenant: &TenantId,
    invocation: &InvocationId,
) -> Result<Option<StoredCheckpoint>, BatchFailure> {
    let name = [BoundValue::Text(tenant.as_str()), BoundValue::Text(invocation.as_str())];
    scribe.find(
        "SELECT id, positions, digest FROM checkpoint WHERE tenant = ? AND invocation = ?",
        &name,
        |row| {
            Ok(StoredCheckpoint { id: row.get(0)?, positions: column::number(row, 1)?, digest: row.get(2)? })
        },
    )
}

fn drop_positions(scribe: &WriteTransaction<'_>, id: i64) -> Result<(), BatchFailure> {
    let (first, end) = rows_of(id);
    let range = [first.into(), end.into()];
    scribe.write("DELETE FROM checkpoint_position WHERE id >= ? AND id < ?", &range).map(drop)
}

const INSERT: &str = "INSERT INTO checkpoint (correlation, saved_at, positions, digest, body, tenant, invocation) \
    VALUES (?, ?, ?, ?, ?, ?, ?)";

const UPDATE: &str =
    "UPDATE checkpoint SET correlation = ?, saved_at = ?, positions = ?, digest = ?, body = ? WHERE id = ?";

fn save(
    scribe: &WriteTransaction<'_>,
    tenant: &TenantId,
    record: &CheckpointRecord,
) -> Result<(), BatchFailure> {
    let positions = &record.completed_positions;
    let body = CheckpointRecord { completed_positions: PositionHistory::new(), ..record.clone() };
    let Ok(body) = JsonDocument::of(&body) else { return refused("the state is JSON") };
    let count = positions.len() as u64;
    let digest = digest(positions, count).unwrap_or_default();
    let values = [
        BoundValue::from(&record.correlation_id),
        record.last_saved_at.into(),
        stored(count)?.into(),
        digest.into(),
        (&body).into(),
    ];
    let (id, from) = match find(scribe, tenant, &record.invocation_id)? {
        Some(known) => {
            let [correlation, saved_at, count, digested, body] = values;
            scribe.write(UPDATE, &[correlation, saved_at, count, digested, body, known.id.into()])?;
            if digest_matches(positions, &known) {
                (known.id, known.positions)
            } else {
                drop_positions(scribe, known.id)?;
                (known.id, 0)
            }
        }
        None => {
            let name = [BoundValue::Text(tenant.as_str()), BoundValue::Text(record.invocation_id.as_str())];
            scribe.write(INSERT, &[values.as_slice(), &name].concat())?;
            (scribe.added(), 0)
        }
    };
    let first = usize::try_from(from).unwrap_or(usize::MAX);
    for (no, position) in (from..).zip(positions.from(first)) {
        let Ok(body) = JsonDocument::of(&position) else { return refused("a position is JSON") };
        scribe.write(
            "INSERT INTO checkpoint_position (id, body) VALUES (?, ?)",
            &[packed(id, no)?.into(), (&body).into()],
        )?;
    }
    Ok(())
}

fn digest(positions: &PositionHistory, len: u64) -> Option<i64> {
    positions.digest(usize::try_from(len).ok()?).map(u64::cast_signed)
}

/// Tells whether the positions begin with those that are stored.
fn digest_matches(positions: &PositionHistory, known: &StoredCheckpoint) -> bool {
    digest(positions, known.positions) == Some(known.digest)
}
