//! Requests for a session that another server owns: they are sent on to that server, and its answer is passed on as it
//! arrives.
//!
//! A request is tried here first. Where it comes to a session whose owner lives and can be reached, nothing has happened to
//! the session yet; the same request is sent to the owner, with the credentials of its caller, which the owner checks
//! itself. A request that was sent on is never sent on again by the server that it comes to.

mod owner_watch;
mod owners;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, ORIGIN, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::once;
use singletree_env::{IdGenerator, Timer};
use singletree_http::{HttpRequest, Method, Transport};

use owner_watch::OwnerWatch;
use owners::Substitute;
pub(crate) use owners::{defer_to_owner, follow_owner};
pub use owners::{note_session_owners, spawn_for_requests};

use crate::native::{IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED};
use crate::nodes::NodeDirectory;
use crate::problem::RequestProblem;
use crate::request_id;
use crate::sse::StreamShutdownMode;

/// Marks a request that another server has sent on.
const FORWARDED: &str = "singletree-forwarded";

/// Marks an answer for the server that has sent the request on: it may try again, since the session goes to another server.
const MOVING: &str = "singletree-moving";

/// Marks a stream for the server that has sent the request on: whoever reads it comes back by itself.
const RESUMABLE: &str = "singletree-resumable";

/// How long a session is awaited that goes to another server: longer than the usual lease of one that has died.
const MOVING_TIME: Duration = Duration::from_secs(10);

const FIRST_PAUSE: Duration = Duration::from_millis(50);

const LONGEST_PAUSE: Duration = Duration::from_millis(400);

/// Headers that are of one connection, or that this server has answered for.
const OF_ONE_CONNECTION: [HeaderName; 10] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    ORIGIN,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Marks an answer that refuses a request in its body, under a status of success.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyRefusal {
    /// Whether it was refused since its session goes to another server.
    pub(crate) is_for_now: bool,
    /// Whether the request names itself in its body, so that it is done once however often it is sent.
    pub(crate) is_repeatable: bool,
}

impl BodyRefusal {
    fn find(answer: &Response) -> Option<Self> {
        answer.extensions().get().copied()
    }
}

/// How the other servers over the same database are reached.
pub(crate) struct Peers<'a> {
    pub(crate) transport: &'a Arc<dyn Transport>,
    /// Tells which of them live, where that can be known.
    pub(crate) nodes: Option<&'a Arc<dyn NodeDirectory>>,
    /// How many bytes the body of a request to them may have.
    pub(crate) body_max: usize,
    pub(crate) timer: &'a Arc<dyn Timer>,
    pub(crate) ids: &'a Arc<dyn IdGenerator>,
    pub(crate) key_use: KeyUse,
}

/// The use that a route makes of an idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// Nothing.
    None,
    /// It takes one, and its protocol has rules of its own for messages without.
    OfProtocol,
    /// It takes one, and a message without one is a new one each time.
    Documented,
}

/// Runs a request; one for a session of another server is sent there, where that is possible. Its body is kept for that, up
/// to `body_max` bytes: as many as a request may have. A larger one is that of a blob, which needs no owner.
///
/// Where the owner cannot be reached, stands still for longer than its lease, or is about to end, the session will soon be
/// another server's, perhaps this one's: the request is tried again until then, for [`MOVING_TIME`] at most. A message has the same idempotency key each time.
pub(crate) async fn run_or_forward(
    peers: Option<Peers<'_>>,
    request: Request,
    (next, request_id): (Next, &str),
) -> Response {
    let Some(peers) = peers.filter(|_| !request.headers().contains_key(FORWARDED)) else {
        return next.run(request).await;
    };
    let mut kept = match KeptRequest::read(request, (peers.body_max, peers.key_use)).await {
        Ok(kept) => kept,
        Err(request) => return next.run(request).await,
    };
    let (mut pause, mut left) = (FIRST_PAUSE, MOVING_TIME);
    loop {
        let (here, owner) = run_here(next.clone(), kept.to_request()).await;
        let is_substitute = here.extensions().get::<Substitute>().is_some();
        let refusal = BodyRefusal::find(&here);
        kept.names_itself |= refusal.is_some_and(|refusal| refusal.is_repeatable);
        let is_refused = !here.status().is_success() || refusal.is_some();
        // The request may have been done, and the session was that of other work. A stream that has begun has done nothing.
        let owner = owner.filter(|_| is_refused || is_event_stream(&here) || is_substitute);
        let Some(owner) = owner else { return kept.finish_answer(here) };
        // A stream that only reads shows the log meanwhile.
        if is_substitute || is_event_stream(&here) && kept.copy.method == Method::Get {
            left = Duration::ZERO;
        }
        if kept.key_use == KeyUse::Documented {
            kept.draw_key(peers.ids.as_ref());
        }
        let sent = send_to_owner(&peers, &owner, (kept.copy.clone(), request_id)).await;
        let refused = match sent {
            // The servers do not know the same callers; the one from here was admitted.
            Ok(told) if told.status() == StatusCode::UNAUTHORIZED => return kept.finish_answer(here),
            Ok(told) if told.headers().contains_key(MOVING) && is_refused => told,
            Ok(told) if told.headers().contains_key(MOVING) => here,
            Ok(told) => return kept.finish_answer(told),
            Err(singletree_http::Error::Unreachable { .. }) => here,
            Err(failed) => {
                kept.may_be_accepted |= !kept.repeats_safely();
                if !kept.is_repeatable() || !matches!(failed, singletree_http::Error::Broken { .. }) {
                    left = Duration::ZERO;
                }
                here
            }
        };
        if left.is_zero() {
            return kept.finish_refusal(refused);
        }
        drop(refused);
        peers.timer.sleep_for(pause).await;
        (left, pause) = (left.saturating_sub(pause), (pause * 2).min(LONGEST_PAUSE));
    }
}

/// Runs a request here; also returns the address of the server that owns its session, if another one does.
async fn run_here(next: Next, request: Request) -> (Response, Option<String>) {
    let found = owners::OwnerFound::default();
    let answer = owners::note_for(found.clone(), next.run(request)).await;
    (answer, owners::take_other(&found))
}

fn is_event_stream(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"))
}

/// The problem of a message that may have reached its owner, or not.
fn broken_off_problem() -> RequestProblem {
    let why = "the server that owns the session broke off: it may have accepted this";
    RequestProblem::from_chat_category("chat_accept_unknown", why)
        .with_hint("look whether it stands in the session before you send it again; with an Idempotency-Key it may be sent again at once")
}

/// A request that can be run more than once.
struct KeptRequest {
    parts: Parts,
    /// As it is sent on.
    copy: HttpRequest,
    key_use: KeyUse,
    /// Whether its body has an id of the request.
    names_itself: bool,
    /// Whether this server has drawn an idempotency key for it: its caller knows none.
    has_drawn_key: bool,
    /// Whether a server may have accepted it, and its caller could not send it again without doing it twice.
    may_be_accepted: bool,
}

impl KeptRequest {
    /// Keeps a request, unless its body is too large or breaks off, or no route of a session has its method.
    async fn read(request: Request, (body_max, key_use): (usize, KeyUse)) -> Result<Self, Request> {
        let (parts, body) = request.into_parts();
        let (mut kept, mut pieces) = (Vec::new(), body.into_data_stream());
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) if kept.len() + piece.len() <= body_max => kept.extend_from_slice(&piece),
                piece => {
                    let read = once(async move { Ok(Bytes::from(kept)) });
                    let body = Body::from_stream(read.chain(once(async move { piece })).chain(pieces));
                    return Err(Request::from_parts(parts, body));
                }
            }
        }
        let kept = Bytes::from(kept);
        match copy_head(&parts, kept.clone()) {
            Some(copy) => Ok(Self {
                parts,
                copy,
                key_use,
                names_itself: false,
                has_drawn_key: false,
                may_be_accepted: false,
            }),
            None => Err(Request::from_parts(parts, Body::from(kept))),
        }
    }

    fn to_request(&self) -> Request {
        Request::from_parts(self.parts.clone(), Body::from(self.copy.body.clone()))
    }

    /// Gives a message without an idempotency key one.
    fn draw_key(&mut self, ids: &dyn IdGenerator) {
        if self.copy.method != Method::Post || self.parts.headers.contains_key(IDEMPOTENCY_KEY) {
            return;
        }
        let key = ids.generate_uuid();
        if let Ok(value) = HeaderValue::from_str(&key) {
            self.parts.headers.insert(IDEMPOTENCY_KEY, value);
            self.copy.headers.push((IDEMPOTENCY_KEY.to_owned(), key));
            self.has_drawn_key = true;
        }
    }

    /// Tells whether this server may send the request again, whatever has become of it.
    fn is_repeatable(&self) -> bool {
        let has_key = self.key_use != KeyUse::None && self.parts.headers.contains_key(IDEMPOTENCY_KEY);
        self.copy.method != Method::Post || has_key || self.names_itself
    }

    /// Tells whether its caller may do so.
    fn repeats_safely(&self) -> bool {
        self.is_repeatable() && !self.has_drawn_key
    }

    /// Makes an answer one for the caller.
    fn finish_answer(&self, mut answer: Response) -> Response {
        let problem = answer.extensions().get::<RequestProblem>();
        if problem.is_some_and(is_refused_for_now)
            || BodyRefusal::find(&answer).is_some_and(|refusal| refusal.is_for_now)
        {
            return self.finish_refusal(answer);
        }
        if self.has_drawn_key {
            // It is replayed for this server only.
            answer.headers_mut().remove(IDEMPOTENT_REPLAYED);
        }
        answer
    }

    /// Makes a refusal one for the caller, which it tells that it may send the request again.
    fn finish_refusal(&self, mut refusal: Response) -> Response {
        if self.may_be_accepted {
            return broken_off_problem().into_response();
        }
        refusal.headers_mut().remove(MOVING);
        refusal
    }
}

/// Marks the answer to a request that another server has sent on, if that server may try again elsewhere: nothing was done, or
/// the request has a key under which the same turn answers it.
pub(crate) fn mark_refusal(problem: &RequestProblem, asked: &ForwardedRequest, answer: &mut Response) {
    if is_refused_for_now(problem) && (asked.has_key || problem.named_turn().is_none()) {
        answer.headers_mut().insert(MOVING, HeaderValue::from_static("1"));
    }
}

/// Marks the answer to a request which another server has sent on: a stream that is resumed, and a refusal as
/// [`mark_refusal`] does.
pub(crate) fn mark_answer(asked: Option<&ForwardedRequest>, mut answer: Response) -> Response {
    if asked.is_some() && answer.extensions().get() == Some(&StreamShutdownMode::Retry) {
        answer.headers_mut().insert(RESUMABLE, HeaderValue::from_static("1"));
    }
    if asked.is_some() && BodyRefusal::find(&answer).is_some_and(|refusal| refusal.is_for_now) {
        answer.headers_mut().insert(MOVING, HeaderValue::from_static("1"));
    }
    answer
}

/// A request that another server has sent on.
pub(crate) struct ForwardedRequest {
    has_key: bool,
}

impl ForwardedRequest {
    pub(crate) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        headers.contains_key(FORWARDED).then(|| Self { has_key: headers.contains_key(IDEMPOTENCY_KEY) })
    }
}

/// Tells whether a request was refused since its session goes to another server.
pub(crate) fn is_refused_for_now(problem: &RequestProblem) -> bool {
    is_category_for_now(&problem.category)
}

/// Tells whether a refusal of this category says that the session goes to another server.
pub(crate) fn is_category_for_now(category: &str) -> bool {
    matches!(category, "session_moving" | "chat_shutting_down")
}

/// Copies a request; none of a method that no route of a session has.
fn copy_head(parts: &Parts, body: Bytes) -> Option<HttpRequest> {
    let method = match parts.method.as_str() {
        "GET" => Method::Get,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        _ => return None,
    };
    let is_passed = |name: &HeaderName| {
        !OF_ONE_CONNECTION.contains(name)
            && name.as_str() != request_id::HEADER
            && !["proxy-", "sec-"].iter().any(|prefix| name.as_str().starts_with(prefix))
    };
    let headers = parts.headers.iter().filter(|(name, _)| is_passed(name));
    let headers =
        headers.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    Some(HttpRequest { method, url: path.to_owned(), headers: headers.collect(), body })
}

async fn send_to_owner(
    peers: &Peers<'_>,
    owner: &str,
    (mut kept, request_id): (HttpRequest, &str),
) -> singletree_http::Result<Response> {
    kept.url.insert_str(0, owner.trim_end_matches('/'));
    kept.headers.push((FORWARDED.to_owned(), "1".to_owned()));
    kept.headers.push((request_id::HEADER.to_owned(), request_id.to_owned()));
    let (nodes, timer) = (peers.nodes.cloned(), peers.timer.clone());
    let watch = OwnerWatch { nodes, timer, address: owner.to_owned() };
    let answer = watch.wait_for_answer(peers.transport.send(kept)).await?;
    let mut response = Response::new(Body::from_stream(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut headers = answer.headers;
    let count = headers.len();
    headers.retain(|(name, _)| name != RESUMABLE);
    if headers.len() < count {
        response.extensions_mut().insert(StreamShutdownMode::Retry);
    }
    for (name, value) in headers {
        let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else {
            continue;
        };
        if name == CONTENT_LENGTH || !OF_ONE_CONNECTION.contains(&name) {
            response.headers_mut().append(name, value);
        }
    }
    Ok(response)
}

#[cfg(test)]
mod tests;
