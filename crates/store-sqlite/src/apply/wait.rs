//! Puts of waits.

use singletree_durable::WaitRow;

use crate::error::Failure;
use crate::meter::Scribe;
use crate::number::{packed, stored, stored_opt};
use crate::word::Word;

/// Writes a wait, whatever stood there.
pub(super) fn put(scribe: &Scribe<'_>, session: i64, row: &WaitRow) -> Result<(), Failure> {
    scribe.write(
        PUT,
        &[
            packed(session, row.no)?.into(),
            (&row.signal).into(),
            row.invocation.as_str().into(),
            stored(row.turn)?.into(),
            row.status.word().into(),
            row.metadata.as_ref().into(),
            row.action.as_ref().into(),
            row.deadline.into(),
            row.payload_schema.as_ref().into(),
            row.on_deadline.as_ref().into(),
            row.created_at.into(),
            stored_opt(row.ended_by)?.into(),
            row.answer.as_ref().into(),
            row.answered_by.as_ref().into(),
            row.ended_at.into(),
        ],
    )?;
    Ok(())
}

const PUT: &str = "INSERT INTO wait (id, signal, invocation, turn, status, metadata, action, deadline, \
    payload_schema, on_deadline, created_at, ended_by, answer, answered_by, ended_at) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
    ON CONFLICT (id) DO UPDATE SET signal = excluded.signal, invocation = excluded.invocation, \
    turn = excluded.turn, status = excluded.status, metadata = excluded.metadata, action = excluded.action, \
    deadline = excluded.deadline, payload_schema = excluded.payload_schema, \
    on_deadline = excluded.on_deadline, created_at = excluded.created_at, ended_by = excluded.ended_by, \
    answer = excluded.answer, answered_by = excluded.answered_by, ended_at = excluded.ended_at";
