//! Puts of rows that are only added: events and audit rows.

use singletree_durable::{AuditRow, EventRow};

use super::session::find_or_add_name;
use crate::checksum;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{pack_row_key, to_stored_number, to_stored_optional};

/// Adds an event under a free sequence number.
pub(super) fn insert_event(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &EventRow,
) -> Result<(), BatchFailure> {
    let values: [BoundValue<'_>; 6] = [
        to_stored_number(row.seq)?.into(),
        to_stored_number(row.turn)?.into(),
        find_or_add_name(scribe, &row.kind)?.into(),
        to_stored_optional(row.item)?.into(),
        row.at.into(),
        row.body.as_ref().into(),
    ];
    let [_, turn, kind, item, at, body] = values;
    let (id, checksum) = (pack_row_key(session, row.seq)?.into(), checksum::checksum_of_parts(&[&values]));
    let sql = "INSERT INTO event (id, turn, kind, item, at, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)";
    scribe.execute_write(sql, &[id, turn, kind, item, at, body, checksum]).map(drop)
}

/// Adds an audit row, which hangs on no session.
/// It outlives the session, and so keeps hashes of the names.
pub(super) fn insert_audit_row(scribe: &WriteTransaction<'_>, row: &AuditRow) -> Result<(), BatchFailure> {
    let hash = scribe.hash_session_name(&row.key)?;
    let by = row.by.as_ref().map(|it| scribe.hash_actor_name(&row.key.tenant, it)).transpose()?;
    scribe.execute_write(
        "INSERT INTO audit (at, action, tenant, session, done_by) VALUES (?, ?, ?, ?, ?)",
        &[
            row.at.into(),
            (&row.action).into(),
            row.key.tenant.as_str().into(),
            hash.as_str().into(),
            by.as_deref().into(),
        ],
    )?;
    Ok(())
}
