//! The log, read back into events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use singletree_durable::{EventRow, ItemRange, JsonDocument, SessionId, SessionKey, TurnRow, TurnRowQuery};
use singletree_engine::Item;
use singletree_llm::ChatMessage;
use singletree_session::{
    ChatEvent, ChatEventId, ChatEventKind, ChatTurnOutcome, MessageId, TurnId, TurnRowExt, decode_message,
    event_kinds,
};

use crate::Result;
use crate::api::chat::Chat;
use crate::error::store_corrupt_error;
use crate::runtime::outcome_reads::read_outcome;

/// Turns rows back into events.
pub(crate) struct EventReplay<'a> {
    chat: &'a Chat,
    key: &'a SessionKey,
    turn: Option<TurnRow>,
    /// Bytes of the messages that were read.
    bytes: AtomicU64,
}

impl<'a> EventReplay<'a> {
    pub(crate) fn new(chat: &'a Chat, key: &'a SessionKey) -> Self {
        Self { chat, key, turn: None, bytes: AtomicU64::new(0) }
    }

    /// Returns the bytes of the messages that were read so far.
    pub(crate) fn message_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) async fn replay_event(&mut self, row: EventRow) -> Result<ChatEvent> {
        let body = row.body.as_ref().map_or(Ok(Value::Null), JsonDocument::decode);
        let body: Value =
            body.map_err(|error| store_corrupt_error(format!("event {}", row.seq), Some(error.into())))?;
        let (turn, what) = match body["turn"].as_str() {
            // The events of a fork itself belong to no stored turn: their bodies carry the turn's name.
            Some(name) => {
                let name: TurnId = name.parse()?;
                let what = self.replay_message_event(&row, &body, &name).await?;
                (name, what)
            }
            None => {
                let turn = self.read_turn_row(row.turn).await?;
                let what = match self.replay_message_event(&row, &body, &turn.turn_id()).await? {
                    Some(what) => Some(what),
                    None => self.replay_turn_end(&row, &turn).await?,
                };
                (turn.turn_id(), what)
            }
        };
        let what = what.ok_or_else(|| {
            store_corrupt_error(format!("event {} is of the unknown kind '{}'", row.seq, row.kind), None)
        })?;
        let id = Some(ChatEventId { epoch: self.chat.inner.epoch.as_ref().to_owned(), seq: row.seq });
        Ok(ChatEvent { id, session: self.key.session.clone(), turn, at: row.at, what })
    }

    /// Reads the row of a turn of the session.
    pub(crate) async fn read_turn_row(&mut self, no: u64) -> Result<TurnRow> {
        // A row is read again until it has an outcome, which the event of the turn's end needs.
        if let Some(turn) = self.turn.as_ref().filter(|turn| turn.no == no && turn.outcome.is_some()) {
            return Ok(turn.clone());
        }
        let rows = self
            .chat
            .inner
            .await_store_read(self.chat.inner.journal.read_turns(self.key, &TurnRowQuery::No(no)))
            .await?;
        let turn = rows
            .into_iter()
            .next()
            .ok_or_else(|| store_corrupt_error(format!("turn {no} is missing"), None))?;
        self.turn = Some(turn.clone());
        Ok(turn)
    }

    /// Reads an event that needs no more of its turn than the name; none for other kinds.
    async fn replay_message_event(
        &self,
        row: &EventRow,
        body: &Value,
        turn: &TurnId,
    ) -> Result<Option<ChatEventKind>> {
        Ok(Some(match row.kind.as_str() {
            event_kinds::ACCEPTED => {
                let message = match row.item {
                    Some(no) => Some(self.read_message_item(no).await?.0),
                    None => None,
                };
                ChatEventKind::TurnAccepted { message }
            }
            event_kinds::APPENDED => {
                let no = row
                    .item
                    .ok_or_else(|| store_corrupt_error(format!("event {} names no item", row.seq), None))?;
                let (message, side) = self.read_message_item(no).await?;
                let id = MessageId { turn: turn.clone(), k: body["k"].as_u64().unwrap_or_default() };
                ChatEventKind::MessageAppended { id, message, side }
            }
            event_kinds::SIGNAL => ChatEventKind::SignalReceived {
                wait: body["wait"].as_u64().unwrap_or_default(),
                signal: read_text_field(body, "signal"),
                how: match body["how"].as_str() {
                    Some("expired") => "expired",
                    Some("cancelled") => "cancelled",
                    Some("refused") => "refused",
                    _ => "consumed",
                },
                from: body["from"].as_str().map(str::to_owned),
            },
            event_kinds::FORKED => {
                let parent = SessionId::parse(read_text_field(body, "parent"));
                let parent = parent
                    .map_err(|error| store_corrupt_error("a fork's parent".into(), Some(error.into())))?;
                ChatEventKind::SessionForked { parent, offset: body["offset"].as_u64().unwrap_or_default() }
            }
            _ => return Ok(None),
        }))
    }

    /// Reads the end of a turn.
    async fn replay_turn_end(&self, row: &EventRow, turn: &TurnRow) -> Result<Option<ChatEventKind>> {
        Ok(Some(match row.kind.as_str() {
            event_kinds::SUSPENDED => {
                ChatEventKind::TurnSuspended { outcome: self.read_turn_outcome(turn).await? }
            }
            event_kinds::COMPLETED => {
                ChatEventKind::TurnCompleted { outcome: self.read_turn_outcome(turn).await? }
            }
            event_kinds::ERRORED => {
                ChatEventKind::TurnErrored { outcome: self.read_turn_outcome(turn).await? }
            }
            _ => return Ok(None),
        }))
    }

    /// Reads a message and its side record.
    pub(crate) async fn read_message_item(&self, no: u64) -> Result<(Arc<ChatMessage>, Option<Value>)> {
        let range = ItemRange::Numbers { from: no, to: no + 1 };
        let rows =
            self.chat.inner.await_store_read(self.chat.inner.journal.read_items(self.key, &range)).await?;
        let row = rows
            .into_iter()
            .next()
            .ok_or_else(|| store_corrupt_error(format!("item {no} is missing"), None))?;
        self.bytes.fetch_add(row.count_bytes(), Ordering::Relaxed);
        let side = row.side.as_ref().map(JsonDocument::decode).transpose();
        let side = side.map_err(|error| {
            store_corrupt_error(format!("the side record of item {no}"), Some(error.into()))
        })?;
        Ok((decode_message(&Item::from_text(row.body.as_str()))?, side))
    }

    async fn read_turn_outcome(&self, turn: &TurnRow) -> Result<Arc<ChatTurnOutcome>> {
        let inner = &self.chat.inner;
        let outcome = inner.await_read_sequence(read_outcome(inner.journal.as_ref(), self.key, turn)).await?;
        outcome
            .map(Arc::new)
            .ok_or_else(|| store_corrupt_error(format!("turn {} has no outcome", turn.no), None))
    }
}

fn read_text_field(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_default().to_owned()
}
