//! Items of another session, copied in one statement (D12).

use singletree_durable::{SessionId, SessionKey, Timestamp};

use super::TargetSession;
use super::session::find;
use crate::column;
use crate::error::{BatchFailure, refused};
use crate::meter::WriteTransaction;
use crate::number::{bound, stored};

/// The beginning of a list of another session.
#[derive(Debug)]
pub(super) struct ForkedListPrefix<'a> {
    pub(super) from: &'a SessionId,
    pub(super) field: &'a str,
    pub(super) generation: u64,
    pub(super) len: u64,
}

/// Copies the items, with their numbers and everything that is known of them.
pub(super) fn inherit(
    scribe: &WriteTransaction<'_>,
    target: &mut TargetSession<'_>,
    beginning: &ForkedListPrefix<'_>,
) -> Result<(), BatchFailure> {
    let ForkedListPrefix { from, field, generation, len } = beginning;
    let short = || refused(format!("list {field:?} of {from} has {len} items"));
    let Some(source) = sibling(scribe, target.key, from)? else { return short() };
    let session = target.existing(scribe)?;
    if source == session {
        return refused(format!("the session {from} is another"));
    }
    let values =
        [session.into(), source.into(), (*field).into(), stored(*generation)?.into(), stored(*len)?.into()];
    if u64::try_from(scribe.write(INHERIT, &values)?) == Ok(*len) { Ok(()) } else { short() }
}

const INHERIT: &str = "INSERT INTO item (id, turn, list, generation, seq, side, body, checksum) \
    SELECT (? << 32) | no, turn, list, generation, seq, side, body, checksum FROM item WHERE session = ? \
    AND list = (SELECT id FROM name WHERE text = ?) AND generation = ? AND seq >= 0 AND seq < ? ORDER BY seq";

/// Finds another session of the same tenant (INV-14).
fn sibling(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
    session: &SessionId,
) -> Result<Option<i64>, BatchFailure> {
    find(scribe, &SessionKey::new(key.tenant.clone(), session.clone()))
}

/// Checks that another session is there as it was read.
pub(super) fn source(
    scribe: &WriteTransaction<'_>,
    target: &TargetSession<'_>,
    (session, created_at): (&SessionId, Timestamp),
    version: u64,
) -> Result<(), BatchFailure> {
    let sql =
        "SELECT version FROM session WHERE tenant = ? AND session = ? AND created_at = ? AND version = ?";
    let values = [
        target.key.tenant.as_str().into(),
        session.as_str().into(),
        created_at.into(),
        bound(version).into(),
    ];
    match scribe.find(sql, &values, |row| column::number(row, 0))? {
        Some(_) => Ok(()),
        None => refused(format!("the session {session}, made at {created_at}, is at version {version}")),
    }
}
