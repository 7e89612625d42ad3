//! Puts of turns.

use singletree_durable::TurnRow;

use super::session::name;
use crate::error::Failure;
use crate::meter::Scribe;
use crate::number::{bound, stored, stored_opt};
use crate::word::Word;

/// Writes a turn, whatever stood there.
pub(super) fn put(scribe: &Scribe<'_>, session: i64, row: &TurnRow) -> Result<(), Failure> {
    scribe.write(
        PUT,
        &[
            session.into(),
            stored(row.no)?.into(),
            row.invocation.as_str().into(),
            row.ordinal.into(),
            row.kind.word().into(),
            row.status.word().into(),
            stored(row.fence.0)?.into(),
            row.deaths.into(),
            name(scribe, &row.agent)?.into(),
            name(scribe, &row.graph)?.into(),
            stored_opt(row.message)?.into(),
            stored_opt(row.wait)?.into(),
            row.key.as_ref().into(),
            row.digest.as_ref().into(),
            row.accepted_at.into(),
            row.ended_at.into(),
            row.outcome.as_ref().into(),
        ],
    )?;
    Ok(())
}

const PUT: &str = "INSERT INTO turn (session, no, invocation, ordinal, kind, status, fence, deaths, agent, graph, \
    message, wait, key, digest, accepted_at, ended_at, outcome) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
    ON CONFLICT (session, no) DO UPDATE SET invocation = excluded.invocation, ordinal = excluded.ordinal, \
    kind = excluded.kind, status = excluded.status, fence = excluded.fence, deaths = excluded.deaths, \
    agent = excluded.agent, graph = excluded.graph, message = excluded.message, wait = excluded.wait, key = excluded.key, \
    digest = excluded.digest, accepted_at = excluded.accepted_at, ended_at = excluded.ended_at, \
    outcome = excluded.outcome";

/// Takes the idempotency key, and its digest with it, off a turn.
pub(super) fn free_key(scribe: &Scribe<'_>, session: Option<i64>, turn: u64) -> Result<(), Failure> {
    let Some(session) = session else { return Ok(()) };
    scribe.write(
        "UPDATE turn SET key = NULL, digest = NULL WHERE session = ? AND no = ?",
        &[session.into(), bound(turn).into()],
    )?;
    Ok(())
}
