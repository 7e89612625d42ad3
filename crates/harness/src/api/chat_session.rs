//! One session of a chat: the calls about one conversation. Each is in the file of its part.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use futures_core::Stream;
use serde_json::Value;
use singletree_durable::SessionId;
use singletree_session::{ChatEvent, ChatEventId, ChatTurnOutcome};

use crate::api::answer::{Answer, SignalAddress};
use crate::api::chat::Chat;
use crate::api::mail::SignalDelivery;
use crate::runtime::pending_wait::PendingWait;
use crate::{Error, Result};

/// The id of a session as a caller writes it. It is checked by the call that uses it: one that can be no session's id is
/// refused with `harness_session_id_unresolved`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(Arc<str>);

impl SessionName {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionName {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<&&str> for SessionName {
    fn from(text: &&str) -> Self {
        Self((*text).into())
    }
}

impl From<&String> for SessionName {
    fn from(text: &String) -> Self {
        Self(text.as_str().into())
    }
}

impl From<String> for SessionName {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&SessionId> for SessionName {
    fn from(id: &SessionId) -> Self {
        Self(id.as_str().into())
    }
}

impl From<SessionId> for SessionName {
    fn from(id: SessionId) -> Self {
        Self::from(&id)
    }
}

/// One session of a chat. Cheap to make and to clone; nothing is read or stored before a call.
///
/// A session that does not exist begins with its first message. [`Session::send`] returns an outcome whatever happens;
/// every other call returns a [`Result`] with [`Error`](crate::Error).
#[derive(Clone)]
pub struct Session {
    pub(crate) chat: Chat,
    pub(crate) id: Arc<str>,
}

impl Chat {
    /// Returns the session of this id. Nothing is checked yet: a call fails with `harness_session_id_unresolved` if this
    /// can be no session's id.
    #[must_use]
    pub fn session(&self, id: impl Into<SessionName>) -> Session {
        Session { chat: self.clone(), id: id.into().0 }
    }
}

impl Session {
    /// Returns the session's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Delivers a signal to this session: to the wait for it, or to the mailbox where its agent expects it early.
    ///
    /// # Errors
    /// As [`Chat::signal`].
    ///
    /// # Cancellation
    /// A dropped call has delivered the signal or has not.
    pub async fn signal(&self, signal: impl Into<String>, answer: Answer) -> Result<SignalDelivery> {
        let address = SignalAddress::Session { session: self.id.to_string(), signal: signal.into() };
        self.chat.signal(address, answer).await
    }

    /// Begins a request for the events of the session.
    pub fn events(&self) -> SessionEvents {
        SessionEvents { session: self.clone(), after: None }
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

    /// Returns the events of the session, first the stored ones and then new ones (D9): all after the event that was
    /// seen last. No gap, no repeat, across restarts. Deltas and tool activity come only while they happen; a listener
    /// that comes late gets the text so far. They come behind the acceptance of their turn, each piece of a message behind the
    /// one before it, and never behind the message that records them or the end of their turn.
    ///
    /// Events that a stream has not handed out yet are kept for it, whatever the retention. When the session is
    /// deleted, the stream ends with `chat_session_unknown`, after the events of before.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`; `chat_events_expired`, with the oldest id, when something after the last seen
    /// event is not kept any more, or it is of another log; `chat_event_unknown` when this log has never come so far;
    /// `chat_subscriptions_full`, `chat_sessions_full`, `store_unavailable` and its kin. In the stream the store's
    /// errors, as the last item.
    ///
    /// # Cancellation
    /// Dropping call or stream changes nothing.
    pub async fn stream(self) -> Result<impl Stream<Item = Result<ChatEvent>> + Send + use<>> {
        self.session.open_event_stream(self.after).await
    }
}

/// A pending wait of a session, and the ways to end it. What is awaited is read as from its [`PendingWait`].
#[derive(Debug, Clone)]
pub struct SessionWait {
    chat: Chat,
    pending: PendingWait,
}

impl SessionWait {
    pub(crate) fn new(chat: &Chat, pending: PendingWait) -> Self {
        Self { chat: chat.clone(), pending }
    }

    /// Returns the wait: its signal, its terms and the action to approve.
    #[must_use]
    pub fn wait(&self) -> &PendingWait {
        &self.pending
    }

    /// Approves the action that the wait is bound to, and returns the outcome of the turn that this resumes. The answer is
    /// `{"approved": true}`, and names the wait and the digest of the exact action.
    ///
    /// # Errors
    /// As [`Chat::answer`]; `chat_signal_mismatch` when the wait is for no approval.
    ///
    /// # Cancellation
    /// A dropped call has answered or has not; the turn runs all the same.
    pub async fn approve(&self) -> Result<ChatTurnOutcome> {
        self.answer_approval([("approved", Value::Bool(true))]).await
    }

    /// Rejects the action that the wait is bound to, with a reason for the agent, and returns the outcome of the turn that
    /// this resumes. The answer is `{"approved": false, "reason": …}`.
    ///
    /// # Errors
    /// As [`SessionWait::approve`].
    ///
    /// # Cancellation
    /// As [`SessionWait::approve`].
    pub async fn reject(&self, reason: impl Into<String>) -> Result<ChatTurnOutcome> {
        let reason = reason.into();
        let fields = [("approved", Value::Bool(false))];
        let reason = (!reason.is_empty()).then_some(("reason", Value::String(reason)));
        self.answer_approval(fields.into_iter().chain(reason)).await
    }

    async fn answer_approval(
        &self,
        fields: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Result<ChatTurnOutcome> {
        if self.pending.wait.action.is_none() {
            let why = "it waits for an answer, and not for an approval".into();
            return Err(self.chat.report_refused_answer(&Error::SignalMismatch { why }));
        }
        self.respond(self.pending.answer(fields)).await
    }

    /// Ends the wait with an answer, as [`PendingWait::answer`] makes it of fields: for answers that name the person, or
    /// that give other fields than an approval does. Returns the outcome of the turn that this resumes.
    ///
    /// # Errors
    /// As [`Chat::answer`].
    ///
    /// # Cancellation
    /// As [`SessionWait::approve`].
    pub async fn respond(&self, answer: Answer) -> Result<ChatTurnOutcome> {
        let turn = self.chat.answer(self.pending.address(), answer).await?;
        Ok(Arc::unwrap_or_clone(turn.outcome().await))
    }
}

/// Two are equal if they are the same wait as it was read.
impl PartialEq for SessionWait {
    fn eq(&self, other: &Self) -> bool {
        self.pending == other.pending
    }
}

impl Deref for SessionWait {
    type Target = PendingWait;

    fn deref(&self) -> &PendingWait {
        &self.pending
    }
}
