//! The dossier of a session, read in one snapshot.

use rusqlite::{Connection, Result};
use singletree_durable::{
    PausedInvocation, SessionKey, SessionSnapshot, TurnRowQuery, WaitRow, WaitRowQuery,
};

use super::{position, session, turn, wait};

/// Reads the dossier of a session.
pub(crate) fn read_session_snapshot(connection: &Connection, key: &SessionKey) -> Result<SessionSnapshot> {
    let Some(session) = session::read_session(connection, key)? else {
        return Ok(SessionSnapshot {
            numbers: session::read_counters(connection, key)?,
            ..SessionSnapshot::default()
        });
    };
    let pending: Vec<WaitRow> = wait::read_waits(connection, &WaitRowQuery::Pending(key.clone()))?
        .into_iter()
        .map(|(_, it)| it)
        .collect();
    let paused = pending.first().map(|it| read_paused_invocation(connection, key, it)).transpose()?.flatten();
    Ok(SessionSnapshot {
        numbers: session.counters,
        session: Some(session),
        mail: wait::read_early_signals(connection, key)?,
        open: turn::read_turns(connection, key, &TurnRowQuery::Open)?,
        pending,
        paused,
    })
}

fn read_paused_invocation(
    connection: &Connection,
    key: &SessionKey,
    wait: &WaitRow,
) -> Result<Option<PausedInvocation>> {
    let turn = turn::read_turns(connection, key, &TurnRowQuery::No(wait.turn))?.pop();
    let position = position::read_position(connection, key, &wait.invocation)?;
    let Some((turn, position)) = turn.zip(position) else { return Ok(None) };
    Ok(Some(PausedInvocation {
        turn,
        position,
        records: position::read_turn_records(connection, key, wait.turn)?,
    }))
}
