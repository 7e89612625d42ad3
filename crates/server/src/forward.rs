//! Requests for a session that another server owns: they are sent on to that server, and its answer is passed on as it
//! arrives.
//!
//! A request is tried here first. Where it comes to a session whose owner lives and can be reached, nothing has happened to
//! the session yet; the same request is sent to the owner, with the credentials of its caller, which the owner checks
//! itself. A request that was sent on is never sent on again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, ORIGIN, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::once;
use singletree_durable::{
    AcquiredSession, BoxFuture, Error, FencingToken, Journal, JournalLayer, JournalMaintenance,
    MaintenanceLayer, Result, SessionKey,
};
use singletree_env::Spawner;
use singletree_http::{HttpRequest, Method, Transport};

use crate::problem::RequestProblem;
use crate::request_id;

/// Marks a request that another server has sent on.
const FORWARDED: &str = "singletree-forwarded";

const IDEMPOTENCY_KEY: &str = "idempotency-key";

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

/// How the other servers over the same database are reached.
pub(crate) struct Peers<'a> {
    pub(crate) transport: &'a Arc<dyn Transport>,
    /// How many bytes the body of a request to them may have.
    pub(crate) body_max: usize,
}

/// Who owns the session that a request has come to.
#[derive(Debug)]
enum SessionOwner {
    ThisServer,
    /// The server at this address.
    Other(String),
}

/// None until the request has come to a session. Of several, one that is this server's decides: sessions of others that its
/// work comes to, such as those of a tool of its turn, are not its own.
type OwnerFound = Arc<Mutex<Option<SessionOwner>>>;

tokio::task_local! {
    static OWNER_FOUND: OwnerFound;
}

fn lock_owner(found: &OwnerFound) -> MutexGuard<'_, Option<SessionOwner>> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes an owner for the request that this task belongs to. Other work has nobody to tell it to.
fn note_owner(owner: SessionOwner) {
    let note = |found: &OwnerFound| {
        let mut found = lock_owner(found);
        if found.is_none() || matches!(owner, SessionOwner::ThisServer) {
            *found = Some(owner);
        }
    };
    OWNER_FOUND.try_with(note).unwrap_or_default();
}

/// Notes the owners of sessions that requests come to, for [`ServerBuilder::peer_transport`](crate::ServerBuilder::peer_transport): give the returned store to
/// the chat. A store of one process has no other owners.
pub fn note_session_owners<S: Journal + JournalMaintenance>(
    store: S,
) -> impl Journal + JournalMaintenance + use<S> {
    OwnerNotingStore(store)
}

#[derive(Debug)]
struct OwnerNotingStore<S>(S);

impl<S: Journal + JournalMaintenance> JournalLayer for OwnerNotingStore<S> {
    type Journal = S;

    fn inner_journal(&self) -> &S {
        &self.0
    }

    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        Box::pin(async move {
            let acquired = self.0.acquire(key).await;
            match &acquired {
                Ok(_) => note_owner(SessionOwner::ThisServer),
                Err(Error::HeldElsewhere { address: Some(address), .. }) => {
                    note_owner(SessionOwner::Other(address.clone()));
                }
                Err(_) => {}
            }
            acquired
        })
    }

    fn check_session_lease<'a>(
        &'a self,
        key: &'a SessionKey,
        fence: FencingToken,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.0.check_lease(key, fence).await?;
            note_owner(SessionOwner::ThisServer);
            Ok(())
        })
    }
}

impl<S: Journal + JournalMaintenance> MaintenanceLayer for OwnerNotingStore<S> {
    type Maintenance = S;

    fn inner_maintenance(&self) -> &S {
        &self.0
    }
}

/// Makes tasks that are started for a request belong to it, so that the owners that they come to are noted: give the
/// returned spawner to the chat.
#[must_use]
pub fn spawn_for_requests(spawner: Arc<dyn Spawner>) -> Arc<dyn Spawner> {
    Arc::new(RequestSpawner(spawner))
}

#[derive(Debug)]
struct RequestSpawner(Arc<dyn Spawner>);

impl Spawner for RequestSpawner {
    fn spawn_task(&self, task: singletree_env::BoxFuture<'static, ()>) {
        let task = match OWNER_FOUND.try_with(Arc::clone) {
            Ok(found) => Box::pin(OWNER_FOUND.scope(found, task)),
            Err(_) => task,
        };
        self.0.spawn_task(task);
    }
}

/// Runs a request; one for a session of another server is sent there, where that is possible. Its body is kept for that, up
/// to `body_max` bytes: as many as a request may have. A larger one is that of a blob, which needs no owner.
pub(crate) async fn run_or_forward(
    peers: Option<Peers<'_>>,
    request: Request,
    (next, request_id): (Next, &str),
) -> Response {
    let Some(Peers { transport, body_max }) = peers.filter(|_| !request.headers().contains_key(FORWARDED))
    else {
        return next.run(request).await;
    };
    let (request, kept) = keep_request(request, body_max).await;
    let Some(kept) = kept else { return next.run(request).await };
    let found = OwnerFound::default();
    let answer = OWNER_FOUND.scope(found.clone(), next.run(request)).await;
    let owner = lock_owner(&found).take();
    let Some(SessionOwner::Other(owner)) = owner else { return answer };
    // The request has been done, and the session was that of other work. A stream that has begun has done nothing yet.
    if answer.status().is_success() && !is_event_stream(&answer) {
        return answer;
    }
    let repeats_safely =
        kept.method != Method::Post || kept.headers.iter().any(|(name, _)| name == IDEMPOTENCY_KEY);
    match send_to_owner(transport.as_ref(), &owner, (kept, request_id)).await {
        // The servers do not know the same callers; the one from here was admitted.
        Ok(forwarded) if forwarded.status() == StatusCode::UNAUTHORIZED => answer,
        Ok(forwarded) => forwarded,
        // The owner may have died: the answer from here says when to try again.
        Err(singletree_http::Error::Unreachable { .. }) => answer,
        Err(_) if repeats_safely => answer,
        Err(_) => broken_off_problem().into_response(),
    }
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

/// Keeps a copy of a request, unless its body is too large or breaks off.
async fn keep_request(request: Request, body_max: usize) -> (Request, Option<HttpRequest>) {
    let (parts, body) = request.into_parts();
    let (mut kept, mut pieces) = (Vec::new(), body.into_data_stream());
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) if kept.len() + piece.len() <= body_max => kept.extend_from_slice(&piece),
            piece => {
                let read = once(async move { Ok(Bytes::from(kept)) });
                let body = Body::from_stream(read.chain(once(async move { piece })).chain(pieces));
                return (Request::from_parts(parts, body), None);
            }
        }
    }
    let kept = Bytes::from(kept);
    let copy = copy_head(&parts, kept.clone());
    (Request::from_parts(parts, Body::from(kept)), copy)
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
    peers: &dyn Transport,
    owner: &str,
    (mut kept, request_id): (HttpRequest, &str),
) -> singletree_http::Result<Response> {
    kept.url.insert_str(0, owner.trim_end_matches('/'));
    kept.headers.push((FORWARDED.to_owned(), "1".to_owned()));
    kept.headers.push((request_id::HEADER.to_owned(), request_id.to_owned()));
    let answer = peers.send(kept).await?;
    let mut response = Response::new(Body::from_stream(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for (name, value) in answer.headers {
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
