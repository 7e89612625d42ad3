//! Puts of rows that are only added: events and audit rows.

use singletree_durable::{AuditRow, EventRow};

use super::session::name;
use crate::checksum;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{packed, stored, stored_opt};

/// Adds an event under a free sequence number.
pub(super) fn event(scribe: &WriteTransaction<'_>, session: i64, row: &EventRow) -> Result<(), BatchFailure> {
    let values: [BoundValue<'_>; 6] = [
        stored(row.seq)?.into(),
        stored(row.turn)?.into(),
        name(scribe, &row.kind)?.into(),
        stored_opt(row.item)?.into(),
        row.at.into(),
        row.body.as_ref().into(),
    ];
    let [_, turn, kind, item, at, body] = values;
    let (id, checksum) = (packed(session, row.seq)?.into(), checksum::of(&[&values]));
    let sql = "INSERT INTO event (id, turn, kind, item, at, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)";
    scribe.write(sql, &[id, turn, kind, item, at, body, checksum]).map(drop)
}

/// Adds an audit row, which hangs on no session.
/// It outlives the session, and so keeps hashes of the names.
pub(super) fn audit(scribe: &WriteTransaction<'_>, row: &AuditRow) -> Result<(), BatchFailure> {
    let hash = scribe.hash_of(&row.key)?;
    let by = row.by.as_ref().map(|it| scribe.hash_of_name(&row.key.tenant, it)).transpose()?;
    scribe.write(
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
