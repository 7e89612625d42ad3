//! Turns that failed, as people are shown them beside a history (D29).

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::{
    FieldValue, ItemRange, JsonDocument, ListItemRow, SessionKey, SessionRow, TurnRow, TurnRowQuery,
};
use singletree_engine::Item;
use singletree_llm::ChatMessage;
use singletree_session::{
    ChatTurnOutcome, ErroredTurn, HISTORY, OutcomeRecord, StoredOutcome, TurnId, TurnRowExt, decode_message,
};

use crate::Result;
use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::api::turns::TurnInfo;
use crate::error::store_corrupt_error;
use crate::runtime::outcome_reads::read_outcome;

/// How many turns are read at once.
const PAGE: u64 = 256;

/// How much later than its neighbours in the history a turn may have been accepted that was cancelled while it waited.
const AHEAD: u64 = 64;

/// A turn that failed, as people are shown it beside a history.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedTurnEntry {
    /// The turn.
    pub turn: TurnInfo,
    /// Why it failed.
    pub error: ErroredTurn,
    /// Before which message of the history it stands, counted from 0; behind the last one where that is the history's
    /// length.
    pub place: u64,
    /// Whether it had effects: then its messages are part of the history, and of prompts.
    pub effects: bool,
    /// The message that it answers, with its side record, where that is no part of the history.
    pub message: Option<(Arc<ChatMessage>, Option<Value>)>,
    /// Messages that it had made or shown and that are no part of the history, in order, with their side records. The
    /// side record of a message that was shown in part says `interrupted`.
    pub made: Vec<(Arc<ChatMessage>, Option<Value>)>,
    /// The turn that retries it, when one does.
    pub retried_by: Option<TurnId>,
}

impl Session {
    /// Lists the turns of a session that failed and stand at these places of its history, in the order of acceptance;
    /// of more than `limit`, or of many more bytes than [`Limits::page_bytes`](crate::Limits::page_bytes), the newest.
    /// Turns that failed before this was recorded, and those whose record is not kept, are not among them.
    ///
    /// # Errors
    /// `chat_session_unknown`, `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn failed_turns(&self, places: Range<u64>, limit: usize) -> Result<Vec<FailedTurnEntry>> {
        let session = self.chat.read_session_row(&self.id).await?;
        let mut no = match places.start.checked_sub(1) {
            Some(before) => self.chat.turn_number_at_place(&session, before).await?.unwrap_or_default(),
            None => 0,
        };
        let last = self
            .chat
            .turn_number_at_place(&session, places.end)
            .await?
            .map(|turn| turn.saturating_add(AHEAD));
        let mut found: Vec<(TurnRow, u64, bool, Option<TurnId>)> = Vec::new();
        loop {
            let query = TurnRowQuery::From { no, limit: PAGE };
            let rows = self
                .chat
                .inner
                .await_store_read(self.chat.inner.journal.read_turns(&session.key, &query))
                .await?;
            let is_last = (rows.len() as u64) < PAGE;
            for row in rows {
                no = row.no + 1;
                if let Some(retried) = row.retries
                    && let Some(failed) = found.iter_mut().find(|(failed, ..)| failed.no == retried)
                {
                    failed.3 = Some(row.turn_id());
                }
                let ended = StoredOutcome::from_turn_row(&row)?.map(|ended| ended.recorded);
                if let Some(OutcomeRecord::Errored { effects, place: Some(place), .. }) = ended
                    && places.contains(&place)
                {
                    found.push((row, place, effects, None));
                    if found.len() > limit {
                        found.remove(0);
                    }
                }
            }
            if is_last || last.is_some_and(|last| no > last) {
                break;
            }
        }
        let (mut failed, mut bytes) = (Vec::new(), 0);
        for (row, place, effects, retried_by) in found.into_iter().rev() {
            if bytes >= self.chat.inner.limits.page_bytes {
                break;
            }
            let outcome = read_outcome(self.chat.inner.journal.as_ref(), &session.key, &row);
            if let Some(ChatTurnOutcome::Errored(error)) =
                self.chat.inner.await_read_sequence(outcome).await?
            {
                let items = self.chat.read_items_beside_history(&session.key, &row).await?;
                bytes += items.iter().map(|item| item.body.as_str().len() as u64).sum::<u64>();
                let (own, made): (Vec<_>, Vec<_>) =
                    items.iter().partition(|item| Some(item.no) == row.message);
                let message = own.first().map(|item| decode_message_with_side(item)).transpose()?;
                let made = made.into_iter().map(decode_message_with_side).collect::<Result<_>>()?;
                let turn = self.chat.read_turn_info(&session.key, &row).await?;
                failed.push(FailedTurnEntry { turn, error, place, effects, message, made, retried_by });
            }
        }
        failed.reverse();
        Ok(failed)
    }
}

impl Chat {
    /// Returns the number of the turn that made the message at a place of the history; none where no turn of this
    /// session did.
    async fn turn_number_at_place(&self, session: &SessionRow, place: u64) -> Result<Option<u64>> {
        if session.head.parent.as_ref().is_some_and(|parent| place < parent.offset) {
            return Ok(None);
        }
        let field = session.fields.iter().find(|field| field.name == HISTORY).map(|field| &field.value);
        let Some(FieldValue::List { generation, len, .. }) = field else { return Ok(None) };
        if place >= *len {
            return Ok(None);
        }
        let range =
            ItemRange::List { field: HISTORY.to_owned(), generation: *generation, from: place, limit: 1 };
        let rows = self.inner.await_store_read(self.inner.journal.read_items(&session.key, &range)).await?;
        Ok(rows.first().map(|row| row.turn))
    }

    /// Reads the message of a turn and the messages that it made, as far as they are no part of the history.
    async fn read_items_beside_history(&self, key: &SessionKey, row: &TurnRow) -> Result<Vec<ListItemRow>> {
        let mut items =
            self.inner.await_store_read(self.inner.journal.read_items(key, &ItemRange::Turn(row.no))).await?;
        items.retain(|item| item.placement.is_none());
        Ok(items)
    }
}

/// A message, and its side record.
type MessageWithSide = (Arc<ChatMessage>, Option<Value>);

fn decode_message_with_side(row: &ListItemRow) -> Result<MessageWithSide> {
    let side = row.side.as_ref().map(JsonDocument::decode).transpose();
    let side = side.map_err(|error| {
        store_corrupt_error(format!("the side record of item {}", row.no), Some(error.into()))
    })?;
    Ok((decode_message(&Item::from_text(row.body.as_str()))?, side))
}
