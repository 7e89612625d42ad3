//! Looking at sessions, and moving them.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_durable::{
    Error as StoreError, FieldRow, FieldValue, ItemRange, JsonDocument, ListItemRow, SessionId, SessionKey,
    SessionRow, SubjectId, Timestamp,
};
use singletree_engine::Item;
use singletree_llm::ChatMessage;
use singletree_session::{
    Budget, EffectiveBudget, HISTORY, ImportedSession, TurnPromptPolicy, apply, decode_message,
};

use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::error::store_corrupt_error;
use crate::{Error, Result};

/// A session in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionInfo {
    /// Its id.
    pub session: String,
    /// Which agent answers in it.
    pub agent: String,
    /// Which texts reach the model; the conversation, where nothing is said.
    #[serde(skip_serializing_if = "TurnPromptPolicy::is_conversation")]
    pub prompt_policy: TurnPromptPolicy,
    /// How many messages it has.
    pub messages: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When its state was last written.
    pub updated_at: Timestamp,
    /// Where it was forked from, if it was (D12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionForkPoint>,
}

/// Where a session was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionForkPoint {
    /// The other session; it may be gone by now.
    pub session: String,
    /// How many of its messages were copied.
    pub offset: u64,
}

/// A page of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionListing {
    /// The sessions, ordered by id.
    pub items: Vec<SessionInfo>,
    /// Where the next page begins, when there is one.
    pub next: Option<String>,
}

/// One message of a history, with its side record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HistoryEntry {
    /// Its place, from 0.
    pub seq: u64,
    /// The message.
    pub message: Arc<ChatMessage>,
    /// Its side record: data that is not part of the message, such as an interruption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Value>,
}

/// A session as one portable document: its state and history, without turns and events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedSession {
    /// The kind of this document: `singletree.session`.
    pub kind: String,
    /// The version of this form: 1.
    pub format: u32,
    /// The session's id.
    pub session: String,
    /// Which agent answers in it.
    pub agent: String,
    /// The digest of that agent's graph.
    pub graph: String,
    /// The version of the state's schema.
    pub schema_version: String,
    /// Which texts reach the model; the conversation, where nothing is said.
    #[serde(default, skip_serializing_if = "TurnPromptPolicy::is_conversation")]
    pub prompt_policy: TurnPromptPolicy,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_at: Timestamp,
    /// The fields of the state that are values.
    pub values: Map<String, Value>,
    /// The fields that are lists, with their items and the side record of each.
    pub lists: std::collections::BTreeMap<String, Vec<ExportedListItem>>,
}

impl ExportedSession {
    fn into_imported_session(self, subject: Option<SubjectId>) -> ImportedSession {
        let list =
            |items: Vec<ExportedListItem>| items.into_iter().map(|item| (item.body, item.side)).collect();
        ImportedSession {
            agent: self.agent,
            graph: self.graph,
            schema_version: self.schema_version,
            policy: self.prompt_policy,
            created_at: self.created_at,
            subject,
            values: self.values,
            lists: self.lists.into_iter().map(|(name, items)| (name, list(items))).collect(),
        }
    }
}

/// One item of an exported list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportedListItem {
    /// The item.
    pub body: Value,
    /// Its side record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Value>,
}

const EXPORT_KIND: &str = "singletree.session";
const EXPORT_FORMAT: u32 = 1;

/// How many sessions are read at once for a list: their rows have the values of their states, of which a list shows
/// none.
#[derive(Debug, Clone, Copy)]
struct RowChunk(u64);

impl Default for RowChunk {
    fn default() -> Self {
        Self(16)
    }
}

impl RowChunk {
    /// The most that are read at once.
    const MAX: u64 = 256;
    /// Bytes of values above which fewer are read the next time.
    const BYTES: usize = 1 << 20;

    /// Returns how many to read of those that are wanted.
    fn next_read_size(self, wanted: u64) -> u64 {
        wanted.min(self.0)
    }

    /// Sets the size of the next read by the bytes of this one.
    fn adapt_to_rows(&mut self, rows: &[SessionRow]) {
        let fields = rows.iter().flat_map(|row| &row.fields);
        let bytes: usize = fields
            .map(|field| match &field.value {
                FieldValue::Value(json) => json.as_str().len(),
                FieldValue::List { .. } => 0,
            })
            .sum();
        self.0 = if bytes > Self::BYTES { (self.0 / 2).max(1) } else { (self.0 * 2).min(Self::MAX) };
    }
}

impl Session {
    /// Describes one session.
    ///
    /// # Errors
    /// `chat_session_unknown`, `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn info(&self) -> Result<SessionInfo> {
        session_info_from_row(&self.chat.read_session_row(&self.id).await?)
    }

    /// Reads the messages at these places of the history.
    ///
    /// # Errors
    /// As [`Session::info`].
    pub async fn history(&self, places: Range<u64>) -> Result<Vec<HistoryEntry>> {
        let (from, limit) = (places.start, places.end.saturating_sub(places.start));
        let row = self.chat.read_session_row(&self.id).await?;
        let field = row.fields.iter().find(|field| field.name == HISTORY);
        let Some(FieldValue::List { generation, .. }) = field.map(|field| &field.value) else {
            return Ok(Vec::new());
        };
        let range = ItemRange::List { field: HISTORY.to_owned(), generation: *generation, from, limit };
        let items =
            self.chat.inner.await_store_read(self.chat.inner.journal.read_items(&row.key, &range)).await?;
        (from..).zip(items).map(|(seq, item)| history_entry_from_row(seq, &item)).collect()
    }

    /// Reads one field of a session's state that is a value, such as the summary of its beginning; none when there is
    /// no such field, or it is a list.
    ///
    /// # Errors
    /// As [`Session::info`].
    pub async fn value(&self, field: &str) -> Result<Option<Value>> {
        let row = self.chat.read_session_row(&self.id).await?;
        match row.fields.iter().find(|it| it.name == field).map(|field| &field.value) {
            Some(FieldValue::Value(json)) => {
                let value = json.decode();
                value
                    .map(Some)
                    .map_err(|error| store_corrupt_error(format!("field '{field}'"), Some(error.into())))
            }
            Some(FieldValue::List { .. }) | None => Ok(None),
        }
    }

    /// Writes a session out as one document.
    ///
    /// # Errors
    /// As [`Session::info`].
    pub async fn export(&self) -> Result<ExportedSession> {
        let row = self.chat.read_session_row(&self.id).await?;
        let unreadable = |name: &str, it: serde_json::Error| {
            store_corrupt_error(format!("field '{name}'"), Some(it.into()))
        };
        let (mut values, mut lists) = (Map::new(), std::collections::BTreeMap::new());
        for FieldRow { name, value } in &row.fields {
            match value {
                FieldValue::Value(json) => {
                    values.insert(name.clone(), json.decode().map_err(|error| unreadable(name, error))?);
                }
                FieldValue::List { generation, len, .. } => {
                    let mut items = Vec::new();
                    while (items.len() as u64) < *len {
                        let (from, bytes) = (items.len() as u64, self.chat.inner.limits.page_bytes);
                        let (field, generation, limit) = (name.clone(), *generation, *len - from);
                        let range = ItemRange::Page { field, generation, from, limit, bytes };
                        let page = self
                            .chat
                            .inner
                            .await_store_read(self.chat.inner.journal.read_items(&row.key, &range))
                            .await?;
                        if page.is_empty() {
                            break;
                        }
                        items.extend(page.iter().map(exported_item_from_row).collect::<Result<Vec<_>>>()?);
                    }
                    lists.insert(name.clone(), items);
                }
            }
        }
        Ok(ExportedSession {
            kind: EXPORT_KIND.into(),
            format: EXPORT_FORMAT,
            session: row.key.session.to_string(),
            agent: row.head.agent,
            graph: row.head.graph,
            prompt_policy: TurnPromptPolicy::from_stored_text(&row.head.prompt_policy)?,
            schema_version: row.head.schema_version,
            created_at: row.head.created_at,
            values,
            lists,
        })
    }
}

impl Chat {
    /// Lists sessions, ordered by id, from `from` on, at most `limit`.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn sessions(&self, from: Option<&str>, limit: u64) -> Result<SessionListing> {
        let mut next = from.map(|it| self.session_key(it)).transpose()?.map(|it| it.session);
        let (mut items, mut chunk) = (Vec::new(), RowChunk::default());
        loop {
            let left = limit.saturating_sub(items.len() as u64);
            let page = self.inner.journal.read_session_page(
                self.served_tenant()?,
                next.as_ref(),
                chunk.next_read_size(left),
            );
            let page = self.inner.await_store_read(page).await?;
            chunk.adapt_to_rows(&page.sessions);
            let is_empty = page.sessions.is_empty();
            next = page.next;
            for row in page.sessions {
                items.push(session_info_from_row(&row)?);
            }
            if next.is_none() || is_empty || items.len() as u64 >= limit {
                return Ok(SessionListing { items, next: next.map(|it: SessionId| it.to_string()) });
            }
        }
    }

    /// Lists sessions, the one whose state was written last first, at most `limit`. `from` is the `next` of the page
    /// before, or the id of a session: then the page begins behind it. A session that is written meanwhile comes to the
    /// front, and is not in the pages that are left.
    ///
    /// The cost grows with the number of sessions that the tenant has. It is meant for people who look for a recent
    /// conversation, not for reading all sessions ([`Chat::sessions`]).
    ///
    /// # Errors
    /// `chat_session_unknown` when `from` is neither; `harness_session_id_unresolved`; `store_unavailable` and its kin.
    pub async fn recent_sessions(&self, from: Option<&str>, limit: u64) -> Result<SessionListing> {
        let mut past = match from {
            Some(from) => Some(self.resolve_recent_place(from).await?),
            None => None,
        };
        let tenant = self.served_tenant()?;
        let (mut items, mut chunk) = (Vec::new(), RowChunk::default());
        loop {
            // One more than there may be says whether there are more.
            let left = limit.saturating_sub(items.len() as u64).saturating_add(1);
            let size = chunk.next_read_size(left);
            let rows = self
                .inner
                .await_store_read(self.inner.journal.read_recent_sessions(tenant, past.as_ref(), size))
                .await?;
            chunk.adapt_to_rows(&rows);
            let is_last = (rows.len() as u64) < size;
            for row in rows {
                if items.len() as u64 == limit {
                    let next = past.map(|(at, session)| format!("{}.{session}", at.as_millis()));
                    return Ok(SessionListing { items, next });
                }
                past = Some((row.head.updated_at, row.key.session.clone()));
                items.push(session_info_from_row(&row)?);
            }
            if is_last {
                return Ok(SessionListing { items, next: None });
            }
        }
    }

    /// Reads the name of a place between two sessions: when the one before it was written, and its id.
    async fn resolve_recent_place(&self, from: &str) -> Result<(Timestamp, SessionId)> {
        let written_at = |millis: &str| millis.parse().ok().map(Timestamp::from_millis);
        if let Some((at, id)) = from.split_once('.').and_then(|(at, id)| Some((written_at(at)?, id))) {
            return Ok((at, self.session_key(id)?.session));
        }
        let row = self.read_session_row(from).await?;
        Ok((row.head.updated_at, row.key.session))
    }

    pub(crate) async fn read_session_row(&self, session_id: &str) -> Result<SessionRow> {
        let key = self.session_key(session_id)?;
        let row = self.inner.await_store_read(self.inner.journal.read_session(&key)).await?;
        row.ok_or_else(|| Error::SessionUnknown { session: session_id.to_owned() })
    }

    /// Makes a session of a document that [`Session::export`] wrote, under its own id or another.
    ///
    /// # Errors
    /// `session_load_failed` when the document is of another form; `chat_budget_exhausted` when a part of it is longer
    /// than a session's may be; `chat_session_exists`; `harness_session_id_unresolved`, `store_unavailable` and its
    /// kin.
    ///
    /// # Cancellation
    /// A dropped call has made the session or has not.
    pub async fn import_session(&self, export: ExportedSession, session_id: Option<&str>) -> Result<()> {
        if export.kind != EXPORT_KIND || export.format != EXPORT_FORMAT {
            let what = format!("a document of kind '{}', format {}", export.kind, export.format);
            return Err(singletree_engine::Error::SessionLoad { source: what.into() }.into());
        }
        let key = self.session_key(session_id.unwrap_or(&export.session))?;
        self.check_not_reserved(key.session.as_str())?;
        let loaded = self.inner.session_in_memory(&key)?;
        self.inner.ensure_session_ready(&loaded).await?;
        let exists = || Error::SessionExists { session: key.session.to_string() };
        if loaded.lock_state().session_head().is_some() {
            return Err(exists());
        }
        // A document is input, too: its parts have the same limits as those of a chat.
        let bounds = EffectiveBudget::from_limits(&self.inner.limits, &Budget::default());
        let imported = export.into_imported_session(self.session_subject().cloned());
        let ((), commit) = self.inner.commit_decision(&loaded, |state, writing| {
            apply::import::import_session(state, writing, imported, &bounds)
        })?;
        match self.inner.await_commit_in_task(&loaded, commit).await {
            // Somebody made it in the meantime, or a writer came after us: the store knows.
            Err(Error::Store { source: StoreError::Refused { .. } }) if self.session_exists(&key).await? => {
                Err(exists())
            }
            landed => landed,
        }
    }

    async fn session_exists(&self, key: &SessionKey) -> Result<bool> {
        Ok(self.inner.await_store_read(self.inner.journal.read_session(key)).await?.is_some())
    }
}

pub(crate) fn session_info_from_row(row: &SessionRow) -> Result<SessionInfo> {
    let history = row.fields.iter().find(|field| field.name == HISTORY);
    let messages = match history.map(|history| &history.value) {
        Some(FieldValue::List { len, .. }) => *len,
        Some(FieldValue::Value(_)) | None => 0,
    };
    Ok(SessionInfo {
        session: row.key.session.to_string(),
        agent: row.head.agent.clone(),
        prompt_policy: TurnPromptPolicy::from_stored_text(&row.head.prompt_policy)?,
        messages,
        created_at: row.head.created_at,
        updated_at: row.head.updated_at,
        parent: row
            .head
            .parent
            .as_ref()
            .map(|parent| SessionForkPoint { session: parent.session.to_string(), offset: parent.offset }),
    })
}

fn history_entry_from_row(seq: u64, row: &ListItemRow) -> Result<HistoryEntry> {
    let side = row.side.as_ref().map(JsonDocument::decode).transpose();
    let side = side.map_err(|error| {
        store_corrupt_error(format!("the side record of item {}", row.no), Some(error.into()))
    })?;
    Ok(HistoryEntry { seq, message: decode_message(&Item::from_text(row.body.as_str()))?, side })
}

fn exported_item_from_row(row: &ListItemRow) -> Result<ExportedListItem> {
    let unreadable = |it: serde_json::Error| store_corrupt_error(format!("item {}", row.no), Some(it.into()));
    let side = row.side.as_ref().map(JsonDocument::decode).transpose().map_err(unreadable)?;
    Ok(ExportedListItem { body: row.body.decode().map_err(unreadable)?, side })
}
