//! Looking at turns, without waiting for them.

use singletree_durable::{SessionKey, StoredTurnKind, StoredTurnStatus, Timestamp, TurnRow, TurnRowQuery};
use singletree_session::{ModelTokenUsage, StoredOutcome, TurnId, TurnRowExt};

use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::turn::activity_events::TurnActivity;
use crate::{Error, Result};

/// Among how many of the last numbers the newest turn is looked for.
const NEWEST: u64 = 4;

/// A turn in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnInfo {
    /// Its name.
    pub id: TurnId,
    /// Its number in the session: the order of numbers is the order of acceptance.
    pub no: u64,
    /// The session that it is in.
    pub session: String,
    /// The agent that runs it.
    pub agent: String,
    /// The cause of the turn.
    pub kind: StoredTurnKind,
    /// How far it is.
    pub status: StoredTurnStatus,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// The failed turn that it retries (D29), as long as the record of that is kept.
    pub retries: Option<TurnId>,
    /// How far it is, while it has not ended and its session is in this process's memory.
    pub activity: Option<TurnActivity>,
    /// Its model usage, once it has ended.
    pub usage: Vec<ModelTokenUsage>,
}

/// A page of a session's turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnPage {
    /// The turns, in the order of acceptance.
    pub items: Vec<TurnInfo>,
    /// The number at which the next page begins, when there is one.
    pub next: Option<u64>,
}

impl Session {
    /// Lists the turns of a session whose records are kept, from a number on, at most `limit`.
    ///
    /// # Errors
    /// `chat_session_unknown`, `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn turns(&self, from: u64, limit: u64) -> Result<TurnPage> {
        let key = self.chat.read_session_row(&self.id).await?.key;
        let query = TurnRowQuery::From { no: from, limit: limit.saturating_add(1) };
        let mut rows =
            self.chat.inner.await_store_read(self.chat.inner.journal.read_turns(&key, &query)).await?;
        let fits = usize::try_from(limit).unwrap_or(usize::MAX);
        let next = rows.get(fits).map(|row| row.no);
        rows.truncate(fits);
        Ok(TurnPage { items: self.chat.read_turn_infos(&key, &rows).await?, next })
    }

    /// Lists the turns of a session that have not ended, in the order of acceptance: the one that runs, if one does,
    /// and those that wait their place.
    ///
    /// # Errors
    /// `chat_session_unknown`, `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn open_turns(&self) -> Result<Vec<TurnInfo>> {
        let key = self.chat.read_session_row(&self.id).await?.key;
        let rows = self
            .chat
            .inner
            .await_store_read(self.chat.inner.journal.read_turns(&key, &TurnRowQuery::Open))
            .await?;
        self.chat.read_turn_infos(&key, &rows).await
    }

    /// Shows the turn of a session that was accepted last, if its record is kept.
    ///
    /// # Errors
    /// As [`Session::open_turns`].
    pub async fn newest_turn(&self) -> Result<Option<TurnInfo>> {
        let row = self.chat.read_session_row(&self.id).await?;
        // Numbers that a fork or an import took belong to no turn.
        let no = row.counters.turns.saturating_sub(NEWEST);
        let query = TurnRowQuery::From { no, limit: NEWEST };
        let rows =
            self.chat.inner.await_store_read(self.chat.inner.journal.read_turns(&row.key, &query)).await?;
        let last = rows.last().map(std::slice::from_ref).unwrap_or_default();
        Ok(self.chat.read_turn_infos(&row.key, last).await?.pop())
    }

    /// Shows one turn of a session.
    ///
    /// # Errors
    /// `chat_turn_unknown` when the session has no such turn, or its record was forgotten;
    /// `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn turn_info(&self, id: &TurnId) -> Result<TurnInfo> {
        let key = self.chat.session_key(&self.id)?;
        let query = TurnRowQuery::Invocation(id.invocation.clone());
        let rows = self.chat.inner.await_store_read(self.chat.inner.journal.read_turns(&key, &query)).await?;
        let row = rows.iter().find(|row| row.ordinal == id.ordinal);
        let row = row.ok_or_else(|| Error::TurnUnknown { turn: id.to_string() })?;
        self.chat.read_turn_info(&key, row).await
    }
}

impl Chat {
    async fn read_turn_infos(&self, key: &SessionKey, rows: &[TurnRow]) -> Result<Vec<TurnInfo>> {
        let mut infos = Vec::with_capacity(rows.len());
        for row in rows {
            infos.push(self.read_turn_info(key, row).await?);
        }
        Ok(infos)
    }

    pub(crate) async fn read_turn_info(&self, key: &SessionKey, row: &TurnRow) -> Result<TurnInfo> {
        let retries = match row.retries {
            Some(no) => {
                self.inner.await_store_read(self.inner.journal.read_turns(key, &TurnRowQuery::No(no))).await?
            }
            None => Vec::new(),
        };
        let loaded = self.inner.find_loaded_session(key).filter(|_| row.status == StoredTurnStatus::Accepted);
        let activity = loaded.and_then(|loaded| loaded.find_turn_activity(&row.turn_id()));
        Ok(TurnInfo { activity, ..turn_info_from_row(key, row, retries.first().map(TurnRowExt::turn_id))? })
    }
}

fn turn_info_from_row(key: &SessionKey, row: &TurnRow, retries: Option<TurnId>) -> Result<TurnInfo> {
    Ok(TurnInfo {
        id: row.turn_id(),
        no: row.no,
        session: key.session.to_string(),
        agent: row.agent.clone(),
        kind: row.kind,
        status: row.status,
        accepted_at: row.accepted_at,
        ended_at: row.ended_at,
        retries,
        activity: None,
        usage: StoredOutcome::from_turn_row(row)?.map(|it| it.used.to_token_usages()).unwrap_or_default(),
    })
}
