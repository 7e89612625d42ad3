//! Writes of blobs.

use singletree_durable::{SessionId, SessionKey, StoredBlob};

use super::TargetSession;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::session_key_range;

/// Keeps a blob for a session. Its bytes are written, and count for the holder, when the tenant has none of its digest.
pub(crate) fn keep_blob(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
    (blob, holder): (&StoredBlob, Option<&str>),
) -> Result<(), BatchFailure> {
    let (tenant, digest) = (BoundValue::Text(key.tenant.as_str()), BoundValue::Text(&blob.digest));
    let known = scribe.query_one_row(
        "SELECT 1 FROM blob WHERE tenant = ? AND digest = ?",
        &[tenant, digest],
        |_| Ok(()),
    )?;
    if known.is_none() {
        let holder = BoundValue::Text(holder.unwrap_or_default());
        let values = [tenant, digest, (&blob.media_type).into(), BoundValue::Bytes(&blob.bytes), holder];
        let add = "INSERT INTO blob (tenant, digest, media_type, bytes, holder) VALUES (?, ?, ?, ?, ?)";
        scribe.execute_write(add, &values)?;
    }
    let values = [tenant, key.session.as_str().into(), digest];
    scribe.execute_write(
        "INSERT OR IGNORE INTO blob_use (tenant, session, digest) VALUES (?, ?, ?)",
        &values,
    )?;
    Ok(())
}

/// Lets the session of a batch use those blobs of another one that it names: whose digest stands in an item or a field.
pub(super) fn inherit_blobs(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    from: &SessionId,
) -> Result<(), BatchFailure> {
    let Some(id) = target.id else { return Ok(()) };
    let (first, end) = session_key_range(id);
    let values = [
        target.key.tenant.as_str().into(),
        target.key.session.as_str().into(),
        from.as_str().into(),
        first.into(),
        end.into(),
        id.into(),
    ];
    scribe.execute_write(INHERIT, &values)?;
    Ok(())
}

const INHERIT: &str = "INSERT OR IGNORE INTO blob_use (tenant, session, digest) SELECT ?1, ?2, u.digest \
    FROM blob_use u WHERE u.tenant = ?1 AND u.session = ?3 AND (\
    EXISTS (SELECT 1 FROM item i WHERE i.id >= ?4 AND i.id < ?5 AND instr(i.body, u.digest) > 0) \
    OR EXISTS (SELECT 1 FROM field f WHERE f.session = ?6 AND instr(f.value, u.digest) > 0))";
