//! The response to a request that starts a turn: the outcome, a stream of the turn's events, or the turn's name.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::header::{HeaderName, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use singletree_harness::{Chat, ChatEvent, ChatEventId, ChatTurnOutcome, Error, OnDisconnect, Turn};
use singletree_protocol::native;

use super::ask::TurnResponseMode;
use super::convert::{self, ContentVisibility};
use super::place::turn_location;
use crate::caller::{Caller, RequestCaller};
use crate::disconnect::{DisconnectGuard, guard_stream, read_disconnect_policy};
use crate::problem::RequestProblem;
use crate::section::RequestContext;
use crate::shared::ServerState;
use crate::sse::{self, ServerSentEvent};

/// The header in which browsers send the id of the last event they received.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The header with the idempotency key of a message.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The header of an answer whose effect comes from an earlier request with the same key.
pub(crate) const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// One request: the caller, the request id, and the headers that select the form of the response.
pub(crate) struct HandlerContext {
    pub(crate) shared: Arc<ServerState>,
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    /// The `X-On-Disconnect` policy of the request; none if the agent decides (D31).
    pub(crate) on_disconnect: Option<OnDisconnect>,
    asked: RequestContext,
}

impl FromRequestParts<Arc<ServerState>> for HandlerContext {
    type Rejection = RequestProblem;

    async fn from_request_parts(
        parts: &mut Parts,
        shared: &Arc<ServerState>,
    ) -> Result<Self, RequestProblem> {
        let RequestCaller(caller) = RequestCaller::from_request_parts(parts, shared).await?;
        let asked = parts.extensions.get::<RequestContext>().cloned();
        let asked = asked.unwrap_or_else(|| RequestContext { request_id: String::new() });
        let on_disconnect = read_disconnect_policy(&parts.headers)?;
        Ok(Self { shared: shared.clone(), caller, headers: parts.headers.clone(), on_disconnect, asked })
    }
}

impl HandlerContext {
    /// Returns the caller's part of the chat.
    pub(crate) fn caller_chat(&self) -> Chat {
        self.shared.chat_of_caller(&self.caller)
    }

    /// Returns the form of the response that the request asks for.
    pub(super) fn response_mode(&self) -> TurnResponseMode {
        TurnResponseMode::from_headers(&self.headers)
    }

    /// Returns the id of the last event the client received. Browsers send it by themselves after a lost connection.
    pub(crate) fn last_event_id(&self) -> Option<String> {
        let seen = self.headers.get(LAST_EVENT_ID)?;
        Some(String::from_utf8_lossy(seen.as_bytes()).into_owned()).filter(|value| !value.is_empty())
    }

    /// Returns the id of the last event the client received, if it is a valid event id.
    fn last_chat_event_id(&self) -> Option<ChatEventId> {
        self.last_event_id()?.parse().ok()
    }

    /// Answers with an accepted turn; marks the answer if an earlier request with the same key began the turn.
    pub(super) async fn respond_with_turn(&self, turn: &Turn) -> Result<Response, RequestProblem> {
        let response = self.build_turn_response(turn).await?;
        Ok(self.mark_if_replayed(turn, response))
    }

    /// Marks an answer if an earlier request with the same key began its turn.
    pub(crate) fn mark_if_replayed(&self, turn: &Turn, mut response: Response) -> Response {
        if !turn.is_new() && self.headers.contains_key(IDEMPOTENCY_KEY) {
            mark_replayed(&mut response);
        }
        response
    }

    async fn build_turn_response(&self, turn: &Turn) -> Result<Response, RequestProblem> {
        match self.response_mode() {
            TurnResponseMode::Events => {
                let view = self.load_visibility(turn.session()).await?;
                let events = skip_seen_events(turn.events(), self.last_chat_event_id());
                let frames =
                    guard_stream(frame_events(events, self.event_framer(view)), self.disconnect_guard(turn));
                Ok(sse::resumable_stream_response(&self.shared, frames))
            }
            TurnResponseMode::Outcome => {
                let mut guard = self.disconnect_guard(turn);
                let outcome = turn.outcome().await;
                guard.iter_mut().for_each(DisconnectGuard::mark_finished);
                self.respond_with_outcome(turn, &outcome).await
            }
            TurnResponseMode::Accepted(patience) => match self.wait_for_outcome(turn, patience).await {
                Some(outcome) => self.respond_with_outcome(turn, &outcome).await,
                None => self.respond_with_accepted(turn).await,
            },
        }
    }

    /// Returns the guard that cancels the turn when its client goes away; none if an earlier request began the turn.
    pub(crate) fn disconnect_guard(&self, turn: &Turn) -> Option<DisconnectGuard> {
        DisconnectGuard::for_new_turn((&self.shared, &self.caller_chat()), self.on_disconnect, turn)
    }

    /// Waits for the outcome, for the given time at most.
    pub(super) async fn wait_for_outcome(
        &self,
        turn: &Turn,
        patience: Duration,
    ) -> Option<Arc<ChatTurnOutcome>> {
        if patience.is_zero() {
            return None;
        }
        tokio::time::timeout(patience, turn.outcome()).await.ok()
    }

    /// Answers with the outcome of a turn, whether it completed, suspended or failed.
    async fn respond_with_outcome(
        &self,
        turn: &Turn,
        outcome: &ChatTurnOutcome,
    ) -> Result<Response, RequestProblem> {
        check_recorded(outcome)?;
        let view = self.load_visibility(turn.session()).await?;
        Ok(Json(view.convert_outcome(turn.session(), outcome)).into_response())
    }

    /// Answers that a turn was accepted, with its address.
    async fn respond_with_accepted(&self, turn: &Turn) -> Result<Response, RequestProblem> {
        let info = self
            .caller_chat()
            .session(turn.session())
            .turn_info(turn.id())
            .await
            .map_err(|error| RequestProblem::from_chat_error(&error))?;
        let mut response = (StatusCode::ACCEPTED, Json(convert::convert_turn(&info))).into_response();
        let headers = response.headers_mut();
        headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static("respond-async"));
        if let Ok(place) = HeaderValue::from_str(&turn_location(turn.session(), &turn.id().to_string())) {
            headers.insert(LOCATION, place);
        }
        Ok(response)
    }

    /// Returns the rules for the parts of a conversation that readers may see.
    pub(super) async fn load_visibility(&self, session: &str) -> Result<ContentVisibility, RequestProblem> {
        load_visibility(&self.shared, &self.caller_chat(), session).await
    }

    /// Returns the conversion of events to frames.
    pub(super) fn event_framer(&self, view: ContentVisibility) -> NativeEventFramer {
        NativeEventFramer { failures: self.failure_framer(), view }
    }

    /// Returns the conversion of the failure of a stream to its last frame.
    pub(crate) fn failure_framer(&self) -> StreamFailureFramer {
        StreamFailureFramer { shared: self.shared.clone(), asked: self.asked.clone() }
    }
}

/// Sets the header `Idempotent-Replayed`.
pub(crate) fn mark_replayed(response: &mut Response) {
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
}

/// Returns the rules for the parts of a conversation that readers may see: no thinking, unless the record of the
/// session's agent has `"showThinking": true` (D19).
pub(crate) async fn load_visibility(
    shared: &ServerState,
    chat: &Chat,
    session: &str,
) -> Result<ContentVisibility, RequestProblem> {
    let shows = |it: &&singletree_agent::AgentProfile| {
        it.other.get("showThinking").is_some_and(|other| *other == true)
    };
    if shared.agents.iter().find(shows).is_none() {
        return Ok(ContentVisibility::default());
    }
    match chat.session(session).info().await {
        Ok(info) => {
            let thinking = shared.agents.iter().filter(shows).any(|agent| agent.id == info.agent);
            Ok(ContentVisibility { thinking })
        }
        // The session was deleted meanwhile: its agent is unknown, so thinking stays hidden.
        Err(Error::SessionUnknown { .. }) => Ok(ContentVisibility::default()),
        Err(error) => Err(RequestProblem::from_chat_error(&error)),
    }
}

/// Refuses an outcome that is not recorded: the server shuts down, and the turn is kept.
pub(super) fn check_recorded(outcome: &ChatTurnOutcome) -> Result<(), RequestProblem> {
    match outcome {
        ChatTurnOutcome::Errored(it) if !it.recorded => Err(RequestProblem::from_errored_turn(it)
            .with_hint("the turn is kept: ask for it, or send the same again with its Idempotency-Key")),
        _ => Ok(()),
    }
}

/// The conversion of events to frames.
pub(super) struct NativeEventFramer {
    failures: StreamFailureFramer,
    view: ContentVisibility,
}

/// The conversion of the failure of a stream to its last frame.
pub(crate) struct StreamFailureFramer {
    shared: Arc<ServerState>,
    asked: RequestContext,
}

impl StreamFailureFramer {
    /// Returns the last frame of a stream that failed.
    pub(crate) fn frame_failure(&self, problem: &RequestProblem) -> ServerSentEvent {
        let mut error = super::problem::convert_problem(problem, &self.asked);
        // The request layer does not look into streams (INV-16).
        error.message = self.shared.redactor.redact(&error.message).into_owned();
        build_json_frame(&native::StreamFailed { kind: native::StreamFailedType::Failed, error })
    }
}

impl NativeEventFramer {
    fn frame_event(&self, event: Result<ChatEvent, Error>) -> ServerSentEvent {
        match event {
            Ok(event) => ServerSentEvent {
                id: event.id.as_ref().map(ToString::to_string),
                ..build_json_frame(&self.view.convert_event(&event))
            },
            Err(error) => self.failures.frame_failure(&RequestProblem::from_chat_error(&error)),
        }
    }
}

/// Leaves out the events up to the last one that the client received.
fn skip_seen_events(
    events: impl Stream<Item = Result<ChatEvent, Error>> + Send + 'static,
    seen: Option<ChatEventId>,
) -> impl Stream<Item = Result<ChatEvent, Error>> + Send + 'static {
    events.filter(move |event| {
        let id = event.as_ref().ok().and_then(|event| event.id.as_ref());
        let was =
            id.zip(seen.as_ref()).is_some_and(|(id, seen)| id.epoch == seen.epoch && id.seq <= seen.seq);
        std::future::ready(!was)
    })
}

/// Writes events as frames, after a comment that reports the open stream. An error of the stream is its last frame.
pub(super) fn frame_events(
    events: impl Stream<Item = Result<ChatEvent, Error>> + Send + 'static,
    framing: NativeEventFramer,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    let frames = Box::pin(events).map(move |pin| framing.frame_event(pin));
    stream::once(std::future::ready(ServerSentEvent::from_comment("open"))).chain(frames)
}

pub(crate) fn build_json_frame(shape: &impl serde::Serialize) -> ServerSentEvent {
    ServerSentEvent::from_data(
        serde_json::to_string(shape).expect("a shape of strings, numbers and JSON is JSON"),
    )
}
