//! The data of a session that a writer reads before it continues the session.

use crate::{
    Counters, EarlySignalRow, Journal, PositionRow, RecordRow, Result, SessionKey, SessionRow, TurnRow,
    TurnRowQuery, WaitRow, WaitRowQuery,
};

/// Everything that [`Journal::read_session_snapshot`] reads of a session at once: the results of the single reads, without items and
/// log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionSnapshot {
    /// As [`Journal::read_session`].
    pub session: Option<SessionRow>,
    /// As [`Journal::read_counters`].
    pub numbers: Counters,
    /// As [`Journal::read_waits`] with [`WaitRowQuery::Pending`].
    pub pending: Vec<WaitRow>,
    /// As [`Journal::read_early_signals`].
    pub mail: Vec<EarlySignalRow>,
    /// As [`Journal::read_turns`] with [`TurnRowQuery::Open`].
    pub open: Vec<TurnRow>,
    /// Where the invocation of the first pending wait stands, when it stands somewhere.
    pub paused: Option<PausedInvocation>,
}

/// A suspended invocation as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedInvocation {
    /// The turn that suspended.
    pub turn: TurnRow,
    /// Where it stands.
    pub position: PositionRow,
    /// The records of the turn that suspended, ordered by name.
    pub records: Vec<RecordRow>,
}

/// Puts a dossier together from single reads.
pub(crate) async fn gather_snapshot<J: Journal + ?Sized>(
    journal: &J,
    key: &SessionKey,
) -> Result<SessionSnapshot> {
    let session = journal.read_session(key).await?;
    let numbers = match &session {
        Some(row) => row.counters,
        None => {
            return Ok(SessionSnapshot {
                numbers: journal.read_counters(key).await?,
                ..SessionSnapshot::default()
            });
        }
    };
    let pending = journal.read_waits(&WaitRowQuery::Pending(key.clone())).await?;
    let pending: Vec<_> = pending.into_iter().map(|(_, wait)| wait).collect();
    let mail = journal.read_early_signals(key).await?;
    let open = journal.read_turns(key, &TurnRowQuery::Open).await?;
    let paused = match pending.first() {
        Some(wait) => read_paused_invocation(journal, key, wait).await?,
        None => None,
    };
    Ok(SessionSnapshot { session, numbers, pending, mail, open, paused })
}

async fn read_paused_invocation<J: Journal + ?Sized>(
    journal: &J,
    key: &SessionKey,
    wait: &WaitRow,
) -> Result<Option<PausedInvocation>> {
    let turn = journal.read_turns(key, &TurnRowQuery::No(wait.turn)).await?.pop();
    let position = journal.read_position(key, &wait.invocation).await?;
    let Some((turn, position)) = turn.zip(position) else { return Ok(None) };
    Ok(Some(PausedInvocation { turn, position, records: journal.read_turn_records(key, wait.turn).await? }))
}
