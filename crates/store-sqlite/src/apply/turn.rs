//! Puts of turns.

use rusqlite::Row;
use singletree_durable::{StoredTurnStatus, TurnRow};

use super::session::find_or_add_name;
use crate::checksum;
use crate::error::BatchFailure;
use crate::meter::{BoundValue, WriteTransaction};
use crate::number::{pack_row_key, to_stored_number, to_stored_optional};
use crate::word::ColumnKeyword;

/// Writes a turn, whatever stood there.
pub(super) fn put_turn(
    scribe: &WriteTransaction<'_>,
    session: i64,
    row: &TurnRow,
) -> Result<(), BatchFailure> {
    let id = BoundValue::Int(pack_row_key(session, row.no)?);
    let lasting: [BoundValue<'_>; 11] = [
        row.invocation.as_str().into(),
        row.ordinal.into(),
        row.kind.to_keyword().into(),
        find_or_add_name(scribe, &row.agent)?.into(),
        find_or_add_name(scribe, &row.graph)?.into(),
        to_stored_optional(row.message)?.into(),
        to_stored_optional(row.wait)?.into(),
        row.key.as_ref().into(),
        row.digest.as_ref().into(),
        row.accepted_at.into(),
        to_stored_optional(row.retries)?.into(),
    ];
    let moving: [BoundValue<'_>; 5] = [
        row.status.to_keyword().into(),
        to_stored_number(row.fence.0)?.into(),
        row.deaths.into(),
        row.ended_at.into(),
        row.outcome.as_ref().into(),
    ];
    let no = BoundValue::Int(to_stored_number(row.no)?);
    let rest = [&[no], &lasting[..7], &lasting[9..], &moving].concat();
    let checksum = checksum::checksum_of_parts(&[&rest, &lasting[7..9]]);
    let moving = [moving[0], moving[1], moving[2], moving[3], moving[4], checksum];
    let is_new = row.status == StoredTurnStatus::Accepted && row.deaths == 0;
    if !is_new && scribe.execute_write(MOVE, &join_values(&moving, id, &lasting))? > 0 {
        return Ok(());
    }
    scribe.execute_write(PUT, &join_values(&lasting, id, &moving))?;
    Ok(())
}

fn join_values<'a>(
    first: &[BoundValue<'a>],
    id: BoundValue<'a>,
    last: &[BoundValue<'a>],
) -> Vec<BoundValue<'a>> {
    [first, &[id], last].concat()
}

/// Updates the columns that change while a turn runs. It sets no indexed column, so of the indexes it touches at most
/// `turn_open`, whose condition is the status. If another column of the row differs, [`PUT`] writes the row.
const MOVE: &str = "UPDATE turn SET status = ?, fence = ?, deaths = ?, ended_at = ?, outcome = ?, checksum = ? \
    WHERE id = ? AND invocation = ? AND ordinal = ? AND kind = ? AND agent = ? AND graph = ? AND message IS ? \
    AND wait IS ? AND key IS ? AND digest IS ? AND accepted_at = ? AND retries IS ?";

const PUT: &str = "INSERT INTO turn (invocation, ordinal, kind, agent, graph, message, wait, key, digest, \
    accepted_at, retries, id, status, fence, deaths, ended_at, outcome, checksum) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
    ON CONFLICT (id) DO UPDATE SET invocation = excluded.invocation, ordinal = excluded.ordinal, \
    kind = excluded.kind, status = excluded.status, fence = excluded.fence, deaths = excluded.deaths, \
    agent = excluded.agent, graph = excluded.graph, message = excluded.message, wait = excluded.wait, key = excluded.key, \
    digest = excluded.digest, accepted_at = excluded.accepted_at, ended_at = excluded.ended_at, \
    outcome = excluded.outcome, retries = excluded.retries, checksum = excluded.checksum";

/// Takes the idempotency key, and its digest with it, off a turn.
pub(super) fn free_idempotency_key(
    scribe: &WriteTransaction<'_>,
    session: Option<i64>,
    turn: u64,
) -> Result<(), BatchFailure> {
    let Some(session) = session else { return Ok(()) };
    // No turn has a number too large to be stored.
    let Ok(id) = pack_row_key(session, turn) else { return Ok(()) };
    let read = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?]);
    let held: Option<[Option<String>; 2]> =
        scribe.query_one_row("SELECT key, digest FROM turn WHERE id = ?", &[id.into()], read)?;
    let Some([key, digest]) = held else { return Ok(()) };
    let change = checksum::difference_of_part(
        1,
        &[key.as_ref().into(), digest.as_ref().into()],
        &[BoundValue::Null; 2],
    );
    let sql =
        "UPDATE turn SET key = NULL, digest = NULL, checksum = (checksum + ?) & 2147483647 WHERE id = ?";
    scribe.execute_write(sql, &[change, id.into()]).map(drop)
}
