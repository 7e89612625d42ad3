//! The dossier of a session, read in one snapshot.

use rusqlite::{Connection, Result};
use singletree_durable::{
    PausedInvocation, SessionKey, SessionSnapshot, TurnRowQuery, WaitRow, WaitRowQuery,
};

use super::{position, session, turn, wait};

/// Reads the dossier of a session.
pub(crate) fn of(connection: &Connection, key: &SessionKey) -> Result<SessionSnapshot> {
    let Some(session) = session::one(connection, key)? else {
        return Ok(SessionSnapshot {
            numbers: session::numbers(connection, key)?,
            ..SessionSnapshot::default()
        });
    };
    let pending: Vec<WaitRow> =
        wait::of(connection, &WaitRowQuery::Pending(key.clone()))?.into_iter().map(|(_, it)| it).collect();
    let paused = pending.first().map(|it| paused(connection, key, it)).transpose()?.flatten();
    Ok(SessionSnapshot {
        numbers: session.counters,
        session: Some(session),
        mail: wait::mail(connection, key)?,
        open: turn::of(connection, key, &TurnRowQuery::Open)?,
        pending,
        paused,
    })
}

fn paused(connection: &Connection, key: &SessionKey, wait: &WaitRow) -> Result<Option<PausedInvocation>> {
    let turn = turn::of(connection, key, &TurnRowQuery::No(wait.turn))?.pop();
    let position = position::of(connection, key, &wait.invocation)?;
    let Some((turn, position)) = turn.zip(position) else { return Ok(None) };
    Ok(Some(PausedInvocation { turn, position, records: position::records(connection, key, wait.turn)? }))
}
