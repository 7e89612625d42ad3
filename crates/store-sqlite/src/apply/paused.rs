//! Writes of paused records (suspension §7).

use singletree_durable::{InvocationId, PausedRecord, PausedStatus, TenantId};

use crate::column;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::word::ColumnKeyword;

/// A change of a paused record.
#[derive(Debug)]
pub(crate) enum PausedRecordChange {
    /// Stores it, whatever was there.
    Save(PausedRecord),
    /// Takes it for a resume if it is suspended.
    Claim,
    /// Sets the status of an existing one.
    Close(PausedStatus),
    /// Removes it.
    Delete,
}

/// Changes a paused record and returns it as it was when it was claimed.
pub(crate) fn change_paused_record(
    scribe: &WriteTransaction<'_>,
    tenant: &TenantId,
    invocation: &InvocationId,
    change: &PausedRecordChange,
) -> Result<Option<PausedRecord>, BatchFailure> {
    let (tenant, invocation) = (BoundValue::Text(tenant.as_str()), BoundValue::Text(invocation.as_str()));
    match change {
        PausedRecordChange::Save(record) => {
            let values = [tenant, invocation, record.status.to_keyword().into(), (&record.body).into()];
            scribe.execute_write(SAVE, &values)?;
        }
        PausedRecordChange::Claim => return claim_paused_record(scribe, tenant, invocation),
        PausedRecordChange::Close(status) => {
            scribe.execute_write(CLOSE, &[status.to_keyword().into(), tenant, invocation])?;
        }
        PausedRecordChange::Delete => {
            scribe.execute_write(
                "DELETE FROM paused WHERE tenant = ? AND invocation = ?",
                &[tenant, invocation],
            )?;
        }
    }
    Ok(None)
}

const SAVE: &str = "INSERT INTO paused (tenant, invocation, status, body) VALUES (?, ?, ?, ?) \
    ON CONFLICT (tenant, invocation) DO UPDATE SET status = excluded.status, body = excluded.body";

const CLOSE: &str = "UPDATE paused SET status = ? WHERE tenant = ? AND invocation = ?";

const SUSPENDED: &str = "SELECT status, body FROM paused \
    WHERE tenant = ? AND invocation = ? AND status = 'suspended'";

fn claim_paused_record(
    scribe: &WriteTransaction<'_>,
    tenant: BoundValue<'_>,
    invocation: BoundValue<'_>,
) -> Result<Option<PausedRecord>, BatchFailure> {
    let found = scribe.query_one_row(SUSPENDED, &[tenant, invocation], |row| {
        Ok(PausedRecord { status: column::read_keyword(row, 0)?, body: column::read_json(row, 1)? })
    })?;
    if found.is_some() {
        scribe.execute_write(CLOSE, &[PausedStatus::Resuming.to_keyword().into(), tenant, invocation])?;
    }
    Ok(found)
}
