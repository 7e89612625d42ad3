//! Items of another session, copied in one statement (D12).

use singletree_durable::{SessionId, SessionKey, Timestamp};

use super::TargetSession;
use super::session::find_session_id;
use crate::column;
use crate::error::{BatchFailure, refuse_batch};
use crate::meter::WriteTransaction;
use crate::number::{to_query_bound, to_stored_number};

/// The beginning of a list of another session.
#[derive(Debug)]
pub(super) struct ForkedListPrefix<'a> {
    pub(super) from: &'a SessionId,
    pub(super) field: &'a str,
    pub(super) generation: u64,
    pub(super) len: u64,
}

/// Copies the items, with their numbers and everything that is known of them.
pub(super) fn inherit_items(
    scribe: &WriteTransaction<'_>,
    target: &mut TargetSession<'_>,
    beginning: &ForkedListPrefix<'_>,
) -> Result<(), BatchFailure> {
    let ForkedListPrefix { from, field, generation, len } = beginning;
    let short = || refuse_batch(format!("list {field:?} of {from} has {len} items"));
    let Some(source) = find_sibling_session(scribe, target.key, from)? else { return short() };
    let session = target.require_session_id(scribe)?;
    if source == session {
        return refuse_batch(format!("the session {from} is another"));
    }
    let values = [
        session.into(),
        source.into(),
        (*field).into(),
        to_stored_number(*generation)?.into(),
        to_stored_number(*len)?.into(),
    ];
    if u64::try_from(scribe.execute_write(INHERIT, &values)?) == Ok(*len) { Ok(()) } else { short() }
}

const INHERIT: &str = "INSERT INTO item (id, turn, list, generation, seq, side, body, checksum) \
    SELECT (? << 32) | no, turn, list, generation, seq, side, body, checksum FROM item WHERE session = ? \
    AND list = (SELECT id FROM name WHERE text = ?) AND generation = ? AND seq >= 0 AND seq < ? ORDER BY seq";

/// Finds another session of the same tenant (INV-14).
fn find_sibling_session(
    scribe: &WriteTransaction<'_>,
    key: &SessionKey,
    session: &SessionId,
) -> Result<Option<i64>, BatchFailure> {
    find_session_id(scribe, &SessionKey::new(key.tenant.clone(), session.clone()))
}

/// Checks that another session is there as it was read.
pub(super) fn check_source_session(
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
        to_query_bound(version).into(),
    ];
    match scribe.query_one_row(sql, &values, |row| column::read_number(row, 0))? {
        Some(_) => Ok(()),
        None => refuse_batch(format!("the session {session}, made at {created_at}, is at version {version}")),
    }
}
