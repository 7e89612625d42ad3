//! The native API, call by call.

use serde::Deserialize;
use singletree_protocol::native::{
    AddArtifact, AgentList, ApproveArtifact, Artifact, ArtifactList, CreateSession, EditMessage, ForkSession,
    KeptSignal, MessageList, NarrationList, Outcome, RegenerateReply, SendContent, SendMessage, SenderRole,
    Session, SessionExport, SessionList, SignalAnswer, Turn, TurnList, WaitList,
};

use crate::connection::{Connection, ServerApiRequest};
use crate::error::{Error, Result};
use crate::events::EventStream;

/// A client of the native API. Cheap to clone.
///
/// Every call can fail with any category of [`Error`]; where the server refused, it is the server's own.
///
/// # Cancellation
/// Dropping a call ends it on this side. A request that the server has accepted by then is kept and goes on.
#[derive(Debug, Clone)]
pub struct Client {
    connection: Connection,
}

/// The outcome of an answer to a wait.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum AnswerOutcome {
    /// The turn that goes on ended like this.
    Ended(Box<Outcome>),
    /// Nothing waited for it yet: it is kept.
    Kept(KeptSignal),
}

impl Client {
    /// Makes a client over a connection.
    #[must_use]
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Lists the agents.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_agents(&self) -> Result<AgentList> {
        self.connection.request_json(self.get_request(&["v1", "agents"])).await
    }

    /// Makes a session.
    ///
    /// # Errors
    /// As all calls.
    pub async fn create_session(&self, session: &CreateSession) -> Result<Session> {
        self.connection.request_json(self.post_request(&["v1", "sessions"], session)?).await
    }

    /// Lists sessions by id, from the `next` of the page before on.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_sessions(&self, from: Option<&str>, limit: Option<u64>) -> Result<SessionList> {
        let limit = limit.map(|limit| limit.to_string());
        let asked = self
            .get_request(&["v1", "sessions"])
            .with_query("from", from)
            .with_query("limit", limit.as_deref());
        self.connection.request_json(asked).await
    }

    /// Shows a session.
    ///
    /// # Errors
    /// As all calls.
    pub async fn fetch_session(&self, session: &str) -> Result<Session> {
        self.connection.request_json(self.get_request(&["v1", "sessions", session])).await
    }

    /// Writes a session out as one document.
    ///
    /// # Errors
    /// As all calls.
    pub async fn export_session(&self, session: &str) -> Result<SessionExport> {
        self.connection.request_json(self.get_request(&["v1", "sessions", session, "export"])).await
    }

    /// Deletes a session and everything that is known of it. Doing so again succeeds.
    ///
    /// # Errors
    /// As all calls.
    pub async fn delete_session(&self, session: &str) -> Result<()> {
        let url = self.connection.url_below(&["v1", "sessions", session]);
        self.connection.request_body(ServerApiRequest::delete(url)).await.map(drop)
    }

    /// Makes a session with the beginning of another one.
    ///
    /// # Errors
    /// As all calls.
    pub async fn fork_session(&self, session: &str, fork: &ForkSession) -> Result<Session> {
        self.connection.request_json(self.post_request(&["v1", "sessions", session, "fork"], fork)?).await
    }

    /// Replaces a message by another one, in a fork; waits for the outcome.
    ///
    /// # Errors
    /// As all calls.
    pub async fn edit_message(&self, session: &str, edit: &EditMessage) -> Result<Outcome> {
        self.connection.request_json(self.post_request(&["v1", "sessions", session, "edit"], edit)?).await
    }

    /// Asks for another reply, in a fork; waits for it.
    ///
    /// # Errors
    /// As all calls.
    pub async fn regenerate_reply(&self, session: &str, reply: &RegenerateReply) -> Result<Outcome> {
        self.connection
            .request_json(self.post_request(&["v1", "sessions", session, "regenerate"], reply)?)
            .await
    }

    /// Sends a message and waits for the outcome. With a key the server accepts it once, however often it is sent.
    ///
    /// # Errors
    /// As all calls. A turn that failed is an outcome, and no error.
    pub async fn send_text(&self, session: &str, text: &str, key: Option<&str>) -> Result<Outcome> {
        self.send_message(session, &text_message(text), key).await
    }

    /// As [`Client::send_text`], with pictures, an agent or a policy.
    ///
    /// # Errors
    /// As [`Client::send_text`].
    pub async fn send_message(
        &self,
        session: &str,
        message: &SendMessage,
        key: Option<&str>,
    ) -> Result<Outcome> {
        let asked = self.post_request(&["v1", "sessions", session, "messages"], message)?;
        self.connection.request_json(with_idempotency_key(asked, key)).await
    }

    /// Sends a message and streams the events of its turn. The last event holds the outcome.
    ///
    /// # Errors
    /// As all calls, here or in the stream.
    pub async fn send_message_streaming(
        &self,
        session: &str,
        message: &SendMessage,
        key: Option<&str>,
    ) -> Result<EventStream> {
        let asked = self.post_request(&["v1", "sessions", session, "messages"], message)?;
        EventStream::open_stream(&self.connection, with_idempotency_key(asked, key)).await
    }

    /// Sends a message to the running turn; waits for the outcome.
    ///
    /// # Errors
    /// As [`Client::send_text`].
    pub async fn steer_turn(
        &self,
        session: &str,
        message: &SendMessage,
        key: Option<&str>,
    ) -> Result<Outcome> {
        let asked = self.post_request(&["v1", "sessions", session, "steer"], message)?;
        self.connection.request_json(with_idempotency_key(asked, key)).await
    }

    /// Reads the history, from a place on.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_messages(&self, session: &str, from: u64, limit: Option<u64>) -> Result<MessageList> {
        let (from, limit) = (from.to_string(), limit.map(|limit| limit.to_string()));
        let asked =
            self.get_request(&["v1", "sessions", session, "messages"]).with_query("from", Some(&from));
        self.connection.request_json(asked.with_query("limit", limit.as_deref())).await
    }

    /// Lists the turns of a session, from the `next` of the page before on.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_turns(&self, session: &str, from: Option<u64>, limit: Option<u64>) -> Result<TurnList> {
        let [from, limit] = [from, limit].map(|item| item.map(|item| item.to_string()));
        let asked = self.get_request(&["v1", "sessions", session, "turns"]);
        let asked = asked.with_query("from", from.as_deref()).with_query("limit", limit.as_deref());
        self.connection.request_json(asked).await
    }

    /// Shows a turn.
    ///
    /// # Errors
    /// As all calls.
    pub async fn fetch_turn(&self, session: &str, turn: &str) -> Result<Turn> {
        self.connection.request_json(self.get_request(&["v1", "sessions", session, "turns", turn])).await
    }

    /// Cancels a turn; returns the one that tells the end.
    ///
    /// # Errors
    /// As all calls.
    pub async fn cancel_turn(&self, session: &str, turn: &str) -> Result<Turn> {
        let nothing = serde_json::Map::new();
        let asked = self.post_request(&["v1", "sessions", session, "turns", turn, "cancel"], &nothing)?;
        self.connection.request_json(asked).await
    }

    /// Retries a failed turn, and waits for the outcome. With a key the server retries it once, however often this is
    /// called.
    ///
    /// # Errors
    /// As all calls; `chat_retry_superseded` if the turn did not fail or is no longer the newest one of its session.
    pub async fn retry_turn(&self, session: &str, turn: &str, key: Option<&str>) -> Result<Outcome> {
        let nothing = serde_json::Map::new();
        let asked = self.post_request(&["v1", "sessions", session, "turns", turn, "retry"], &nothing)?;
        self.connection.request_json(with_idempotency_key(asked, key)).await
    }

    /// As [`Client::retry_turn`], but streams the events of the new turn. The last event holds the outcome.
    ///
    /// # Errors
    /// As [`Client::retry_turn`], here or in the stream.
    pub async fn retry_turn_streaming(
        &self,
        session: &str,
        turn: &str,
        key: Option<&str>,
    ) -> Result<EventStream> {
        let nothing = serde_json::Map::new();
        let asked = self.post_request(&["v1", "sessions", session, "turns", turn, "retry"], &nothing)?;
        EventStream::open_stream(&self.connection, with_idempotency_key(asked, key)).await
    }

    /// Streams the events of a turn up to its end: all of them, or those after the event with the id `after`. A stream
    /// that is resumed with [`EventStream::last_event_id`] misses no event.
    ///
    /// # Errors
    /// As all calls, here or in the stream.
    pub async fn follow_turn(&self, session: &str, turn: &str, after: Option<&str>) -> Result<EventStream> {
        let asked = self.get_request(&["v1", "sessions", session, "turns", turn]);
        let asked = match after {
            Some(after) => asked.with_header("last-event-id", after),
            None => asked,
        };
        EventStream::open_stream(&self.connection, asked).await
    }

    /// Lists the pending waits of one session, or of all.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_pending_waits(&self, session: Option<&str>) -> Result<WaitList> {
        let asked = match session {
            Some(session) => self.get_request(&["v1", "sessions", session, "pending"]),
            None => self.get_request(&["v1", "pending"]),
        };
        self.connection.request_json(asked).await
    }

    /// Answers a wait; waits for the outcome.
    ///
    /// # Errors
    /// As all calls.
    pub async fn answer_wait(
        &self,
        session: &str,
        signal: &str,
        answer: &SignalAnswer,
    ) -> Result<AnswerOutcome> {
        let asked = self.post_request(&["v1", "sessions", session, "signals", signal], answer)?;
        self.connection.request_json(asked).await
    }

    /// As [`Client::answer_wait`], but streams the events of the turn that goes on. The stream has no event if nothing
    /// waits for the answer yet.
    ///
    /// # Errors
    /// As all calls, here or in the stream.
    pub async fn answer_wait_streaming(
        &self,
        session: &str,
        signal: &str,
        answer: &SignalAnswer,
    ) -> Result<EventStream> {
        let asked = self.post_request(&["v1", "sessions", session, "signals", signal], answer)?;
        EventStream::open_stream(&self.connection, asked).await
    }

    /// Lists all versions of the artifacts of a session.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_artifacts(&self, session: &str) -> Result<ArtifactList> {
        self.connection.request_json(self.get_request(&["v1", "sessions", session, "artifacts"])).await
    }

    /// Adds a version of an artifact. Nobody has approved it.
    ///
    /// # Errors
    /// As all calls; `artifact_refused` if kind or key are no names or the content is too long.
    pub async fn add_artifact(&self, session: &str, artifact: &AddArtifact) -> Result<Artifact> {
        let asked = self.post_request(&["v1", "sessions", session, "artifacts"], artifact)?;
        self.connection.request_json(asked).await
    }

    /// Approves one version of an artifact, by the digest of what was read. Needs the scope `approve`.
    ///
    /// # Errors
    /// As all calls; `artifact_refused` if there is none of this name, or it says something else.
    pub async fn approve_artifact(&self, session: &str, approval: &ApproveArtifact) -> Result<Artifact> {
        let asked = self.post_request(&["v1", "sessions", session, "artifacts", "approve"], approval)?;
        self.connection.request_json(asked).await
    }

    /// Lists the narration of a session that is held at the moment, after the piece with the id `after`. Nothing may be
    /// concluded from it: it is text for people.
    ///
    /// # Errors
    /// As all calls.
    pub async fn list_narration(&self, session: &str, after: Option<&str>) -> Result<NarrationList> {
        let asked = self.get_request(&["v1", "sessions", session, "narration"]);
        self.connection.request_json(asked.with_query("after", after)).await
    }

    /// Follows the events of a session after one event, or from the oldest that is kept. The stream ends when the
    /// server ends it or the connection breaks; resume it with the id of the last event: [`EventStream::last_event_id`].
    ///
    /// # Errors
    /// As all calls, here or in the stream.
    pub async fn follow_session(&self, session: &str, after: Option<&str>) -> Result<EventStream> {
        let asked = self.get_request(&["v1", "sessions", session, "events"]);
        let asked = match after {
            Some(after) => asked.with_header("last-event-id", after),
            None => asked,
        };
        EventStream::open_stream(&self.connection, asked).await
    }

    fn get_request(&self, parts: &[&str]) -> ServerApiRequest {
        ServerApiRequest::get(self.connection.url_below(parts))
    }

    fn post_request(&self, parts: &[&str], body: &impl serde::Serialize) -> Result<ServerApiRequest, Error> {
        ServerApiRequest::post(self.connection.url_below(parts), body)
    }
}

fn text_message(text: &str) -> SendMessage {
    let content = SendContent::Text(text.to_owned());
    SendMessage { role: SenderRole::User, content, agent: None, prompt_policy: None }
}

pub(crate) fn with_idempotency_key(asked: ServerApiRequest, key: Option<&str>) -> ServerApiRequest {
    match key {
        Some(key) => asked.with_header("idempotency-key", key),
        None => asked,
    }
}
