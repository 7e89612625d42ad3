//! Notes and messages of conversations: documents of their tenant and session.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::lock::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, Error as StoreError, JsonDocument,
    SessionId, SessionKey, StoredDocument, TenantId, Timestamp,
};
use singletree_engine::Clock;
use singletree_llm::BoxFuture;
use singletree_tools::{
    CallOrigin, Error as ToolError, IdempotencyKey, NoteStore, OutboxMessage, OutboxStore,
};

use crate::error::{Error, Result};

/// The kind of the document of each session that has notes or messages; its id is the session's.
const SESSION_KIND: &str = "tool_session";
/// The kind of the document of each message; its id is the idempotency key of its call.
const MESSAGE_KIND: &str = "tool_message";
/// The kind and the id of the document that counts the bytes of a tenant.
const TENANT_KIND: &str = "tool_bytes";
const TENANT_ID: &str = "all";

/// How many bytes a message or a note counts beside its text.
const OVERHEAD_BYTES: u64 = 128;
/// How often a change is tried again after another process changed the same documents.
const ATTEMPTS: u32 = 16;
/// How many documents are read at a time.
const PAGE: u64 = 200;

/// The bounds of the notes and messages that tools keep, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolDocumentLimits {
    /// Notes of one session.
    pub session_notes: u64,
    /// Messages of one session; one that was delivered counts 128 bytes.
    pub session_outbox: u64,
    /// Notes and messages of one tenant.
    pub tenant: u64,
}

impl Default for ToolDocumentLimits {
    fn default() -> Self {
        Self { session_notes: 64 << 10, session_outbox: 1 << 20, tenant: 64 << 20 }
    }
}

/// Keeps notes and messages of tools as documents of the tenant and session of the call (INV-14). They are deleted with
/// the session (D25) and are part of every backup.
pub struct ToolDocuments {
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    limits: ToolDocumentLimits,
    /// Held while documents are changed, so that calls of one process do not refuse each other.
    changing: Mutex<()>,
}

/// A message in the outbox of a session that nobody has delivered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingMessage {
    /// Its id: the idempotency key of the call that sent it, 64 hexadecimal digits.
    pub id: String,
    /// The session whose agent sent it.
    pub session: SessionId,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// The message.
    pub message: OutboxMessage,
}

/// The body of a session's document.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionToolDocument {
    notes: Vec<String>,
    /// The bytes of its messages.
    outbox_bytes: u64,
}

/// The body of a message's document. After delivery nothing but the key is kept, so that a call that is run again sends
/// nothing (D7).
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutboxMessageDocument {
    sent_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<OutboxMessage>,
}

/// The body of a tenant's document: at least the bytes of its notes and messages. Sessions that are deleted are found
/// when the bound is reached.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantToolDocument {
    bytes: u64,
}

/// A document as it was read, to be written again.
struct VersionedDocument<T> {
    key: DocumentKey,
    session: Option<SessionId>,
    expect: DocumentPrecondition,
    data: T,
}

impl SessionToolDocument {
    fn count_note_bytes(&self) -> u64 {
        self.notes.iter().map(|note| note.len() as u64 + OVERHEAD_BYTES).sum()
    }

    fn count_total_bytes(&self) -> u64 {
        self.count_note_bytes() + self.outbox_bytes
    }
}

impl<T: Serialize> VersionedDocument<T> {
    fn to_write_change(&self) -> Result<DocumentChange> {
        let body = JsonDocument::from_serializable(&self.data)
            .map_err(|source| corrupt_document_error(&self.key, Some(source)))?;
        let (key, session) = (self.key.clone(), self.session.clone());
        Ok(DocumentChange::Write { key, expect: self.expect, session, body, expires_at: None })
    }
}

impl ToolDocuments {
    /// The kinds of the documents that hold notes and messages. Erasing a tenant has to remove all of them.
    pub const KINDS: [&str; 3] = [MESSAGE_KIND, SESSION_KIND, TENANT_KIND];

    /// Keeps notes and messages in a store, with the default limits.
    #[must_use]
    pub fn new(documents: Arc<dyn DocumentStore>, clock: Arc<dyn Clock>) -> Self {
        Self { documents, clock, limits: ToolDocumentLimits::default(), changing: Mutex::default() }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: ToolDocumentLimits) -> Self {
        Self { limits, ..self }
    }

    /// Lists the messages of a tenant that wait for delivery, ordered by id, from past the given id on, at most
    /// `limit`.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn list_waiting_messages(
        &self,
        tenant: &TenantId,
        past: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WaitingMessage>> {
        let mut waiting = Vec::new();
        let mut past = past.map(str::to_owned);
        loop {
            let page = self.documents.read_documents(tenant, MESSAGE_KIND, past.as_deref(), PAGE).await?;
            for document in &page {
                waiting.extend(decode_waiting_message(document)?);
                if waiting.len() >= limit {
                    waiting.truncate(limit);
                    return Ok(waiting);
                }
            }
            match page.last() {
                Some(last) => past = Some(last.key.id.clone()),
                None => return Ok(waiting),
            }
        }
    }

    /// Returns a message of a tenant that waits for delivery; none when there is none of this id, or it was delivered.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn find_waiting_message(&self, tenant: &TenantId, id: &str) -> Result<Option<WaitingMessage>> {
        let key = DocumentKey::new(tenant.clone(), MESSAGE_KIND, id);
        let document = self.documents.read_document(&key).await?;
        document.as_ref().map_or(Ok(None), decode_waiting_message)
    }

    /// Takes a message out of the outbox because it was delivered: its text is deleted, its key is kept as long as its
    /// session. Returns false when no message of this id waits.
    ///
    /// # Errors
    /// `store_refused` when another process changes the same documents again and again; `store_unavailable` and its
    /// kin.
    ///
    /// # Cancellation
    /// A dropped call has marked it or has not.
    pub async fn mark_delivered(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        let _changing = self.changing.lock().await;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.try_mark_delivered(tenant, id).await {
                Err(error) if is_refused_change(&error) && attempt < ATTEMPTS => {}
                result => return result,
            }
        }
    }

    async fn try_mark_delivered(&self, tenant: &TenantId, id: &str) -> Result<bool> {
        let key = DocumentKey::new(tenant.clone(), MESSAGE_KIND, id);
        let Some(document) = self.documents.read_document(&key).await? else { return Ok(false) };
        let Some(session) = document.session.clone() else { return Err(corrupt_document_error(&key, None)) };
        let mut message = VersionedDocument {
            data: decode_document::<OutboxMessageDocument>(&document)?,
            key,
            session: Some(session.clone()),
            expect: DocumentPrecondition::Version(document.version),
        };
        let Some(text) = message.data.message.take() else { return Ok(false) };
        let freed = count_text_bytes(&text);
        let mut of_session = self.load_session_document(&SessionKey::new(tenant.clone(), session)).await?;
        of_session.data.outbox_bytes = of_session.data.outbox_bytes.saturating_sub(freed);
        let mut of_tenant = self.load_tenant_document(tenant).await?;
        of_tenant.data.bytes = of_tenant.data.bytes.saturating_sub(freed);
        let changes =
            vec![message.to_write_change()?, of_session.to_write_change()?, of_tenant.to_write_change()?];
        self.documents.change_documents(changes).await?;
        Ok(true)
    }

    async fn append_note(&self, origin: &CallOrigin, text: &str) -> Result<(), AddError> {
        let key = parse_session_key(origin)?;
        let _changing = self.changing.lock().await;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut of_session = self.load_session_document(&key).await?;
            let bytes = text.len() as u64 + OVERHEAD_BYTES;
            if of_session.data.count_note_bytes() + bytes > self.limits.session_notes {
                return Err(AddError::Full("the notes of this conversation are full"));
            }
            of_session.data.notes.push(text.to_owned());
            match self.commit_tenant_changes(&key.tenant, bytes, vec![of_session.to_write_change()?]).await {
                Err(AddError::Store(error)) if is_refused_change(&error) && attempt < ATTEMPTS => {}
                result => return result,
            }
        }
    }

    async fn store_outbox_message(
        &self,
        origin: &CallOrigin,
        id: &IdempotencyKey,
        message: &OutboxMessage,
    ) -> Result<(), AddError> {
        let key = parse_session_key(origin)?;
        let message_key = DocumentKey::new(key.tenant.clone(), MESSAGE_KIND, id.as_str());
        let _changing = self.changing.lock().await;
        let mut attempt = 0;
        loop {
            attempt += 1;
            if self.documents.read_document(&message_key).await.map_err(Error::from)?.is_some() {
                return Ok(());
            }
            let mut of_session = self.load_session_document(&key).await?;
            let bytes = count_text_bytes(message) + OVERHEAD_BYTES;
            of_session.data.outbox_bytes += bytes;
            if of_session.data.outbox_bytes > self.limits.session_outbox {
                return Err(AddError::Full("the outbox of this conversation is full; nothing was sent"));
            }
            let new = VersionedDocument {
                key: message_key.clone(),
                session: Some(key.session.clone()),
                expect: DocumentPrecondition::Absent,
                data: OutboxMessageDocument { sent_at: self.clock.now(), message: Some(message.clone()) },
            };
            let changes = vec![new.to_write_change()?, of_session.to_write_change()?];
            match self.commit_tenant_changes(&key.tenant, bytes, changes).await {
                Err(AddError::Store(error)) if is_refused_change(&error) && attempt < ATTEMPTS => {}
                result => return result,
            }
        }
    }

    /// Makes changes that add bytes to a tenant, in one transaction with its count.
    async fn commit_tenant_changes(
        &self,
        tenant: &TenantId,
        bytes: u64,
        mut changes: Vec<DocumentChange>,
    ) -> Result<(), AddError> {
        let mut of_tenant = self.load_tenant_document(tenant).await?;
        if of_tenant.data.bytes + bytes > self.limits.tenant {
            of_tenant.data.bytes = self.count_tenant_bytes(tenant).await?;
            if of_tenant.data.bytes + bytes > self.limits.tenant {
                return Err(AddError::Full("the notes and messages of this tenant are full"));
            }
        }
        of_tenant.data.bytes += bytes;
        changes.push(of_tenant.to_write_change()?);
        Ok(self.documents.change_documents(changes).await.map_err(Error::from)?)
    }

    /// Counts the bytes of the sessions that a tenant still has.
    async fn count_tenant_bytes(&self, tenant: &TenantId) -> Result<u64> {
        let (mut bytes, mut past) = (0, None);
        loop {
            let page = self.documents.read_documents(tenant, SESSION_KIND, past.as_deref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(bytes) };
            past = Some(last.key.id.clone());
            for document in &page {
                bytes += decode_document::<SessionToolDocument>(document)?.count_total_bytes();
            }
        }
    }

    async fn load_session_document(
        &self,
        session: &SessionKey,
    ) -> Result<VersionedDocument<SessionToolDocument>> {
        let key = DocumentKey::new(session.tenant.clone(), SESSION_KIND, session.session.as_str());
        self.load_document(key, Some(session.session.clone())).await
    }

    async fn load_tenant_document(&self, tenant: &TenantId) -> Result<VersionedDocument<TenantToolDocument>> {
        self.load_document(DocumentKey::new(tenant.clone(), TENANT_KIND, TENANT_ID), None).await
    }

    async fn load_document<T: Default + DeserializeOwned>(
        &self,
        key: DocumentKey,
        session: Option<SessionId>,
    ) -> Result<VersionedDocument<T>> {
        let found = self.documents.read_document(&key).await?;
        let (expect, data) = match &found {
            Some(document) => (DocumentPrecondition::Version(document.version), decode_document(document)?),
            None => (DocumentPrecondition::Absent, T::default()),
        };
        Ok(VersionedDocument { key, session, expect, data })
    }
}

impl NoteStore for ToolDocuments {
    fn add_note<'a>(
        &'a self,
        origin: &'a CallOrigin,
        text: &'a str,
    ) -> BoxFuture<'a, singletree_tools::Result<()>> {
        async move { Ok(self.append_note(origin, text).await?) }.boxed()
    }

    fn list_notes<'a>(
        &'a self,
        origin: &'a CallOrigin,
    ) -> BoxFuture<'a, singletree_tools::Result<Vec<String>>> {
        async move {
            let key = parse_session_key(origin).map_err(AddError::from)?;
            Ok(self.load_session_document(&key).await.map_err(AddError::from)?.data.notes)
        }
        .boxed()
    }
}

impl OutboxStore for ToolDocuments {
    fn put_message<'a>(
        &'a self,
        origin: &'a CallOrigin,
        key: &'a IdempotencyKey,
        message: &'a OutboxMessage,
    ) -> BoxFuture<'a, singletree_tools::Result<()>> {
        async move { Ok(self.store_outbox_message(origin, key, message).await?) }.boxed()
    }
}

impl fmt::Debug for ToolDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDocuments").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Why nothing was added.
enum AddError {
    Full(&'static str),
    Store(Error),
}

impl From<Error> for AddError {
    fn from(source: Error) -> Self {
        Self::Store(source)
    }
}

impl From<AddError> for ToolError {
    fn from(error: AddError) -> Self {
        match error {
            AddError::Full(problem) => Self::failed(problem),
            AddError::Store(source) => Self::failed_with_source("the store of this tool failed", source),
        }
    }
}

fn parse_session_key(origin: &CallOrigin) -> Result<SessionKey> {
    let invalid = |why: String| Error::Store { source: StoreError::Corrupt { what: why, source: None } };
    let tenant = TenantId::parse(&origin.tenant).map_err(|error| invalid(error.to_string()))?;
    let session = SessionId::parse(&origin.session).map_err(|error| invalid(error.to_string()))?;
    Ok(SessionKey::new(tenant, session))
}

fn decode_waiting_message(document: &StoredDocument) -> Result<Option<WaitingMessage>> {
    let OutboxMessageDocument { sent_at, message } = decode_document(document)?;
    let Some(session) = document.session.clone() else {
        return Err(corrupt_document_error(&document.key, None));
    };
    Ok(message.map(|message| WaitingMessage { id: document.key.id.clone(), session, sent_at, message }))
}

fn count_text_bytes(message: &OutboxMessage) -> u64 {
    let OutboxMessage { to, subject, body } = message;
    (to.len() + subject.as_ref().map_or(0, String::len) + body.len()) as u64
}

fn decode_document<T: DeserializeOwned>(document: &StoredDocument) -> Result<T> {
    serde_json::from_str(document.body.as_str())
        .map_err(|source| corrupt_document_error(&document.key, Some(source)))
}

fn corrupt_document_error(key: &DocumentKey, source: Option<serde_json::Error>) -> Error {
    let what = format!("the document '{}' of kind {}", key.id, key.kind);
    Error::Store { source: StoreError::Corrupt { what, source: source.map(Into::into) } }
}

fn is_refused_change(error: &Error) -> bool {
    matches!(error, Error::Store { source: StoreError::Refused { .. } })
}
