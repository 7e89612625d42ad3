//! The texts for the trace of a turn, read from the session's history when spans are rendered (spec: observability
//! §5.5.1).

use std::sync::Arc;

use singletree_durable::{
    FieldValue, ItemRange, JsonDocument, ListItemRow, SessionKey, SessionRow, TurnRowQuery,
};
use singletree_engine::Item;
use singletree_llm::ChatMessage;
use singletree_session::{HISTORY, TAKEN_BY, TurnId, decode_message};
use singletree_telemetry::{ConversationTexts, ReferredMessages};

use crate::Result;
use crate::api::chat::Chat;
use crate::api::turn_trace::TurnTrace;

/// How many messages before those of the turn are read at most: the last ones.
const MESSAGES: u64 = 512;
/// How many bytes of them are read, and not many more.
const BYTES: u64 = 1 << 20;
/// How many messages before those of the turn may stand between the call of a tool and its result.
const CALLS: u64 = 64;

impl TurnTrace {
    /// Reads the texts of model calls and tools, for spans with payloads, from the history of the session: the messages as
    /// they are now. In place of those that are not there any more stands `[deleted]`.
    ///
    /// There are texts only of calls that were made with the session's history, as those of an agent are, and of tools
    /// that such a call asked for. Of the history before the turn at most the last 512 messages are read, and about 1 MiB.
    ///
    /// # Errors
    /// `chat_tenant_foreign`, `store_unavailable` and its kin, `store_corrupt`.
    ///
    /// # Cancellation
    /// Dropping the future changes nothing.
    pub async fn with_texts(mut self, chat: &Chat) -> Result<Self> {
        let referred = self.stored.referred_messages();
        if referred.is_empty() {
            return Ok(self);
        }
        let key = SessionKey::new(chat.served_tenant()?.clone(), self.session.clone());
        let session = chat.inner.await_store_read(chat.inner.journal.read_session(&key)).await?;
        self.stored.texts = Some(match session {
            Some(session) => {
                let reader = TextReader { chat, session: &session, turn: &self.turn, no: self.no, referred };
                let texts = reader.read_texts().await?;
                // Afterwards: another session of its name may have been made meanwhile.
                if reader.is_turn_there().await? { texts } else { ConversationTexts::default() }
            }
            // It was deleted meanwhile.
            None => ConversationTexts::default(),
        });
        Ok(self)
    }
}

/// Reads the messages that one turn refers to.
struct TextReader<'a> {
    chat: &'a Chat,
    session: &'a SessionRow,
    turn: &'a TurnId,
    no: u64,
    referred: ReferredMessages,
}

impl TextReader<'_> {
    async fn read_texts(&self) -> Result<ConversationTexts> {
        let own = self.read_items(ItemRange::Turn(self.no)).await?;
        let placed: Vec<_> = own.iter().filter_map(|row| Some((place_in_history(row)?, row))).collect();
        let Some(generation) = placed.iter().map(|((generation, _), _)| *generation).max() else {
            return self.read_texts_of_failed(&own).await;
        };
        let placed =
            placed.iter().filter(|((of, _), _)| *of == generation).map(|((_, seq), row)| (*seq, *row));
        let (mut made_from, mut last) = (u64::MAX, 0);
        for (seq, _) in placed.clone() {
            (made_from, last) = (made_from.min(seq), last.max(seq));
        }
        if generation > 0 && made_from == 0 {
            // The turn wrote the whole history anew: places before and after are not the same.
            return Ok(ConversationTexts::default());
        }
        let (read_from, mut rows) = self.read_before(generation, made_from).await?;
        let end = self.referred.end.clamp(last + 1, last.saturating_add(1 + MESSAGES));
        if end - made_from > placed.clone().count() as u64 {
            // Messages that steered the turn have numbers of their own.
            let between = self.read_list(generation, made_from, end - made_from).await?;
            rows.extend(between.into_iter().filter(|(seq, row)| *seq < last || self.is_own(row)));
        } else {
            rows.extend(placed.map(|(seq, row)| (seq, row.clone())));
        }
        decode_texts(&rows, read_from, made_from)
    }

    /// Reads the texts of a turn that has no place in the history, since it failed: those before it, and its message.
    async fn read_texts_of_failed(&self, own: &[ListItemRow]) -> Result<ConversationTexts> {
        let field = self.session.fields.iter().find(|field| field.name == HISTORY);
        let Some(FieldValue::List { generation, .. }) = field.map(|field| &field.value) else {
            return Ok(ConversationTexts::default());
        };
        let (read_from, mut rows) = self.read_before(*generation, self.referred.end).await?;
        let inherited = self.session.head.parent.as_ref().map_or(0, |parent| parent.offset);
        let later = rows.iter().position(|(seq, row)| *seq >= inherited && row.turn >= self.no);
        rows.truncate(later.unwrap_or(rows.len()));
        let made_from = rows.last().map_or(read_from, |(seq, _)| seq + 1);
        // Later messages of the turn may be stored in another order than that of the history.
        rows.extend(own.first().map(|row| (made_from, row.clone())));
        decode_texts(&rows, read_from, made_from)
    }

    /// Reads the messages before a place that the turn refers to, and returns the place from which on they were read.
    async fn read_before(&self, generation: u64, before: u64) -> Result<(u64, Vec<(u64, ListItemRow)>)> {
        let calls = self.referred.continues_calls.then(|| before.saturating_sub(CALLS));
        let first = self.referred.first.into_iter().chain(calls).min().unwrap_or(before);
        let limit = before.saturating_sub(first).min(MESSAGES);
        if limit == 0 {
            return Ok((before, Vec::new()));
        }
        let range =
            ItemRange::PageBefore { field: HISTORY.to_owned(), generation, before, limit, bytes: BYTES };
        let rows: Vec<_> = self.read_items(range).await?.into_iter().filter_map(with_place).collect();
        let bytes: u64 = rows.iter().map(|(_, row)| row.count_bytes()).sum();
        let read_from = match rows.first() {
            Some((seq, _)) if bytes >= BYTES => *seq,
            _ => before - limit,
        };
        Ok((read_from, rows))
    }

    async fn read_list(&self, generation: u64, from: u64, limit: u64) -> Result<Vec<(u64, ListItemRow)>> {
        let range = ItemRange::List { field: HISTORY.to_owned(), generation, from, limit };
        Ok(self.read_items(range).await?.into_iter().filter_map(with_place).collect())
    }

    async fn is_turn_there(&self) -> Result<bool> {
        let (inner, query) = (&self.chat.inner, TurnRowQuery::Invocation(self.turn.invocation.clone()));
        let rows = inner.await_store_read(inner.journal.read_turns(&self.session.key, &query)).await?;
        Ok(rows.iter().any(|row| row.no == self.no && row.ordinal == self.turn.ordinal))
    }

    async fn read_items(&self, range: ItemRange) -> Result<Vec<ListItemRow>> {
        let inner = &self.chat.inner;
        inner.await_store_read(inner.journal.read_items(&self.session.key, &range)).await
    }

    /// Tells whether a message is the turn's: one that it made, or one that steered it.
    fn is_own(&self, row: &ListItemRow) -> bool {
        let taken_by = |side: &JsonDocument| {
            let side = side.decode::<serde_json::Value>().ok()?;
            side[TAKEN_BY].as_str().map(|by| by == self.turn.to_string())
        };
        row.turn == self.no || row.side.as_ref().and_then(taken_by).unwrap_or_default()
    }
}

/// Returns the generation and the place of an item of the history.
fn place_in_history(row: &ListItemRow) -> Option<(u64, u64)> {
    let placement = row.placement.as_ref().filter(|placement| placement.field == HISTORY)?;
    Some((placement.generation, placement.seq))
}

fn with_place(row: ListItemRow) -> Option<(u64, ListItemRow)> {
    Some((place_in_history(&row)?.1, row))
}

fn decode_texts(rows: &[(u64, ListItemRow)], read_from: u64, made_from: u64) -> Result<ConversationTexts> {
    let decode = |(seq, row): &(u64, ListItemRow)| -> Result<(u64, Arc<ChatMessage>)> {
        Ok((*seq, decode_message(&Item::from_text(row.body.as_str()))?))
    };
    let messages: Vec<_> = rows.iter().map(decode).collect::<Result<_>>()?;
    Ok(ConversationTexts::new(messages, read_from, made_from))
}
