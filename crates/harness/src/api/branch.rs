//! Editing a message and regenerating a reply: a fork before it, and another send there, in one commit (D12).

use serde_json::{Map, Value};
use singletree_durable::{ItemRange, JsonDocument, SessionRow, TurnRowQuery};
use singletree_llm::{ChatMessage, Role};
use singletree_session::{ACCEPTED_AS, HISTORY, MessageId, TAKEN_BY, find_history_list};

use crate::agents::history::Messages;
use crate::api::chat::Chat;
use crate::api::chat_session::{Session, SessionName};
use crate::api::fork::ATTEMPTS;
use crate::api::send_options::SendOptions;
use crate::api::submit::{Acceptance, AcceptanceError, AcceptedTurn};
use crate::api::turn::Turn;
use crate::error::store_corrupt_error;
use crate::{Error, Result};

/// Names a message of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageAddress {
    /// By its place, from 0.
    Place(u64),
    /// By its id, as its event gave it; also in a fork that inherited it. Found as long as the record of its turn is
    /// kept.
    Id(MessageId),
}

impl From<u64> for MessageAddress {
    fn from(place: u64) -> Self {
        Self::Place(place)
    }
}

impl From<MessageId> for MessageAddress {
    fn from(id: MessageId) -> Self {
        Self::Id(id)
    }
}

impl std::fmt::Display for MessageAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Place(place) => place.fmt(f),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// The message that is sent in a fork.
enum BranchMessage {
    /// Another message in the place of a user's.
    Otherwise(MessageAddress, ChatMessage),
    /// The user's message before a reply again; before the last reply, when none is named.
    Again(Option<MessageAddress>),
}

/// How many messages are looked at at once.
const WINDOW: u64 = 64;

/// How many forks of forks an id is followed through.
const GENERATIONS: u32 = 1024;

impl Session {
    /// Edits a user's message: forks the session before that message, sends the new message in the fork, and returns
    /// its turn, whose [`session`](Turn::session) is the fork (D12). The old session stays as it is.
    ///
    /// The fork's id is drawn. Fork and message are one commit: no crash leaves a fork without
    /// the message. Notes of the sender on the old message ([`SendOptions::note`]) are copied to the new one.
    ///
    /// # Errors
    /// Those of [`Session::fork`] and of [`Session::submit`], with the same meaning; `chat_message_unknown` when there is no
    /// such message, or it is not a user's.
    ///
    /// # Cancellation
    /// A dropped call has done both or nothing.
    pub async fn edit(&self, at: impl Into<MessageAddress>, message: impl Into<ChatMessage>) -> Result<Turn> {
        self.branch(BranchMessage::Otherwise(at.into(), message.into()), None).await
    }

    /// As [`Session::edit`], in a fork of this id.
    ///
    /// # Errors
    /// As [`Session::edit`]; `chat_session_exists`.
    ///
    /// # Cancellation
    /// As [`Session::edit`].
    pub async fn edit_into(
        &self,
        fork: impl Into<SessionName>,
        at: impl Into<MessageAddress>,
        message: impl Into<ChatMessage>,
    ) -> Result<Turn> {
        self.branch(BranchMessage::Otherwise(at.into(), message.into()), Some(fork.into())).await
    }

    /// Asks for another reply: forks the session before the user's message that was answered, sends that same message
    /// there again, and returns its turn, whose [`session`](Turn::session) is the new one (D12).
    ///
    /// `reply` names any message of the answer; the last one otherwise.
    ///
    /// # Errors
    /// As [`Session::edit`]; `chat_message_unknown` also when no user's message stands before it.
    ///
    /// # Cancellation
    /// As [`Session::edit`].
    pub async fn regenerate(&self, reply: Option<MessageAddress>) -> Result<Turn> {
        self.branch(BranchMessage::Again(reply), None).await
    }

    /// As [`Session::regenerate`], in a fork of this id.
    ///
    /// # Errors
    /// As [`Session::regenerate`]; `chat_session_exists`.
    ///
    /// # Cancellation
    /// As [`Session::edit`].
    pub async fn regenerate_into(
        &self,
        fork: impl Into<SessionName>,
        reply: Option<MessageAddress>,
    ) -> Result<Turn> {
        self.branch(BranchMessage::Again(reply), Some(fork.into())).await
    }

    async fn branch(&self, message: BranchMessage, fork: Option<SessionName>) -> Result<Turn> {
        let fork = fork.as_ref().map(SessionName::as_str);
        let begun = self.chat.fork_and_send(&self.id, &message, fork).await;
        begun.map_err(|error| self.chat.refused_turn(&error))
    }
}

impl Chat {
    async fn fork_and_send(&self, session_id: &str, asked: &BranchMessage, to: Option<&str>) -> Result<Turn> {
        self.session_key(session_id)?;
        self.check_not_reserved(session_id)?;
        let id = to.map_or_else(|| self.inner.env.ids.generate_uuid(), str::to_owned);
        let key = self.session_key(&id)?;
        self.check_not_reserved(&id)?;
        if let BranchMessage::Otherwise(_, message) = asked {
            // Validates before any access to the store, as for a send.
            self.validate_message(message.clone(), &SendOptions::new())?;
            // A fork has the blobs of its source, so the check against the source suffices.
            self.check_blobs(&self.session_key(session_id)?, message).await?;
        }
        if self.inner.is_closing() {
            return Err(Error::ShuttingDown);
        }
        let loaded = self.inner.session_in_memory(&key)?;
        let mut attempt = 1;
        loop {
            self.inner.ensure_session_ready(&loaded).await?;
            let source = self.read_session_row(session_id).await?;
            let (place, message) = self.find_branch_point(&source, asked).await?;
            let valid = self.validate_message(message, &self.read_sender_notes(&source, place).await?)?;
            let forking = Some(self.read_fork_source(&source, Some(place)).await?);
            let agent = Some(source.head.agent.as_str()).filter(|value| !value.is_empty());
            let served = self.inner.find_served_agent(agent.unwrap_or(&self.inner.default_agent))?;
            let acceptance = Acceptance { served, valid, forking, retried: None, reusable: None };
            match self.accept_message(&loaded, acceptance).await {
                Ok(AcceptedTurn { id, told, no, from }) => {
                    let turn = Turn::with_outcome_receiver(self.clone(), key, id, told);
                    return Ok(turn.with_log_start(no, from, None));
                }
                // The old session was written in the meantime, or the new one was made.
                Err(AcceptanceError::Again(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(AcceptanceError::Again(error) | AcceptanceError::Refused(error)) => return Err(error),
            }
        }
    }

    /// Reads the sender's notes on a message; they also apply to the message that replaces it.
    async fn read_sender_notes(&self, row: &SessionRow, place: u64) -> Result<SendOptions> {
        let (generation, _) = find_history_list(row).unwrap_or_default();
        let range = ItemRange::List { field: HISTORY.to_owned(), generation, from: place, limit: 1 };
        let items = self.inner.await_store_read(self.inner.journal.read_items(&row.key, &range)).await?;
        let side =
            items.first().and_then(|item| item.side.as_ref()).map(JsonDocument::decode::<Map<String, Value>>);
        let side = side.transpose().map_err(|error| {
            store_corrupt_error(format!("what stands beside message {place}"), Some(error.into()))
        })?;
        let notes =
            side.unwrap_or_default().into_iter().filter(|(name, _)| name != TAKEN_BY && name != ACCEPTED_AS);
        Ok(notes.fold(SendOptions::new(), |options, (name, note)| options.note(name, note)))
    }

    /// Finds the position at which a session is forked, and the message to send there.
    async fn find_branch_point(&self, row: &SessionRow, asked: &BranchMessage) -> Result<(u64, ChatMessage)> {
        match asked {
            BranchMessage::Otherwise(at, message) => {
                let place = self.find_message_place(row, at).await?;
                match self.read_message_role(row, place, at).await? {
                    Role::User => Ok((place, message.clone())),
                    Role::System | Role::Assistant | Role::Tool => {
                        let (message, why) = (at.to_string(), "it is not a user's".to_owned());
                        Err(Error::MessageUnknown { message, why })
                    }
                }
            }
            BranchMessage::Again(reply) => {
                let past = match reply {
                    Some(at) => self.find_message_place(row, at).await? + 1,
                    None => find_history_list(row).map_or(0, |(_, len)| len),
                };
                self.find_user_message_before(row, past).await
            }
        }
    }

    /// Finds the last user's message before a place.
    async fn find_user_message_before(&self, row: &SessionRow, past: u64) -> Result<(u64, ChatMessage)> {
        let (generation, len) = find_history_list(row).unwrap_or_default();
        let mut to = past.min(len);
        while to > 0 {
            let from = to.saturating_sub(WINDOW);
            let seen = Messages::from_list(&self.read_messages_between(row, generation, (from, to)).await?);
            let asked = (from..).zip(seen.iter()).filter(|(_, it)| it.role == Role::User).last();
            if let Some((place, message)) = asked {
                return Ok((place, message.as_ref().clone()));
            }
            to = from;
        }
        let why = "no user's message stands before it".to_owned();
        Err(Error::MessageUnknown { message: past.saturating_sub(1).to_string(), why })
    }

    async fn read_message_role(&self, row: &SessionRow, place: u64, at: &MessageAddress) -> Result<Role> {
        let (generation, _) = find_history_list(row).unwrap_or_default();
        let seen =
            Messages::from_list(&self.read_messages_between(row, generation, (place, place + 1)).await?);
        seen.last().map(|it| it.role).ok_or_else(|| unknown_message_error(at))
    }

    /// Finds the place of a message in a history.
    async fn find_message_place(&self, row: &SessionRow, at: &MessageAddress) -> Result<u64> {
        let len = find_history_list(row).map_or(0, |(_, len)| len);
        let place = match at {
            MessageAddress::Place(place) => Some(*place),
            MessageAddress::Id(id) => self.find_place_by_id(row, id).await?,
        };
        place.filter(|place| *place < len).ok_or_else(|| unknown_message_error(at))
    }

    async fn find_place_by_id(&self, row: &SessionRow, id: &MessageId) -> Result<Option<u64>> {
        let Some((generation, _)) = find_history_list(row) else { return Ok(None) };
        let Some((turn, inherited)) = self.find_turn_number(row, id).await? else { return Ok(None) };
        let items = self
            .inner
            .await_store_read(self.inner.journal.read_items(&row.key, &ItemRange::Turn(turn)))
            .await?;
        let places = items.into_iter().filter_map(|item| item.placement);
        let mut places: Vec<u64> = places
            .filter(|place| place.field == HISTORY && place.generation == generation)
            .map(|it| it.seq)
            .filter(|it| inherited.is_none_or(|offset| *it < offset))
            .collect();
        places.sort_unstable();
        let place = places.first().map(|first| first + id.k);
        Ok(place.filter(|place| places.binary_search(place).is_ok()))
    }

    /// Finds the number of a turn, in this session or in one that it was forked from; then also how much was inherited
    /// since: a number means another turn after that.
    async fn find_turn_number(&self, row: &SessionRow, id: &MessageId) -> Result<Option<(u64, Option<u64>)>> {
        let journal = &self.inner.journal;
        let found = journal.find_session_of_invocation(self.served_tenant()?, &id.turn.invocation);
        let Some(home) = self.inner.await_store_read(found).await? else { return Ok(None) };
        let (mut at, mut inherited) = (row.clone(), None::<u64>);
        for _ in 0..GENERATIONS {
            if at.key == home {
                let query = TurnRowQuery::Invocation(id.turn.invocation.clone());
                let turns = self.inner.await_store_read(journal.read_turns(&home, &query)).await?;
                let turn = turns.into_iter().find(|turn| turn.ordinal == id.turn.ordinal);
                return Ok(turn.map(|turn| (turn.no, inherited)));
            }
            let Some(parent) = at.head.parent else { return Ok(None) };
            inherited = Some(inherited.map_or(parent.offset, |inherited| inherited.min(parent.offset)));
            let key = singletree_durable::SessionKey::new(self.served_tenant()?.clone(), parent.session);
            match self.inner.await_store_read(journal.read_session(&key)).await? {
                Some(row) => at = row,
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

fn unknown_message_error(at: &MessageAddress) -> Error {
    Error::MessageUnknown { message: at.to_string(), why: "the history has none such".to_owned() }
}
