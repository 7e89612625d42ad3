//! Tests of sending requests on, with another server that is played.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::to_bytes;
use axum::http::{Method as HttpMethod, StatusCode};
use axum::middleware::from_fn;
use futures_util::stream;
use singletree_durable::{
    AcquiredSession, BoxFuture, Error, Journal, JournalLayer, MaintenanceLayer, MemoryStore, Result,
    SessionId, SessionKey, TenantId,
};
use singletree_env::{RandomIds, TokioSpawner};
use singletree_harness::{ErroredTurn, FailureBucket};
use singletree_http::HttpResponse;
use singletree_llm::ChatMessage;
use tower::ServiceExt;

use super::*;

/// How many bytes of a body are kept.
const BODY_MAX: usize = 1000;

/// Waits for no time, and lets other work go on.
#[derive(Debug)]
struct YieldingTimer;

impl Timer for YieldingTimer {
    fn sleep_for(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(tokio::task::yield_now())
    }
}

/// A store of which the session `s` is another server's, and `moves` for so long.
#[derive(Debug)]
struct AwayStore(MemoryStore, AtomicUsize);

impl JournalLayer for AwayStore {
    type Journal = MemoryStore;

    fn inner_journal(&self) -> &MemoryStore {
        &self.0
    }

    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        let is_left = |count: usize| count.checked_sub(1);
        let is_away = match key.session.as_str() {
            "s" => true,
            "moves" => self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_left).is_ok(),
            _ => false,
        };
        if !is_away {
            return self.0.acquire(key);
        }
        let address = Some("http://owner:8787/".to_owned());
        let held = Error::HeldElsewhere { key: key.clone(), node: "owner".to_owned(), address };
        Box::pin(std::future::ready(Err(held)))
    }
}

impl MaintenanceLayer for AwayStore {
    type Maintenance = MemoryStore;

    fn inner_maintenance(&self) -> &MemoryStore {
        &self.0
    }
}

/// The other server: answers with what it was asked, or cannot be reached.
#[derive(Debug)]
struct Owner {
    asked: Mutex<Vec<HttpRequest>>,
    fails: Option<Failure>,
    /// How often it fails.
    times: usize,
}

/// How the other server fails.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Unreachable,
    Broken,
    /// It does not know the caller.
    Unauthorized,
    /// It is about to end.
    Moving,
    /// It stands still before it answers.
    Silent,
    /// It stands still within its answer.
    SilentWithin,
}

/// Knows whether the other server stands still now.
#[derive(Debug)]
struct StandingStill(Arc<Owner>);

impl NodeDirectory for StandingStill {
    fn list_nodes(&self) -> BoxFuture<'_, Result<Vec<singletree_protocol::native::Node>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn has_died(&self, address: &str) -> bool {
        let fails = matches!(self.0.fails, Some(Failure::Silent | Failure::SilentWithin));
        fails && self.0.asked.lock().unwrap().len() <= self.0.times && address == "http://owner:8787/"
    }
}

impl Transport for Owner {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        let body = request.body.clone();
        let before = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(request);
            asked.len() - 1
        };
        let fails = self.fails.filter(|_| before < self.times);
        Box::pin(async move {
            let (host, source) = ("owner".to_owned(), "connection reset".into());
            let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let mut headers =
                vec![header("content-type", "text/event-stream"), header("connection", "close")];
            let status = match fails {
                Some(Failure::Unreachable) => {
                    return Err(singletree_http::Error::Unreachable { host, source });
                }
                Some(Failure::Broken) => return Err(singletree_http::Error::Broken { host, source }),
                Some(Failure::Silent) => std::future::pending().await,
                Some(Failure::SilentWithin) => 200,
                Some(Failure::Unauthorized) => 401,
                Some(Failure::Moving) => {
                    headers.push(header(MOVING, "1"));
                    503
                }
                None => 201,
            };
            let body: Vec<_> = body.chunks(4).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            let silence = stream::pending().take(usize::from(status == 200));
            Ok(HttpResponse { status, headers, body: Box::pin(stream::iter(body).chain(silence)) })
        })
    }
}

/// A server of which each request to `/away` comes to a session of another one, in its own task or in one of its own. Those to
/// `/moves` come to one that is its own after a while.
fn router(owner: &Arc<Owner>, key_use: KeyUse) -> Router {
    let peers: Arc<dyn Transport> = owner.clone();
    let nodes: Arc<dyn NodeDirectory> = Arc::new(StandingStill(owner.clone()));
    let earlier = MemoryStore::new();
    let store = Arc::new(note_session_owners(AwayStore(earlier.clone(), AtomicUsize::new(MOVES))));
    let spawner = spawn_for_requests(Arc::new(TokioSpawner));
    let here = move |request: Request| async move {
        let path = request.uri().path().to_owned();
        let key = request.headers().get(IDEMPOTENCY_KEY).cloned();
        let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let name = |session: &str| SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap());
        let (own, other) = (name("own"), name(if path.starts_with("/moves") { "moves" } else { "s" }));
        // Held since an earlier request.
        let fence = earlier.acquire(&own).await.unwrap().fence;
        let beside = store.clone();
        let acquiring = async move { beside.acquire(&other).await.map(|_| ()) };
        let acquired = match path.as_str() {
            "/away" | "/done" | "/moves" | "/moves/refused" | "/stream" | "/named" | "/unnamed" => {
                acquiring.await
            }
            "/acquired/away" => {
                store.acquire(&own).await.unwrap();
                acquiring.await
            }
            "/held/away" => {
                store.check_lease(&own, fence).await.unwrap();
                acquiring.await
            }
            "/away/task" => {
                let (told, heard) = tokio::sync::oneshot::channel();
                spawner.spawn_task(Box::pin(async move { drop(told.send(acquiring.await)) }));
                heard.await.unwrap()
            }
            _ => Ok(()),
        };
        if path == "/moves/refused" && acquired.is_ok() {
            return RequestProblem::from_chat_category("chat_shutting_down", "it ends").into_response();
        }
        let refuses_within = path == "/named" || path == "/unnamed";
        let is_done = acquired.is_ok() || path == "/done" || path == "/stream" || refuses_within;
        let status = if is_done { StatusCode::OK } else { StatusCode::CONFLICT };
        let mut answer = (status, format!("here: {} bytes", body.len())).into_response();
        if path == "/stream" {
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        }
        if refuses_within {
            let refusal = BodyRefusal { is_for_now: true, is_repeatable: path == "/named" };
            answer.extensions_mut().insert(refusal);
        }
        if let Some(key) = key {
            answer.headers_mut().insert("key", key);
            answer.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        }
        answer
    };
    Router::new().fallback(here).layer(from_fn(move |request: Request, next: Next| {
        let (peers, nodes) = (peers.clone(), nodes.clone());
        async move {
            let (timer, ids): (Arc<dyn Timer>, Arc<dyn IdGenerator>) =
                (Arc::new(YieldingTimer), Arc::new(RandomIds));
            let (transport, nodes) = (&peers, Some(&nodes));
            let peers = Peers { transport, nodes, body_max: BODY_MAX, timer: &timer, ids: &ids, key_use };
            run_or_forward(Some(peers), request, (next, "request-1")).await
        }
    }))
}

/// How often a session that moves is another server's before it is here.
const MOVES: usize = 3;

struct Told {
    status: u16,
    kind: Option<String>,
    connection: bool,
    headers: HeaderMap,
    problem: Option<RequestProblem>,
    text: String,
}

async fn ask(owner: &Arc<Owner>, path: &str, body: &str, headers: &[(&str, &str)]) -> Told {
    ask_route((owner, KeyUse::OfProtocol), path, body, headers).await
}

/// As [`ask`], of a route that does this with an idempotency key.
async fn ask_route(
    (owner, key_use): (&Arc<Owner>, KeyUse),
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> Told {
    let mut request = Request::new(Body::from(body.to_owned()));
    *request.method_mut() = if body.is_empty() { HttpMethod::GET } else { HttpMethod::POST };
    *request.uri_mut() = path.parse().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    let answer = router(owner, key_use).oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let kind = parts.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    let text = to_bytes(body, usize::MAX).await.unwrap();
    Told {
        status: parts.status.as_u16(),
        kind,
        connection: parts.headers.contains_key("connection"),
        problem: parts.extensions.get().cloned(),
        headers: parts.headers,
        text: String::from_utf8(text.to_vec()).unwrap(),
    }
}

fn owner(fails: Option<Failure>) -> Arc<Owner> {
    fails_for(usize::MAX, fails)
}

fn fails_for(times: usize, fails: Option<Failure>) -> Arc<Owner> {
    Arc::new(Owner { asked: Mutex::default(), fails, times })
}

#[tokio::test]
async fn a_request_for_a_session_of_another_server_is_answered_by_it() {
    for path in ["/away?x=1", "/away/task"] {
        let owner = owner(None);
        let sent = [
            ("authorization", "Bearer key"),
            ("host", "edge"),
            ("origin", "https://page"),
            ("accept-encoding", "gzip"),
            ("x-request-id", "chosen"),
            ("idempotency-key", "k"),
        ];
        let told = ask(&owner, path, "what is said", &sent).await;
        let expected = (201, Some("text/event-stream".to_owned()), false, "what is said".to_owned());
        assert_eq!((told.status, told.kind, told.connection, told.text), expected, "{path}");
        let asked = owner.asked.lock().unwrap();
        assert_eq!((asked.len(), asked[0].method), (1, Method::Post));
        assert_eq!(asked[0].url, format!("http://owner:8787{path}"));
        let mut headers = asked[0].headers.clone();
        headers.sort();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("authorization", "Bearer key"),
            ("idempotency-key", "k"),
            ("singletree-forwarded", "1"),
            ("x-request-id", "request-1"),
        ];
        assert_eq!(headers, expected);
    }
}

#[tokio::test]
async fn what_is_not_another_servers_is_answered_here() {
    let owner = owner(None);
    let told = ask(&owner, "/here", "what is said", &[]).await;
    assert_eq!((told.status, told.text.as_str()), (200, "here: 12 bytes"));
    // One hop, whatever the other server thinks.
    let told = ask(&owner, "/away", "what is said", &[(FORWARDED, "1")]).await;
    assert_eq!((told.status, told.text.as_str()), (409, "here: 12 bytes"));
    // Another session that the work comes to later is not that of the request; nor is one without which it was done.
    for path in ["/acquired/away", "/held/away"] {
        let told = ask(&owner, path, "what is said", &[]).await;
        assert_eq!((told.status, told.text.as_str()), (409, "here: 12 bytes"), "{path}");
    }
    let told = ask(&owner, "/done", "what is said", &[]).await;
    assert_eq!((told.status, told.text.as_str()), (200, "here: 12 bytes"));
    // A large body is not kept, and arrives here whole.
    let large = "x".repeat(BODY_MAX + 1);
    let told = ask(&owner, "/away", &large, &[]).await;
    assert_eq!((told.status, told.text), (409, format!("here: {} bytes", BODY_MAX + 1)));
    assert!(owner.asked.lock().unwrap().is_empty());
}

/// How often a session that goes to another server is asked for.
const TRIES_MIN: usize = 20;

#[tokio::test]
async fn where_the_owner_cannot_be_reached_or_refuses_the_caller_the_refusal_from_here_is_told() {
    for (fails, tries) in [(Failure::Unreachable, TRIES_MIN..2 * TRIES_MIN), (Failure::Unauthorized, 1..2)] {
        let owner = owner(Some(fails));
        let told = ask(&owner, "/away", "what is said", &[]).await;
        assert_eq!((told.status, told.text.as_str()), (409, "here: 12 bytes"), "{fails:?}");
        let asked = owner.asked.lock().unwrap().len();
        assert!(tries.contains(&asked), "{fails:?}: {asked}");
    }
}

// INV-2: the refusal from here would say that it may be sent again.
#[tokio::test]
async fn a_message_that_its_owner_may_have_accepted_is_not_told_as_refused() {
    for fails in [Failure::Broken, Failure::Silent] {
        let owner = owner(Some(fails));
        let told = ask(&owner, "/away", "what is said", &[]).await;
        assert_eq!(
            (told.status, told.text.as_str()),
            (503, ""),
            "the problem is rendered by the request layer"
        );
        assert_eq!(owner.asked.lock().unwrap().len(), 1, "it is not sent again");
        let keyed = ask(&owner, "/away", "what is said", &[("idempotency-key", "k")]).await;
        assert_eq!((keyed.status, keyed.text.as_str()), (409, "here: 12 bytes"));
        // A route that knows nothing of keys would do it twice.
        let asked = owner.asked.lock().unwrap().len();
        let keyed =
            ask_route((&owner, KeyUse::None), "/away", "what is said", &[("idempotency-key", "k")]).await;
        assert_eq!((keyed.status, keyed.text.as_str()), (503, ""));
        assert_eq!(owner.asked.lock().unwrap().len(), asked + 1, "it is not sent again");
        // With the server's own key it is sent again, and its caller knows no key.
        for path in ["/away", "/moves/refused"] {
            let told = ask_route((&owner, KeyUse::Documented), path, "what is said", &[]).await;
            assert_eq!((told.status, told.text.as_str()), (503, ""), "{path}");
            let problem = told.problem.map(|problem| problem.category);
            assert_eq!(problem.as_deref(), Some("chat_accept_unknown"), "{path}");
        }
    }
}

#[tokio::test]
async fn a_request_is_tried_again_until_its_session_has_an_owner_that_stays() {
    for fails in [Failure::Unreachable, Failure::Broken, Failure::Moving, Failure::Silent] {
        let owner = fails_for(3, Some(fails));
        let told = ask_route((&owner, KeyUse::Documented), "/away", "what is said", &[]).await;
        assert_eq!((told.status, told.text.as_str()), (201, "what is said"), "{fails:?}");
        let asked = owner.asked.lock().unwrap();
        let key = |asked: &HttpRequest| {
            asked.headers.iter().find(|(name, _)| name == IDEMPOTENCY_KEY).map(|(_, key)| key.clone())
        };
        let keys: Vec<String> = asked.iter().filter_map(key).collect();
        assert_eq!((asked.len(), keys.len()), (4, 4), "{fails:?}");
        assert!(keys.iter().all(|key| *key == keys[0] && key.len() > 30), "{keys:?}");
    }
    // The refusal of one that is about to end is told when the time is over, without its mark.
    let owner = owner(Some(Failure::Moving));
    let told = ask(&owner, "/away", "what is said", &[]).await;
    assert_eq!((told.status, told.headers.contains_key(MOVING)), (503, false));
    assert!(owner.asked.lock().unwrap().len() > TRIES_MIN);
}

// A stream that only reads shows the log; one that carries a message has said nothing yet but that the session is elsewhere.
#[tokio::test]
async fn a_stream_that_reads_waits_for_no_owner() {
    for (fails, body, tries) in [
        (Failure::Unreachable, "", 1..2),
        (Failure::Broken, "", 1..2),
        (Failure::Moving, "", 1..2),
        (Failure::Unreachable, "what is said", TRIES_MIN..2 * TRIES_MIN),
    ] {
        let owner = owner(Some(fails));
        let told = ask(&owner, "/stream", body, &[]).await;
        assert_eq!((told.status, told.text), (200, format!("here: {} bytes", body.len())), "{fails:?}");
        let asked = owner.asked.lock().unwrap().len();
        assert!(tries.contains(&asked), "{fails:?}: {asked}");
        let reached = ask(&fails_for(0, None), "/stream", body, &[]).await;
        assert_eq!(reached.status, 201);
    }
}

#[tokio::test]
async fn a_session_that_comes_here_meanwhile_is_served_here() {
    for (sent, drawn) in [(&[][..], true), (&[("idempotency-key", "k")][..], false)] {
        let owner = owner(Some(Failure::Unreachable));
        let told = ask_route((&owner, KeyUse::Documented), "/moves", "what is said", sent).await;
        assert_eq!((told.status, told.text.as_str()), (200, "here: 12 bytes"));
        assert_eq!(owner.asked.lock().unwrap().len(), MOVES);
        // The same key went to the owner; who has sent none is not told that the answer is one to a repeated request.
        let asked = owner.asked.lock().unwrap()[0].headers.clone();
        let key = told.headers["key"].to_str().unwrap();
        assert!(asked.contains(&(IDEMPOTENCY_KEY.to_owned(), key.to_owned())), "{asked:?}");
        assert_eq!(told.headers.contains_key(IDEMPOTENT_REPLAYED), !drawn);
    }
}

// As OpenHarness refuses.
#[tokio::test]
async fn a_request_that_is_refused_under_a_status_of_success_is_sent_on() {
    for (path, again) in [("/named", true), ("/unnamed", false)] {
        let told = ask(&owner(None), path, "what is said", &[]).await;
        assert_eq!((told.status, told.text.as_str()), (201, "what is said"), "{path}");
        // One that names itself is sent again, when it is not known whether it was done.
        let owner = fails_for(2, Some(Failure::Broken));
        let told = ask(&owner, path, "what is said", &[]).await;
        let category = told.problem.map(|problem| problem.category);
        let expected = if again { (201, None, 3) } else { (503, Some("chat_accept_unknown".to_owned()), 1) };
        assert_eq!((told.status, category, owner.asked.lock().unwrap().len()), expected, "{path}");
    }
    let sent_on = ForwardedRequest { has_key: false };
    for (is_for_now, asked) in [(true, Some(&sent_on)), (false, Some(&sent_on)), (true, None)] {
        let mut answer = Response::new(Body::empty());
        answer.extensions_mut().insert(BodyRefusal { is_for_now, is_repeatable: false });
        let is_marked = mark_answer(asked, answer).headers().contains_key(MOVING);
        assert_eq!(is_marked, is_for_now && asked.is_some());
    }
}

#[test]
fn only_a_refusal_that_may_be_tried_elsewhere_is_marked() {
    let mark = |category: &str, headers: &[(&'static str, &'static str)]| {
        let named = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let asked = ForwardedRequest::from_headers(&headers.iter().map(named).collect())?;
        let mut answer = Response::new(Body::empty());
        mark_refusal(&RequestProblem::from_chat_category(category, "why"), &asked, &mut answer);
        Some(answer.headers().contains_key(MOVING))
    };
    let forwarded = (FORWARDED, "1");
    assert_eq!(mark("session_moving", &[forwarded]), Some(true));
    assert_eq!(mark("chat_shutting_down", &[forwarded, (IDEMPOTENCY_KEY, "k")]), Some(true));
    assert_eq!(mark("chat_turn_unknown", &[forwarded]), Some(false));
    assert_eq!(mark("session_moving", &[]), None);
    // A turn was accepted: without a key it would be a second one.
    let accepted = ErroredTurn {
        turn: Some("6f2c1b9e-0b1f-4c55-9d0f-0b8d4f0f5a3c".parse().unwrap()),
        error_bucket: FailureBucket::RetryableTransient,
        error_category: "chat_shutting_down".to_owned(),
        reply: ChatMessage::system("later"),
        diagnostic: "it ends".to_owned(),
        retry_safe: false,
        recorded: true,
        retry_after: None,
    };
    for (headers, is_marked) in [(vec![forwarded], false), (vec![forwarded, (IDEMPOTENCY_KEY, "k")], true)] {
        let named = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let asked = ForwardedRequest::from_headers(&headers.iter().map(named).collect()).unwrap();
        let mut answer = Response::new(Body::empty());
        mark_refusal(&RequestProblem::from_errored_turn(&accepted), &asked, &mut answer);
        assert_eq!(answer.headers().contains_key(MOVING), is_marked);
    }
}

// Whoever reads a stream comes back, as behind a server that was killed.
#[tokio::test]
async fn an_answer_of_a_server_that_stands_still_is_broken_off() {
    let owner = owner(Some(Failure::SilentWithin));
    let mut request = Request::new(Body::from("what is said"));
    (*request.method_mut(), *request.uri_mut()) = (HttpMethod::POST, "/away".parse().unwrap());
    let answer = router(&owner, KeyUse::OfProtocol).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let pieces: Vec<_> = answer.into_body().into_data_stream().collect().await;
    let (last, before) = pieces.split_last().unwrap();
    assert!(last.is_err(), "{last:?}");
    // The pieces that have come, as far as they came before.
    assert!(before.iter().all(std::result::Result::is_ok), "{before:?}");
}
