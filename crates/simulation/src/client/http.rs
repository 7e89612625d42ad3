//! Calls over HTTP: requests to the handlers of the server, whose connection may be cut at any byte.

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use singletree_audit::AuditedOutcome;
use singletree_protocol::native;

use super::{CallReport, EventView, SimulatedCall, SimulatedSessionName};
use crate::server::SimulatedServer;
use crate::world::CallReporter;

/// The tenant of requests without a key.
pub(crate) const KEYLESS_TENANT: &str = "default";

/// Where a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionCut {
    /// Behind so many bytes of the request's body.
    Request(usize),
    /// Behind so many bytes of the response's body.
    Response(usize),
}

/// Tells whether a call can be made over HTTP: without a key, a request is one of the tenant `default`.
pub(super) fn can_go_over_http(session: &SimulatedSessionName, call: &SimulatedCall) -> bool {
    let is_served = match call {
        SimulatedCall::Send { .. }
        | SimulatedCall::Answer { .. }
        | SimulatedCall::Delete
        | SimulatedCall::Retry { .. }
        | SimulatedCall::Outcome { .. } => true,
        SimulatedCall::Cancel { .. } | SimulatedCall::Branch { .. } => false,
    };
    is_served && session.tenant == KEYLESS_TENANT
}

/// Makes one call over a connection, which may be cut, and reports everything that comes of it.
pub(super) async fn handle_http_call(
    server: SimulatedServer,
    reporter: CallReporter<CallReport>,
    (session, call, agent): (SimulatedSessionName, SimulatedCall, Option<String>),
    cut: Option<ConnectionCut>,
) {
    let Some(request) = build_request(&session.session, call, agent, cut) else { return };
    let response = server.answer_request(request).await;
    let mut reader =
        ResponseReader { reporter, status: response.status(), bytes: Vec::new(), is_given: false };
    let mut left = match cut {
        Some(ConnectionCut::Response(bytes)) => bytes,
        Some(ConnectionCut::Request(_)) | None => usize::MAX,
    };
    let mut body = response.into_body().into_data_stream();
    while let Some(Ok(piece)) = body.next().await {
        let taken = piece.len().min(left);
        left -= taken;
        if reader.read_bytes(&piece[..taken]) {
            return;
        }
        if left == 0 {
            // The connection is lost.
            return;
        }
    }
    reader.finish_body();
}

/// Builds the request of a call; none for calls that HTTP does not have.
fn build_request(
    session: &str,
    call: SimulatedCall,
    agent: Option<String>,
    cut: Option<ConnectionCut>,
) -> Option<Request<Body>> {
    let place = format!("/v1/sessions/{session}");
    let (method, path, body, key) = match call {
        SimulatedCall::Send { text, key, steers } => {
            let path = if steers { "steer" } else { "messages" };
            let body = match agent {
                Some(agent) => json!({ "content": text, "agent": agent }),
                None => json!({ "content": text }),
            };
            (Method::POST, format!("{place}/{path}"), Some(body), key)
        }
        SimulatedCall::Answer { signal, payload, to, .. } => {
            let body = match to {
                Some((wait, action)) => json!({ "payload": payload, "wait": wait, "action": action }),
                None => json!({ "payload": payload }),
            };
            (Method::POST, format!("{place}/signals/{signal}"), Some(body), None)
        }
        SimulatedCall::Delete => (Method::DELETE, place, None, None),
        SimulatedCall::Retry { turn, .. } => {
            (Method::POST, format!("{place}/turns/{turn}/retry"), Some(json!({})), None)
        }
        SimulatedCall::Outcome { turn } => (Method::GET, format!("{place}/turns/{turn}"), None, None),
        SimulatedCall::Cancel { .. } | SimulatedCall::Branch { .. } => return None,
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1")
        .header("accept", "text/event-stream, application/json")
        .header("content-type", "application/json");
    let request = key.into_iter().fold(request, |request, key| request.header("idempotency-key", key));
    request.body(body.map_or_else(Body::empty, |body| cut_body(&body, cut))).ok()
}

/// Makes a body that ends before its end, when it is cut.
fn cut_body(body: &Value, cut: Option<ConnectionCut>) -> Body {
    let text = body.to_string();
    let Some(ConnectionCut::Request(at)) = cut else { return Body::from(text) };
    let begin = Bytes::copy_from_slice(&text.as_bytes()[..at.min(text.len().saturating_sub(1))]);
    let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    Body::from_stream(stream::iter([Ok(begin), Err(broken)]))
}

/// Takes the whole frames off the bytes of a stream, and returns their data.
pub(crate) fn split_frames(bytes: &mut Vec<u8>) -> Vec<String> {
    let mut frames = Vec::new();
    while let Some(end) = bytes.windows(2).position(|pair| pair == b"\n\n") {
        let frame: Vec<u8> = bytes.drain(..end + 2).collect();
        let frame = String::from_utf8_lossy(&frame);
        let data: String = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        frames.push(data.trim().to_owned());
    }
    frames
}

/// Reads the body of a response as it comes.
struct ResponseReader {
    reporter: CallReporter<CallReport>,
    status: StatusCode,
    /// The bytes that are no whole frame yet, or the whole body where it is no stream.
    bytes: Vec<u8>,
    is_given: bool,
}

impl ResponseReader {
    /// Takes bytes; tells whether the call is over.
    fn read_bytes(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.starts_with(b"{") {
            return false;
        }
        split_frames(&mut self.bytes).iter().any(|data| self.read_frame(data))
    }

    /// Reads the data of a frame; tells whether the call is over.
    fn read_frame(&mut self, data: &str) -> bool {
        match serde_json::from_str(data) {
            Ok(native::StreamItem::Event(event)) => self.report_event(&event),
            Ok(native::StreamItem::Failed(failed)) => {
                self.reporter.report(CallReport::Failed { category: failed.error.category });
                true
            }
            // A comment.
            Err(_) => false,
        }
    }

    fn report_event(&mut self, event: &native::Event) -> bool {
        let turn = event.turn.clone();
        if !std::mem::replace(&mut self.is_given, true) {
            self.reporter.report(CallReport::Given { turn: turn.clone() });
        }
        let number = event.id.as_deref().and_then(|id| id.rsplit(':').next()?.parse().ok());
        if let Some(seq) = number {
            let content = describe_http_event(event);
            let kind =
                serde_json::to_value(&event.what).unwrap_or_default()["type"].as_str().map(str::to_owned);
            let (turn, kind) = (turn.clone(), kind.unwrap_or_default());
            self.reporter.report(CallReport::Event { seq, turn, kind, content, view: EventView::Http });
        }
        let (native::EventKind::TurnCompleted { outcome }
        | native::EventKind::TurnSuspended { outcome }
        | native::EventKind::TurnErrored { outcome }) = &event.what
        else {
            return false;
        };
        let (end, action) = read_outcome(outcome, event.id.is_some());
        self.reporter.report(CallReport::Told { turn: Some(turn), end, action });
        true
    }

    /// Reads a whole body that is no stream: of an error, or of a call that has no turn.
    fn finish_body(self) {
        let Self { reporter, status, bytes, .. } = self;
        if let Ok(native::ErrorBody { error }) = serde_json::from_slice(&bytes) {
            return reporter.report(CallReport::Failed { category: error.category });
        }
        if status.is_success() && (status == StatusCode::NO_CONTENT || bytes.starts_with(b"{")) {
            reporter.report(CallReport::Done);
        }
    }
}

/// Describes an event by the content that is the same whenever it is read: side records and the turn that a wait leads to
/// come later.
pub(crate) fn describe_http_event(event: &native::Event) -> String {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("side");
        if let Some(outcome) = fields.get_mut("outcome").and_then(Value::as_object_mut) {
            outcome.remove("resumed_by");
        }
    }
    value.to_string()
}

fn read_outcome(outcome: &native::Outcome, recorded: bool) -> (AuditedOutcome, Option<String>) {
    let briefs = |messages: &[native::Message]| messages.iter().map(summarize_message).collect();
    match outcome {
        native::Outcome::Completed(it) => (AuditedOutcome::Completed { replies: briefs(&it.replies) }, None),
        native::Outcome::Suspended(it) => {
            let (signal, wait) = (it.wait.signal.clone(), it.wait.number);
            let end = AuditedOutcome::Suspended { signal, wait, pending: briefs(&it.pending) };
            (end, it.wait.action.clone())
        }
        native::Outcome::Errored(it) => {
            let (category, retry_safe) = (it.category.clone(), it.retry_safe);
            (AuditedOutcome::Errored { category, retry_safe, recorded }, None)
        }
    }
}

/// Writes a message as [`AuditedOutcome::summarize_message`] does.
fn summarize_message(message: &native::Message) -> String {
    let role = serde_json::to_value(message.role).unwrap_or_default();
    let mut text = format!("{}:{}", role.as_str().unwrap_or_default(), message.content.text());
    for call in &message.tool_calls {
        text += &format!(" ({})", call.id);
    }
    if let Some(call) = &message.tool_call_id {
        text += &format!(" (for {call})");
    }
    text
}

/// Reads the events of a turn over a connection that is not cut.
pub(crate) async fn read_turn_events(
    server: &SimulatedServer,
    session: &str,
    turn: &str,
) -> Vec<native::Event> {
    let call = SimulatedCall::Outcome { turn: turn.to_owned() };
    let Some(request) = build_request(session, call, None, None) else { return Vec::new() };
    let mut body = server.answer_request(request).await.into_body().into_data_stream();
    let mut bytes = Vec::new();
    while let Some(Ok(piece)) = body.next().await {
        bytes.extend_from_slice(&piece);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let frames = text.split("\n\n").map(|frame| {
        let data: String = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        serde_json::from_str::<native::Event>(data.trim()).ok()
    });
    frames.flatten().collect()
}
