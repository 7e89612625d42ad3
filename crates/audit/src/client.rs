//! A client that keeps the log while it calls.

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_harness::{
    Answer, Chat, ChatTurnOutcome, Error, ErroredTurn, Result, SendOptions, SignalAddress, SignalDelivery,
    Turn, TurnId,
};
use singletree_llm::ChatMessage;

use crate::end::AuditedOutcome;
use crate::history::{ClientOperation, HistoryEvent, HistoryRecorder};

/// A client that keeps the log while it calls. Cloning shares the log.
#[derive(Debug, Clone)]
pub struct AuditedClient {
    chat: Chat,
    log: Arc<HistoryRecorder>,
    name: Option<String>,
}

impl AuditedClient {
    /// Makes a client of a chat.
    #[must_use]
    pub fn new(chat: Chat, log: Arc<HistoryRecorder>) -> Self {
        Self { chat, log, name: None }
    }

    /// Gives it the name under which its answers are recorded.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sends a message and waits for its outcome.
    ///
    /// # Cancellation
    /// The call of a dropped future stays open in the log, as if it was never answered: note [`HistoryEvent::Gone`]
    /// for it.
    pub async fn send_message(&self, session: &str, text: &str, key: Option<&str>) -> Arc<ChatTurnOutcome> {
        match self.submit_message(session, text, key).await {
            (call, Ok(turn)) => self.await_outcome(call, &turn).await,
            (_, Err(errored)) => Arc::new(ChatTurnOutcome::Errored(*errored)),
        }
    }

    /// Sends a message; returns the number of the call and its turn, whose end [`AuditedClient::await_outcome`] waits
    /// for.
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn submit_message(
        &self,
        session: &str,
        text: &str,
        key: Option<&str>,
    ) -> (u64, Result<Turn, Box<ErroredTurn>>) {
        let deed = ClientOperation::Send { text: text.to_owned(), key: key.map(str::to_owned) };
        let call = self.log.record_call(session, deed);
        let options = key.map_or_else(SendOptions::new, |key| SendOptions::new().key(key));
        let submitted = self
            .chat
            .session(session)
            .submit(ChatMessage::user(text), options)
            .await
            .map_err(Error::into_errored_turn);
        self.record_answer(session, call, &submitted);
        (call, submitted)
    }

    /// Sends a message that the running turn may take. Returns the same values as [`AuditedClient::submit_message`].
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn send_steering_message(
        &self,
        session: &str,
        text: &str,
    ) -> (u64, Result<Turn, Box<ErroredTurn>>) {
        let call = self.log.record_call(session, ClientOperation::Send { text: text.to_owned(), key: None });
        let steered = self
            .chat
            .session(session)
            .steer(ChatMessage::user(text), SendOptions::new())
            .await
            .map_err(Error::into_errored_turn);
        self.record_answer(session, call, &steered);
        (call, steered)
    }

    /// Says a message of a session otherwise, in a fork: `to` names that and the message. Returns the number of the
    /// call, which is one of the fork, and its turn.
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn edit_message(
        &self,
        session: &str,
        at: u64,
        (to, text): (&str, &str),
    ) -> (u64, Result<Turn, Box<ErroredTurn>>) {
        let call = self.log.record_call(to, ClientOperation::Send { text: text.to_owned(), key: None });
        let edited = self
            .chat
            .session(session)
            .edit_into(to, at, ChatMessage::user(text))
            .await
            .map_err(Error::into_errored_turn);
        self.record_answer(to, call, &edited);
        (call, edited)
    }

    /// Asks for another reply, in a fork: `to` is the fork's id and the text of the message to answer again. Returns
    /// the same values as [`AuditedClient::edit_message`].
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn regenerate_reply(
        &self,
        session: &str,
        reply: Option<u64>,
        (to, text): (&str, &str),
    ) -> (u64, Result<Turn, Box<ErroredTurn>>) {
        let call = self.log.record_call(to, ClientOperation::Send { text: text.to_owned(), key: None });
        let again = self
            .chat
            .session(session)
            .regenerate_into(to, reply.map(Into::into))
            .await
            .map_err(Error::into_errored_turn);
        self.record_answer(to, call, &again);
        (call, again)
    }

    /// Answers a signal of a session; returns the number of the call and the turn that resumes.
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn answer_signal(
        &self,
        (session, signal): (&str, &str),
        payload: Map<String, Value>,
        to: Option<(u64, &str)>,
    ) -> (u64, Result<Turn, Box<ErroredTurn>>) {
        let deed =
            ClientOperation::Answer { signal: signal.to_owned(), payload: Value::Object(payload.clone()) };
        let call = self.log.record_call(session, deed);
        let address = SignalAddress::Session { session: session.to_owned(), signal: signal.to_owned() };
        let answer = Answer::new(payload);
        let answer = self.name.iter().fold(answer, |it, name| it.from(name));
        let answer = to.into_iter().fold(answer, |it, (wait, action)| it.to(wait, action));
        let answered = self.chat.answer(address, answer).await.map_err(Error::into_errored_turn);
        self.record_answer(session, call, &answered);
        (call, answered)
    }

    /// Sends a signal, which may come before anything waits for it. Returns the number of the call and the result of
    /// the delivery. The call ends when the signal is kept for a later wait.
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn deliver_signal(
        &self,
        (session, signal): (&str, &str),
        payload: Map<String, Value>,
    ) -> (u64, Result<SignalDelivery, Box<ErroredTurn>>) {
        let deed =
            ClientOperation::Answer { signal: signal.to_owned(), payload: Value::Object(payload.clone()) };
        let call = self.log.record_call(session, deed);
        let address = SignalAddress::Session { session: session.to_owned(), signal: signal.to_owned() };
        let answer = self.name.iter().fold(Answer::new(payload), |it, name| it.from(name));
        let delivered = self.chat.signal(address, answer).await.map_err(Error::into_errored_turn);
        match &delivered {
            Ok(SignalDelivery::Kept { .. }) => self.log.record_event(session, HistoryEvent::Done { call }),
            Ok(SignalDelivery::Resumed(turn)) => self.record_answer(session, call, &Ok(turn.clone())),
            Err(errored) => self.record_answer(session, call, &Err(errored.clone())),
        }
        (call, delivered)
    }

    /// Cancels a turn and waits for the end that this has; returns it with the name of the turn that ended so.
    ///
    /// # Errors
    /// As [`Chat::cancel`].
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn cancel_turn(&self, session: &str, turn: &TurnId) -> Result<(TurnId, Arc<ChatTurnOutcome>)> {
        let call = self.log.record_call(session, ClientOperation::Cancel { turn: turn.to_string() });
        match self.chat.cancel(turn).await {
            Ok(turn) => Ok((turn.id().clone(), self.await_outcome(call, &turn).await)),
            Err(error) => {
                let category = error.category().to_owned();
                let end = AuditedOutcome::Errored { category, retry_safe: false, recorded: true };
                self.log.record_event(session, HistoryEvent::Told { call, turn: None, end });
                Err(error)
            }
        }
    }

    /// Deletes a session.
    ///
    /// # Errors
    /// As [`Session::delete`](singletree_harness::Session::delete).
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn delete_session(&self, session: &str) -> Result<()> {
        let call = self.log.record_call(session, ClientOperation::Delete);
        let deleted = self.chat.session(session).delete(None).await;
        self.log.record_event(
            session,
            if deleted.is_ok() { HistoryEvent::Done { call } } else { HistoryEvent::Gone { call } },
        );
        deleted
    }

    /// Waits for the end of a turn that a call was given.
    ///
    /// # Cancellation
    /// As [`AuditedClient::send_message`].
    pub async fn await_outcome(&self, call: u64, turn: &Turn) -> Arc<ChatTurnOutcome> {
        let outcome = turn.outcome().await;
        let told =
            HistoryEvent::Told { call, turn: Some(turn.id().to_string()), end: outcome.as_ref().into() };
        self.log.record_event(turn.session(), told);
        outcome
    }

    /// Returns the chat.
    #[must_use]
    pub fn chat(&self) -> &Chat {
        &self.chat
    }

    fn record_answer(&self, session: &str, call: u64, answer: &Result<Turn, Box<ErroredTurn>>) {
        let what = match answer {
            Ok(turn) => HistoryEvent::Given { call, turn: turn.id().to_string() },
            Err(errored) => {
                let turn = errored.turn.as_ref().map(ToString::to_string);
                HistoryEvent::Told { call, turn, end: errored.as_ref().into() }
            }
        };
        self.log.record_event(session, what);
    }
}
