//! Forks: another session with the same beginning (D12).

use std::sync::Arc;

use singletree_durable::{Error as StoreError, FieldValue, InvocationId, ItemRange, SessionRow};
use singletree_engine::{Item, PersistentList};
use singletree_llm::Role;
use singletree_session::{
    ClosingAnswer, ForkSource, HISTORY, Records, apply, find_history_list, make_closing_messages,
};

use crate::agents::history::Messages;
use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::runtime::loaded_session::LoadedSession;
use crate::{Error, Result};

/// How a fork is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkOptions {
    at: Option<u64>,
    session: Option<String>,
}

impl ForkOptions {
    /// Makes options of a fork of the whole session, under an id that is drawn.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many messages are copied: those before this place. The whole history otherwise.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.at = Some(offset);
        self
    }

    /// Sets the id of the new session.
    #[must_use]
    pub fn session(mut self, id: impl Into<String>) -> Self {
        self.session = Some(id.into());
        self
    }
}

/// How often a fork is tried again whose source was written in the meantime.
pub(crate) const ATTEMPTS: u32 = 16;

/// How many messages before the cut are looked at first.
const WINDOW: u64 = 64;

/// How many messages are counted at a time.
const COUNTED: u64 = 256;

impl Session {
    /// Makes a new session with the beginning of another one, and returns it; the other one stays as it is (D12).
    ///
    /// - The committed history before the offset is copied in one transaction: messages keep their position, their turn
    ///   and their side records, so that their ids are the same in both. Messages of a running turn are not part of it.
    /// - Any offset up to the end is a place to cut. Tool calls that are open there are closed in the fork, as
    ///   `cancelled`.
    /// - At the end all other fields of the state are copied. Their values at an earlier offset are not stored: a fork
    ///   from there begins with the graph's defaults.
    /// - Waits, turns, idempotency keys and events are not inherited. The fork's log begins with `session.forked`.
    /// - The copy is one statement that writes a row for each message, and the only one of its commit whose work grows
    ///   with the history: while it runs, other sessions' commits wait. How long a history can be is bounded by
    ///   [`Limits::messages`](crate::Limits::messages); cut earlier, or begin a session anew, where that is too long a
    ///   wait.
    /// - The fork stands on its own: deleting the session that it was made of takes nothing from it.
    ///
    /// # Errors
    /// `chat_session_unknown`, `chat_session_exists`, `chat_message_unknown` for an offset past the end,
    /// `harness_session_id_unresolved`, `chat_shutting_down`, `store_refused` when others kept writing to the session,
    /// `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has made the fork or has not.
    pub async fn fork(&self, options: ForkOptions) -> Result<Self> {
        self.chat.session_key(&self.id)?;
        self.chat.check_not_reserved(&self.id)?;
        let id = options.session.unwrap_or_else(|| self.chat.inner.env.ids.generate_uuid());
        self.chat.check_not_reserved(&id)?;
        let loaded = self.chat.inner.session_in_memory(&self.chat.session_key(&id)?)?;
        if self.chat.inner.is_closing() {
            return Err(Error::ShuttingDown);
        }
        let mut attempt = 1;
        loop {
            self.chat.inner.ensure_session_ready(&loaded).await?;
            let source = self.chat.read_session_row(&self.id).await?;
            if attempt == 1 {
                self.chat.admit_session()?;
            }
            match self.chat.commit_fork(&loaded, &source, options.at).await {
                Err(Error::Store { source: StoreError::Refused { .. } | StoreError::LeaseLost { .. } })
                    if attempt < ATTEMPTS =>
                {
                    attempt += 1
                }
                Err(error) => return Err(error),
                Ok(()) => return Ok(self.chat.session(&loaded.key.session)),
            }
        }
    }
}

impl Chat {
    async fn commit_fork(
        &self,
        loaded: &Arc<LoadedSession>,
        source: &SessionRow,
        at: Option<u64>,
    ) -> Result<()> {
        let forking = self.read_fork_source(source, at).await?;
        let ((), commit) = self
            .inner
            .commit_decision(loaded, |state, writing| apply::fork::fork_session(state, writing, forking))?;
        self.inner.await_commit_in_task(loaded, commit).await
    }

    /// Reads the data for a fork at a position; at the end of the history, when `at` is none.
    pub(crate) async fn read_fork_source<'a>(
        &self,
        source: &'a SessionRow,
        at: Option<u64>,
    ) -> Result<ForkSource<'a>> {
        let (generation, len) = find_history_list(source).unwrap_or_default();
        let offset = at.unwrap_or(len);
        if offset > len {
            let why = format!("the history has {len} messages");
            return Err(Error::MessageUnknown { message: offset.to_string(), why });
        }
        let closings = self.build_closing_messages(source, generation, offset).await?;
        let bytes = self.history_bytes_before(source, generation, (offset, len)).await?;
        let name = InvocationId::parse(self.inner.env.ids.generate_uuid());
        let name = name.map_err(|error| Error::SessionId { why: error.to_string() })?;
        Ok(ForkSource { source, offset, bytes, closings, name })
    }

    /// Makes the tool messages that close the calls that are open before a position.
    async fn build_closing_messages(
        &self,
        source: &SessionRow,
        generation: u64,
        offset: u64,
    ) -> Result<Vec<Item>> {
        let mut window = WINDOW;
        loop {
            let from = offset.saturating_sub(window);
            let list = self.read_messages_between(source, generation, (from, offset)).await?;
            let seen = Messages::from_list(&list);
            if from == 0 || seen.iter().any(|it| it.role == Role::Assistant) {
                let closing =
                    ClosingAnswer { status: "cancelled", reason: "the conversation was forked here" };
                return Ok(make_closing_messages(&list, &Records::new(), closing));
            }
            window = window.saturating_mul(4);
        }
    }

    /// Counts the bytes of the messages before a place (D13): those after it are taken off the whole where they are
    /// fewer, as they are when a message near the end is edited.
    async fn history_bytes_before(
        &self,
        source: &SessionRow,
        generation: u64,
        (offset, len): (u64, u64),
    ) -> Result<u64> {
        let history = source.fields.iter().find(|field| field.name == HISTORY);
        let whole = match history.map(|history| &history.value) {
            Some(FieldValue::List { bytes, .. }) => *bytes,
            Some(FieldValue::Value(_)) | None => 0,
        };
        let is_near_end = len - offset <= offset;
        let (mut from, to) = if is_near_end { (offset, len) } else { (0, offset) };
        let mut counted = 0;
        while from < to {
            let limit = (to - from).min(COUNTED);
            let range = ItemRange::List { field: HISTORY.to_owned(), generation, from, limit };
            let rows =
                self.inner.await_store_read(self.inner.journal.read_items(&source.key, &range)).await?;
            counted += rows.iter().map(|row| row.body.as_str().len() as u64).sum::<u64>();
            from += limit;
        }
        Ok(if is_near_end { whole.saturating_sub(counted) } else { counted })
    }

    /// Reads messages of a stored history, from a place to another.
    pub(crate) async fn read_messages_between(
        &self,
        source: &SessionRow,
        generation: u64,
        (from, to): (u64, u64),
    ) -> Result<PersistentList> {
        let limit = to.saturating_sub(from);
        if limit == 0 {
            return Ok(PersistentList::default());
        }
        let range = ItemRange::List { field: HISTORY.to_owned(), generation, from, limit };
        let rows = self.inner.await_store_read(self.inner.journal.read_items(&source.key, &range)).await?;
        Ok(rows.into_iter().map(|row| Item::from_text(row.body.into_text())).collect())
    }
}
