//! One session of a chat: the calls about one conversation.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value;
use singletree_llm::ChatMessage;

use crate::answer::{Answer, PendingWait, SignalAddress};
use crate::branch::MessageAddress;
use crate::chat::Chat;
use crate::event::{ChatEvent, ChatEventId};
use crate::failed_turns::FailedTurnEntry;
use crate::fork::ForkOptions;
use crate::mail::{EarlySignal, SignalDelivery};
use crate::outcome::{ChatTurnOutcome, ErroredTurn};
use crate::send_options::SendOptions;
use crate::sessions::{ExportedSession, HistoryEntry, SessionInfo};

use crate::subscribe::OutcomeSubscription;
use crate::transcript::Transcript;
use crate::turn::Turn;
use crate::turns::{TurnInfo, TurnPage};
use crate::usage::ModelTokenUsage;
use crate::{Error, Result};

/// One session of a chat. Cheap to make and to clone; nothing is read or stored before a call.
///
/// A session that does not exist begins with its first message.
#[derive(Clone)]
pub struct Session {
    chat: Chat,
    id: Arc<str>,
}

impl Chat {
    /// Returns the session of this id. Nothing is checked yet: a call fails with `harness_session_id_unresolved` if this
    /// can be no session's id.
    #[must_use]
    pub fn session(&self, id: impl AsRef<str>) -> Session {
        Session { chat: self.clone(), id: id.as_ref().into() }
    }
}

/// Sending.
impl Session {
    /// Returns the session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sends a message and waits for the outcome of its turn (harness-chat §5). A string is a user's message.
    ///
    /// Messages of one session are answered one at a time, in the order of acceptance. Everything that can go wrong is an
    /// errored outcome, with a category and a text to show.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing once the turn is accepted; its outcome is kept.
    pub async fn send(&self, message: impl Into<ChatMessage>) -> ChatTurnOutcome {
        self.chat.send(&self.id, message.into()).await
    }

    /// Accepts a message, and returns its turn as soon as no crash can lose it (INV-2).
    ///
    /// # Errors
    /// As [`Chat::submit`].
    ///
    /// # Cancellation
    /// A dropped call has accepted the message or has not.
    pub async fn submit(
        &self,
        message: impl Into<ChatMessage>,
        options: SendOptions,
    ) -> Result<Turn, Box<ErroredTurn>> {
        self.chat.submit(&self.id, message.into(), options).await
    }

    /// Accepts a message that the running turn may take before it asks its model the next time.
    ///
    /// # Errors
    /// As [`Chat::steer`].
    ///
    /// # Cancellation
    /// As [`Session::submit`].
    pub async fn steer(
        &self,
        message: impl Into<ChatMessage>,
        options: SendOptions,
    ) -> Result<Turn, Box<ErroredTurn>> {
        self.chat.steer(&self.id, message.into(), options).await
    }

    /// Accepts a message and returns the events of its turn as they occur; the last event carries the outcome.
    ///
    /// # Errors
    /// As [`Session::submit`].
    ///
    /// # Cancellation
    /// Dropping the stream cancels nothing.
    pub async fn stream(
        &self,
        message: impl Into<ChatMessage>,
    ) -> Result<BoxStream<'static, Result<ChatEvent>>, Box<ErroredTurn>> {
        Ok(self.chat.send_streaming(&self.id, message.into()).await?.boxed())
    }

    /// Edits a user's message: forks the session before that message and sends the new message there (D12). The turn's
    /// [`session`](Turn::session) is the fork.
    ///
    /// # Errors
    /// As [`Chat::edit`].
    ///
    /// # Cancellation
    /// A dropped call has done both or nothing.
    pub async fn edit(
        &self,
        at: impl Into<MessageAddress>,
        message: impl Into<ChatMessage>,
    ) -> Result<Turn, Box<ErroredTurn>> {
        self.chat.edit(&self.id, at, message.into(), None).await
    }

    /// Asks for another reply in place of this one, or of the last one: forks the session before the user's message and
    /// sends the same message there.
    ///
    /// # Errors
    /// As [`Chat::regenerate`].
    ///
    /// # Cancellation
    /// As [`Session::edit`].
    pub async fn regenerate(&self, reply: Option<MessageAddress>) -> Result<Turn, Box<ErroredTurn>> {
        self.chat.regenerate(&self.id, reply, None).await
    }

    /// Makes a session with the beginning of this one; this one stays as it is (D12).
    ///
    /// # Errors
    /// As [`Chat::fork`].
    ///
    /// # Cancellation
    /// A dropped call has made the fork or has not.
    pub async fn fork(&self, options: ForkOptions) -> Result<Self> {
        let made = self.chat.fork(&self.id, options).await?;
        Ok(self.chat.session(made.session))
    }
}

/// Waits and signals.
impl Session {
    /// Returns the waits of this session that nobody has ended yet: one at most.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn pending(&self) -> Result<Vec<SessionWait>> {
        let waits = self.chat.pending(Some(&self.id), 1).await?;
        Ok(waits.into_iter().map(|wait| SessionWait { session: self.clone(), wait }).collect())
    }

    /// Delivers a signal to this session: to the wait for it, or to the mailbox where its agent expects it early.
    ///
    /// # Errors
    /// As [`Chat::signal`].
    ///
    /// # Cancellation
    /// A dropped call has delivered the signal or has not.
    pub async fn signal(
        &self,
        signal: impl Into<String>,
        answer: Answer,
    ) -> Result<SignalDelivery, Box<ErroredTurn>> {
        let address = SignalAddress::Session { session: self.id.to_string(), signal: signal.into() };
        self.chat.signal(address, answer).await
    }

    /// Returns the early signals that the session keeps.
    ///
    /// # Errors
    /// As [`Chat::mailbox`].
    pub async fn mailbox(&self) -> Result<Vec<EarlySignal>> {
        self.chat.mailbox(&self.id).await
    }
}

/// Reading.
impl Session {
    /// Describes the session.
    ///
    /// # Errors
    /// As [`Chat::session_info`].
    pub async fn info(&self) -> Result<SessionInfo> {
        self.chat.session_info(&self.id).await
    }

    /// Reads messages of the history.
    ///
    /// # Errors
    /// As [`Chat::history`].
    pub async fn history(&self, places: Range<u64>) -> Result<Vec<HistoryEntry>> {
        self.chat.history(&self.id, places.start, places.end.saturating_sub(places.start)).await
    }

    /// Reads the newest messages with ids and times, at most `limit`.
    ///
    /// # Errors
    /// As [`Chat::newest_messages`].
    pub async fn newest_messages(&self, limit: u64) -> Result<Transcript> {
        self.chat.newest_messages(&self.id, limit).await
    }

    /// Reads one field of the session's state that is a value.
    ///
    /// # Errors
    /// As [`Chat::value`].
    pub async fn value(&self, field: &str) -> Result<Option<Value>> {
        self.chat.value(&self.id, field).await
    }

    /// Begins a request for the events of the session.
    pub fn events(&self) -> SessionEvents {
        SessionEvents { session: self.clone(), after: None }
    }

    /// Calls back with the outcome of each turn that resumes a suspended one, until the subscription is dropped.
    ///
    /// # Errors
    /// As [`Chat::subscribe`].
    pub fn subscribe(
        &self,
        callback: impl Fn(Arc<ChatTurnOutcome>) + Send + Sync + 'static,
    ) -> Result<OutcomeSubscription> {
        self.chat.subscribe(&self.id, callback)
    }

    /// Lists turns whose records are kept, from a number on.
    ///
    /// # Errors
    /// As [`Chat::turns`].
    pub async fn turns(&self, from: u64, limit: u64) -> Result<TurnPage> {
        self.chat.turns(&self.id, from, limit).await
    }

    /// Lists the turns that have not ended.
    ///
    /// # Errors
    /// As [`Chat::open_turns`].
    pub async fn open_turns(&self) -> Result<Vec<TurnInfo>> {
        self.chat.open_turns(&self.id).await
    }

    /// Lists the failed turns at these places of the history.
    ///
    /// # Errors
    /// As [`Chat::failed_turns`].
    pub async fn failed_turns(&self, places: Range<u64>, limit: usize) -> Result<Vec<FailedTurnEntry>> {
        self.chat.failed_turns(&self.id, places, limit).await
    }

    /// Returns the tokens that the session has used, by model.
    ///
    /// # Errors
    /// As [`Chat::usage`].
    pub async fn usage(&self) -> Result<Vec<ModelTokenUsage>> {
        self.chat.usage(&self.id).await
    }

    /// Writes the session out as one document.
    ///
    /// # Errors
    /// As [`Chat::export_session`].
    pub async fn export(&self) -> Result<ExportedSession> {
        self.chat.export_session(&self.id).await
    }

    /// Deletes the session and everything that belongs to it (D25). `by` names the person for the audit.
    ///
    /// # Errors
    /// As [`Chat::delete_session`].
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: the session is deleted all the same.
    pub async fn delete(&self, by: Option<&str>) -> Result<()> {
        self.chat.delete_session(&self.id, by).await
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.id).finish()
    }
}

/// A request for the events of a session.
#[derive(Debug, Clone)]
#[must_use]
pub struct SessionEvents {
    session: Session,
    after: Option<ChatEventId>,
}

impl SessionEvents {
    /// Begins after this event, the last one that was seen; at the oldest that is kept otherwise.
    pub fn after(mut self, event: impl Into<Option<ChatEventId>>) -> Self {
        self.after = event.into();
        self
    }

    /// Returns the events, first the stored ones and then new ones: no gap, no repeat, across restarts.
    ///
    /// # Errors
    /// As [`Chat::events`].
    ///
    /// # Cancellation
    /// Dropping call or stream changes nothing.
    pub async fn stream(self) -> Result<impl Stream<Item = Result<ChatEvent>> + Send + use<>> {
        self.session.chat.events(&self.session.id, self.after).await
    }
}

/// A pending wait of a session, and the ways to end it.
#[derive(Debug, Clone)]
pub struct SessionWait {
    session: Session,
    wait: PendingWait,
}

impl SessionWait {
    /// Returns the wait: its signal, its terms and the action to approve.
    #[must_use]
    pub fn wait(&self) -> &PendingWait {
        &self.wait
    }

    /// Approves the action that the wait is bound to, and returns the outcome of the turn that this resumes. The answer is
    /// `{"approved": true}`, and names the wait and the digest of the exact action.
    ///
    /// # Errors
    /// As [`SessionWait::answer`]; `chat_signal_mismatch` when the wait is for no approval.
    ///
    /// # Cancellation
    /// As [`SessionWait::answer`].
    pub async fn approve(&self) -> Result<Arc<ChatTurnOutcome>, Box<ErroredTurn>> {
        self.answer_approval([("approved", Value::Bool(true))]).await
    }

    /// Rejects the action that the wait is bound to, with a reason for the agent, and returns the outcome of the turn that
    /// this resumes. The answer is `{"approved": false, "reason": …}`.
    ///
    /// # Errors
    /// As [`SessionWait::approve`].
    ///
    /// # Cancellation
    /// As [`SessionWait::answer`].
    pub async fn reject(&self, reason: impl Into<String>) -> Result<Arc<ChatTurnOutcome>, Box<ErroredTurn>> {
        let reason = reason.into();
        let fields = [("approved", Value::Bool(false))];
        let reason = (!reason.is_empty()).then_some(("reason", Value::String(reason)));
        self.answer_approval(fields.into_iter().chain(reason)).await
    }

    async fn answer_approval(
        &self,
        fields: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Result<Arc<ChatTurnOutcome>, Box<ErroredTurn>> {
        if self.wait.wait.action.is_none() {
            let why = "it waits for an answer, and not for an approval".into();
            return Err(self.session.chat.report_refused_answer(&Error::SignalMismatch { why }));
        }
        self.answer(fields).await
    }

    /// Answers with fields that overwrite those of the graph's state, and returns the outcome of the turn that this
    /// resumes.
    ///
    /// # Errors
    /// As [`Chat::answer`].
    ///
    /// # Cancellation
    /// A dropped call has answered or has not; the turn runs all the same.
    pub async fn answer<K: Into<String>, V: Into<Value>>(
        &self,
        fields: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Arc<ChatTurnOutcome>, Box<ErroredTurn>> {
        let turn = self.session.chat.answer(self.wait.address(), self.wait.answer(fields)).await?;
        Ok(turn.outcome().await)
    }
}
