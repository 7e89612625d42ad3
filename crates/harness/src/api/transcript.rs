//! The history as its readers outside know it: each message with its id and its time (D17).
//!
//! A message is stored with the number of its turn and its place in the history. Its id is made of these: the turn's
//! name, and the distance from the turn's first message. The messages of a turn stand together, so that the first one
//! is found by looking back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::{
    FieldValue, ItemRange, JsonDocument, ListItemRow, SessionKey, SessionRow, Timestamp, TurnRow,
    TurnRowQuery,
};
use singletree_engine::Item;
use singletree_llm::{ChatMessage, Role};
use singletree_session::{ChatEventId, HISTORY, MessageId, TAKEN_BY, TurnId, TurnRowExt, decode_message};

use crate::Result;
use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::error::store_corrupt_error;

/// How many messages are looked at at once for the beginning of a turn, and how many turns are read at once.
const WINDOW: u64 = 64;
/// After how many bytes the look for the beginning of a turn reads again.
const WINDOW_BYTES: u64 = 256 << 10;

/// How many forks of forks a message is followed through.
const GENERATIONS: usize = 1024;

/// One message of a history, with its id, its time and its side record.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptEntry {
    /// Its place, from 0.
    pub seq: u64,
    /// Its id, as its event names it. None when the record of its turn is not kept any more, and for messages that no
    /// turn made: results that close calls at the beginning of a fork, and imported messages.
    pub id: Option<MessageId>,
    /// When: a user's message when it was accepted, another when its turn ended. None as for the id.
    pub at: Option<Timestamp>,
    /// The message.
    pub message: Arc<ChatMessage>,
    /// Its side record, such as an interruption.
    pub side: Option<Value>,
}

/// A part of a history.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// The messages, in their order.
    pub items: Vec<TranscriptEntry>,
    /// Where the next part begins, when there is one.
    pub next: Option<u64>,
    /// Listening from after this event misses no message that is not here, and may repeat some that are. It is the last
    /// event before this was read; while a turn has not ended, the last one before that turn, whose messages are no
    /// part of the history yet. None when that is the beginning.
    pub last_event: Option<ChatEventId>,
}

/// A message as it is stored, with the turn whose it is.
struct TranscriptRow {
    row: ListItemRow,
    side: Option<Value>,
    /// The turn that it is part of, by which its id is made.
    owner: Option<TurnId>,
    /// The record of the turn that made it.
    made_by: Option<TurnRow>,
}

impl Session {
    /// Reads the history of a session with ids and times, from a place on, at most `limit` messages and not many more
    /// bytes than [`Limits::page_bytes`](crate::Limits::page_bytes): `next` says where to go on.
    ///
    /// # Errors
    /// `chat_session_unknown`, `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn transcript(&self, from: u64, limit: u64) -> Result<Transcript> {
        self.chat.read_transcript(&self.id, TranscriptSpan::From(from), limit).await
    }

    /// Reads the newest messages of a session with ids and times, at most `limit` and not many more bytes than
    /// [`Limits::page_bytes`](crate::Limits::page_bytes). Where the first of them is not the first of the history,
    /// there are older ones.
    ///
    /// # Errors
    /// As [`Session::transcript`].
    pub async fn newest_messages(&self, limit: u64) -> Result<Transcript> {
        self.chat.read_transcript(&self.id, TranscriptSpan::Before(u64::MAX), limit).await
    }

    /// As [`Session::newest_messages`], of those before a place of the history.
    ///
    /// # Errors
    /// As [`Session::transcript`].
    pub async fn messages_before(&self, before: u64, limit: u64) -> Result<Transcript> {
        self.chat.read_transcript(&self.id, TranscriptSpan::Before(before), limit).await
    }
}

impl Chat {
    async fn read_transcript(
        &self,
        session_id: &str,
        span: TranscriptSpan,
        limit: u64,
    ) -> Result<Transcript> {
        // In this order: messages and ends of turns that come in between are told again, and not missed.
        let key = self.session_key(session_id)?;
        let before = self.inner.await_store_read(self.inner.journal.read_counters(&key)).await?.events;
        let last_event = self.find_event_before_open(&key, before).await?;
        let session = self.read_session_row(session_id).await?;
        let field = session.fields.iter().find(|field| field.name == HISTORY);
        let Some(FieldValue::List { generation, len, .. }) = field.map(|field| &field.value) else {
            return Ok(Transcript { items: Vec::new(), next: None, last_event });
        };
        let mut reader = TranscriptReader::new(self, session.clone(), *generation);
        let read = match span {
            TranscriptSpan::From(from) => {
                reader.read_messages_from(from, limit.min(len.saturating_sub(from))).await?
            }
            TranscriptSpan::Before(before) => {
                reader.read_messages_before(before.min(*len), limit, self.inner.limits.page_bytes).await?
            }
        };
        let from = match span {
            TranscriptSpan::From(from) => from,
            TranscriptSpan::Before(before) => before.min(*len).saturating_sub(read.len() as u64),
        };
        let next = from.saturating_add(read.len() as u64);
        let mut items = Vec::with_capacity(read.len());
        let mut first = from;
        for (at, it) in read.iter().enumerate() {
            let seq = from + at as u64;
            let before = at.checked_sub(1).map(|left| &read[left].owner);
            match before {
                None if it.owner.is_some() => first = reader.find_turn_begin(from, it.owner.as_ref()).await?,
                Some(before) if *before != it.owner => first = seq,
                None | Some(_) => {}
            }
            let id = it.owner.clone().map(|turn| MessageId { turn, k: seq - first });
            items.push(entry_from_row(seq, id, it)?);
        }
        Ok(Transcript { items, next: (next < *len).then_some(next), last_event })
    }

    /// Finds the last event before a number, and before the first turn that has not ended.
    async fn find_event_before_open(&self, key: &SessionKey, before: u64) -> Result<Option<ChatEventId>> {
        let inner = &self.inner;
        let open = inner.await_store_read(inner.journal.read_turns(key, &TurnRowQuery::Open)).await?;
        let begins = match open.first() {
            Some(first) => self.find_first_event(key, before, first.no).await?.unwrap_or(before),
            None => before,
        };
        let epoch = inner.epoch.as_ref().to_owned();
        Ok(begins.checked_sub(1).map(|seq| ChatEventId { epoch, seq }))
    }
}

fn entry_from_row(seq: u64, id: Option<MessageId>, read: &TranscriptRow) -> Result<TranscriptEntry> {
    let message = decode_message(&Item::from_text(read.row.body.as_str()))?;
    let at = read.made_by.as_ref().map(|turn| match message.role {
        Role::User => turn.accepted_at,
        Role::System | Role::Assistant | Role::Tool => turn.ended_at.unwrap_or(turn.accepted_at),
    });
    Ok(TranscriptEntry { seq, id, at, message, side: read.side.clone() })
}

/// Which part of a history is read.
#[derive(Debug, Clone, Copy)]
enum TranscriptSpan {
    /// From a place on.
    From(u64),
    /// The last messages before a place.
    Before(u64),
}

/// Reads messages and finds their turns, also those of the sessions that they were inherited from.
struct TranscriptReader<'a> {
    chat: &'a Chat,
    generation: u64,
    /// The session, the one that it was forked from, and so on, as far as they are known.
    line: Vec<SessionRow>,
    /// Whether nothing comes before the last of them.
    is_whole: bool,
    /// Turns by how far back in the line they are and by number; none where no record is kept.
    turns: BTreeMap<(usize, u64), Option<TurnRow>>,
}

impl<'a> TranscriptReader<'a> {
    fn new(chat: &'a Chat, session: SessionRow, generation: u64) -> Self {
        Self { chat, generation, line: vec![session], is_whole: false, turns: BTreeMap::new() }
    }

    /// Reads messages from a place on.
    async fn read_messages_from(&mut self, from: u64, limit: u64) -> Result<Vec<TranscriptRow>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let (field, generation, bytes) =
            (HISTORY.to_owned(), self.generation, self.chat.inner.limits.page_bytes);
        let range = ItemRange::Page { field, generation, from, limit, bytes };
        let inner = &self.chat.inner;
        let rows = inner.await_store_read(inner.journal.read_items(&self.line[0].key, &range)).await?;
        self.attach_turns(from, rows).await
    }

    /// Reads the last messages before a place, of so many bytes.
    async fn read_messages_before(
        &mut self,
        before: u64,
        limit: u64,
        bytes: u64,
    ) -> Result<Vec<TranscriptRow>> {
        if limit == 0 || before == 0 {
            return Ok(Vec::new());
        }
        let (field, generation) = (HISTORY.to_owned(), self.generation);
        let range = ItemRange::PageBefore { field, generation, before, limit, bytes };
        let inner = &self.chat.inner;
        let rows = inner.await_store_read(inner.journal.read_items(&self.line[0].key, &range)).await?;
        let from = before.saturating_sub(rows.len() as u64);
        self.attach_turns(from, rows).await
    }

    /// Finds the turns of messages, the first of which stands at `from`.
    async fn attach_turns(&mut self, from: u64, rows: Vec<ListItemRow>) -> Result<Vec<TranscriptRow>> {
        let mut places = Vec::with_capacity(rows.len());
        for (seq, row) in (from..).zip(&rows) {
            places.push(self.find_origin_session(seq).await?.map(|home| (home, row.turn)));
        }
        self.read_missing_turns(places.iter().flatten().copied().collect()).await?;
        let read = rows.into_iter().zip(places).map(|(row, place)| {
            let made_by = place.and_then(|place| self.turns.get(&place).cloned().flatten());
            let side = row.side.as_ref().map(JsonDocument::decode::<Value>).transpose();
            let side = side.map_err(|error| {
                store_corrupt_error(format!("the side record of item {}", row.no), Some(error.into()))
            })?;
            // One that steered is part of the turn that took it.
            let taken = side.as_ref().and_then(|side| side[TAKEN_BY].as_str()).and_then(|it| it.parse().ok());
            let owner = taken.or_else(|| made_by.as_ref().map(TurnRowExt::turn_id));
            Ok(TranscriptRow { row, side, owner, made_by })
        });
        read.collect()
    }

    /// Finds the place of the first message of a turn of which one stands at `from`.
    async fn find_turn_begin(&mut self, from: u64, turn: Option<&TurnId>) -> Result<u64> {
        let mut first = from;
        while first > 0 {
            let before = self.read_messages_before(first, WINDOW, WINDOW_BYTES).await?;
            let same = before.iter().rev().take_while(|it| it.owner.as_ref() == turn).count() as u64;
            first -= same;
            if before.is_empty() || same < before.len() as u64 {
                break;
            }
        }
        Ok(first)
    }

    /// Finds how far back in the line a place of the history was made; none when that session is gone.
    async fn find_origin_session(&mut self, seq: u64) -> Result<Option<usize>> {
        for back in 0..GENERATIONS {
            if back == self.line.len() && !self.read_parent_session().await? {
                return Ok(None);
            }
            let inherited = self.line[back].head.parent.as_ref().is_some_and(|parent| seq < parent.offset);
            if !inherited {
                return Ok(Some(back));
            }
        }
        Ok(None)
    }

    /// Reads the session that the last of the line was forked from.
    async fn read_parent_session(&mut self) -> Result<bool> {
        let last = self.line.last().expect("a line begins with its session");
        let parent = last.head.parent.as_ref().filter(|_| !self.is_whole);
        let key = parent.map(|parent| SessionKey::new(last.key.tenant.clone(), parent.session.clone()));
        let inner = &self.chat.inner;
        let row = match key {
            Some(key) => inner.await_store_read(inner.journal.read_session(&key)).await?,
            None => None,
        };
        self.is_whole = row.is_none();
        self.line.extend(row);
        Ok(!self.is_whole)
    }

    /// Reads the turns that are not known yet.
    async fn read_missing_turns(&mut self, wanted: BTreeSet<(usize, u64)>) -> Result<()> {
        let inner = &self.chat.inner;
        for (back, no) in wanted {
            if self.turns.contains_key(&(back, no)) {
                continue;
            }
            self.turns.insert((back, no), None);
            let query = TurnRowQuery::From { no, limit: WINDOW };
            let rows = inner.await_store_read(inner.journal.read_turns(&self.line[back].key, &query)).await?;
            self.turns.extend(rows.into_iter().map(|row| ((back, row.no), Some(row))));
        }
        Ok(())
    }
}
