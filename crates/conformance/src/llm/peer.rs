//! The server of a case: it keeps the bytes of each request, and sends the answers of the case, in order.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use singletree_http::{BoxFuture, Error, HttpRequest, HttpResponse, Method, Result, Transport};
use singletree_providers::Wire;

use super::spec::ProviderMapping;
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};

/// Where the server is said to be. No such host exists.
pub(super) const BASE_URL: &str = "https://provider.invalid";
/// The API key of the provider; it must never appear in an error.
pub(super) const KEY: &str = "key-of-the-case";

/// Stands for a name that the mapping makes up.
const MADE_UP: &str = "*";

/// One answer.
#[derive(Debug, Clone)]
pub(super) enum MockHttpAnswer {
    /// No connection.
    Failure,
    /// A status, headers and a body.
    Response { status: u16, headers: Vec<(String, String)>, body: MockAnswerBody },
}

/// The body of an answer.
#[derive(Debug, Clone)]
pub(super) enum MockAnswerBody {
    /// Nothing.
    Empty,
    /// JSON.
    Json(Value),
    /// Text that is sent as it is.
    Text(String),
    /// The data of events, one after the other.
    Events(Vec<Value>),
    /// The same, and then the connection breaks.
    BrokenEvents(Vec<Value>),
}

/// The answer to a probe.
#[derive(Debug, Clone)]
pub(super) struct HealthProbeAnswer {
    path: String,
    answer: MockHttpAnswer,
}

impl MockHttpAnswer {
    /// Reads an answer.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let answer = Self::take_from_block(&mut block)?;
        block.reject_remaining_keys()?;
        Ok(answer)
    }

    /// Makes the answer of a server that succeeds.
    #[must_use]
    pub(super) fn from_body(body: Value) -> Self {
        Self::Response { status: 200, headers: Vec::new(), body: MockAnswerBody::Json(body) }
    }

    fn take_from_block(block: &mut YamlMapReader) -> Outcome<Self> {
        if let Some(failure) = block.take_value("connection_failure")
            && failure.as_bool()?
        {
            return Ok(Self::Failure);
        }
        let status = match block.take_value("status") {
            Some(spot) => u16::try_from(spot.as_integer()?)
                .ok()
                .filter(|it| (100..600).contains(it))
                .ok_or_else(|| CaseFailure::reader_error(&spot.path, "is no status"))?,
            None => 200,
        };
        let mut headers = Vec::new();
        if let Some(spot) = block.take_value("headers") {
            let mut all = spot.into_map_reader()?;
            while let Some((name, value)) = all.take_next_entry() {
                headers.push((name.to_ascii_lowercase(), value.as_text()?.to_owned()));
            }
        }
        let body = match (block.take_value("body"), block.take_value("stream_body")) {
            (None, None) => MockAnswerBody::Empty,
            (Some(body), None) => match body.node.to_json() {
                Value::String(text) => MockAnswerBody::Text(text),
                value => MockAnswerBody::Json(value),
            },
            (None, Some(chunks)) => {
                MockAnswerBody::Events(chunks.into_items()?.iter().map(|item| item.node.to_json()).collect())
            }
            (Some(_), Some(_)) => {
                return Err(CaseFailure::reader_error(block.path(), "has both 'body' and 'stream_body'"));
            }
        };
        Ok(Self::Response { status, headers, body })
    }

    /// Returns the model that it names, if it does.
    #[must_use]
    pub(super) fn model_name(&self) -> Option<String> {
        self.body_parts().iter().find_map(|part| part.get("model")?.as_str().map(str::to_owned))
    }

    /// Returns the JSON values of its body: one, or one for each event.
    #[must_use]
    pub(super) fn body_parts(&self) -> &[Value] {
        match self {
            Self::Response { body: MockAnswerBody::Json(value), .. } => std::slice::from_ref(value),
            Self::Response {
                body: MockAnswerBody::Events(events) | MockAnswerBody::BrokenEvents(events),
                ..
            } => events,
            Self::Response { body: MockAnswerBody::Empty | MockAnswerBody::Text(_), .. } | Self::Failure => {
                &[]
            }
        }
    }

    /// Tells whether it is a stream.
    #[must_use]
    pub(super) fn is_streamed(&self) -> bool {
        let Self::Response { body, .. } = self else { return false };
        matches!(body, MockAnswerBody::Events(_) | MockAnswerBody::BrokenEvents(_))
    }

    /// Sends it. The made-up name of a tool is the one that the request brought.
    fn into_http_response(self, sent: &Value) -> Result<HttpResponse> {
        let Self::Response { status, mut headers, body } = self else {
            return Err(Error::Unreachable {
                host: "provider.invalid".into(),
                source: "the fixture says connection_failure".into(),
            });
        };
        let breaks = matches!(body, MockAnswerBody::BrokenEvents(_));
        let (kind, pieces) = match body {
            MockAnswerBody::Empty => (None, Vec::new()),
            MockAnswerBody::Text(text) => (Some("application/json"), vec![text]),
            MockAnswerBody::Json(mut value) => {
                fill_in_tool_name(&mut value, sent);
                (Some("application/json"), vec![value.to_string()])
            }
            MockAnswerBody::Events(events) | MockAnswerBody::BrokenEvents(events) => {
                (Some("text/event-stream"), events.iter().map(format_sse_event).collect())
            }
        };
        if let Some(kind) = kind
            && !headers.iter().any(|(name, _)| name == "content-type")
        {
            headers.push(("content-type".into(), kind.into()));
        }
        // Servers' pieces end anywhere; no line here comes in one.
        let cut = |it: String| {
            let bytes = Bytes::from(it);
            let middle = bytes.len() / 2;
            [Ok(bytes.slice(..middle)), Ok(bytes.slice(middle..))]
        };
        let mut pieces: Vec<_> = pieces.into_iter().flat_map(cut).collect();
        if breaks {
            pieces.push(Err(Error::Broken {
                host: "provider.invalid".into(),
                source: "the fixture ends the stream".into(),
            }));
        }
        let body = stream::iter(pieces).boxed();
        Ok(HttpResponse { status, headers, body })
    }
}

fn format_sse_event(data: &Value) -> String {
    match data {
        // The one thing in a stream that is no JSON, as `[DONE]`.
        Value::String(text) => format!("data: {text}\n\n"),
        value => format!("data: {value}\n\n"),
    }
}

/// Puts the name of the tool that the request forces in the place of `*`.
fn fill_in_tool_name(answer: &mut Value, sent: &Value) {
    let forced = sent["tool_choice"]["name"].as_str().or_else(|| sent["tools"][0]["name"].as_str());
    match answer {
        Value::Object(map) => {
            for (key, value) in map {
                match (value.as_str(), forced) {
                    (Some(MADE_UP), Some(name)) if key == "name" => *value = json!(name),
                    _ => fill_in_tool_name(value, sent),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in_tool_name(item, sent)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl HealthProbeAnswer {
    /// Reads the answer to a probe.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let path = block.take_required("path")?.as_text()?.to_owned();
        let answer = MockHttpAnswer::take_from_block(&mut block)?;
        block.reject_remaining_keys()?;
        Ok(Self { path, answer })
    }
}

/// A request that came.
#[derive(Debug, Clone)]
pub(super) struct CapturedRequest {
    /// Its path, without the host.
    pub(super) path: String,
    /// Its body, byte for byte.
    pub(super) bytes: Bytes,
    /// Its body as JSON; null when it is none.
    pub(super) body: Value,
    /// The answer that the server gave.
    pub(super) answer: Option<MockHttpAnswer>,
}

/// The server.
pub(super) struct MockProviderServer {
    mapping: ProviderMapping,
    health: Option<HealthProbeAnswer>,
    state: Mutex<MockServerState>,
}

#[derive(Debug, Default)]
struct MockServerState {
    answers: VecDeque<MockHttpAnswer>,
    captured: Vec<CapturedRequest>,
    complaints: Vec<String>,
}

impl MockProviderServer {
    pub(super) fn new(
        mapping: ProviderMapping,
        answers: Vec<MockHttpAnswer>,
        health: Option<HealthProbeAnswer>,
    ) -> Self {
        let state = MockServerState { answers: answers.into(), ..MockServerState::default() };
        Self { mapping, health, state: Mutex::new(state) }
    }

    fn lock_state(&self) -> MutexGuard<'_, MockServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requests since the last call.
    pub(super) fn take_captured(&self) -> Vec<CapturedRequest> {
        std::mem::take(&mut self.lock_state().captured)
    }

    /// Returns how many answers nobody has asked for.
    pub(super) fn unused_answer_count(&self) -> usize {
        self.lock_state().answers.len()
    }

    /// Returns descriptions of the requests to which the case has no answer.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.lock_state().complaints.clone()
    }

    /// Tells whether calls of the mapping go to this path.
    fn is_call_path(&self, path: &str) -> bool {
        match self.mapping.wire {
            Wire::OpenAi => path == "/v1/chat/completions",
            Wire::Anthropic => path == "/v1/messages",
            Wire::Gemini => path.starts_with("/v1beta/models/") && path.ends_with(":generateContent"),
        }
    }

    fn answer_request(&self, request: &HttpRequest) -> Result<HttpResponse> {
        let path = request.url.strip_prefix(BASE_URL).unwrap_or(&request.url).to_owned();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let mut state = self.lock_state();
        let answer = match (request.method, &self.health) {
            (Method::Get, Some(health)) if health.path == path => Some(health.answer.clone()),
            (Method::Post, _) if self.is_call_path(&path) => state.answers.pop_front(),
            (Method::Get | Method::Post | Method::Put | Method::Delete, _) => None,
        };
        if answer.is_none() {
            let what = format!("{:?} {path}: the case has no answer to it", request.method);
            state.complaints.push(what);
        }
        let bytes = request.body.clone();
        state.captured.push(CapturedRequest { path, bytes, body: body.clone(), answer: answer.clone() });
        answer.unwrap_or(MockHttpAnswer::Failure).into_http_response(&body)
    }
}

impl Transport for MockProviderServer {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        async move { self.answer_request(&request) }.boxed()
    }
}

impl fmt::Debug for MockProviderServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockProviderServer").field("mapping", &self.mapping).finish_non_exhaustive()
    }
}
