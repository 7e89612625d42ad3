//! Tests of sending requests on, with another server that is played.

use axum::Router;
use axum::body::to_bytes;
use axum::http::{Method as HttpMethod, StatusCode};
use axum::middleware::from_fn;
use futures_util::stream;
use singletree_durable::{MemoryStore, SessionId, TenantId};
use singletree_env::TokioSpawner;
use singletree_http::HttpResponse;
use tower::ServiceExt;

use super::*;

/// A store of which the session `s` is another server's.
/// How many bytes of a body are kept.
const BODY_MAX: usize = 1000;

#[derive(Debug)]
struct AwayStore(MemoryStore);

impl JournalLayer for AwayStore {
    type Journal = MemoryStore;

    fn inner_journal(&self) -> &MemoryStore {
        &self.0
    }

    fn acquire_session<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<AcquiredSession>> {
        if key.session.as_str() != "s" {
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
}

/// How the other server fails.
#[derive(Debug, Clone, Copy)]
enum Failure {
    Unreachable,
    Broken,
    /// It does not know the caller.
    Unauthorized,
}

impl Transport for Owner {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        let body = request.body.clone();
        self.asked.lock().unwrap().push(request);
        Box::pin(async move {
            let (host, source) = ("owner".to_owned(), "connection reset".into());
            match self.fails {
                Some(Failure::Unreachable) => {
                    return Err(singletree_http::Error::Unreachable { host, source });
                }
                Some(Failure::Broken) => return Err(singletree_http::Error::Broken { host, source }),
                Some(Failure::Unauthorized) | None => {}
            }
            let status = if self.fails.is_some() { 401 } else { 201 };
            let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            let headers = vec![header("content-type", "text/event-stream"), header("connection", "close")];
            let body: Vec<_> = body.chunks(4).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
            Ok(HttpResponse { status, headers, body: Box::pin(stream::iter(body)) })
        })
    }
}

/// A server of which each request to `/away` comes to a session of another one, in its own task or in one of its own.
fn router(owner: &Arc<Owner>) -> Router {
    let peers: Arc<dyn Transport> = owner.clone();
    let earlier = MemoryStore::new();
    let store = Arc::new(note_session_owners(AwayStore(earlier.clone())));
    let spawner = spawn_for_requests(Arc::new(TokioSpawner));
    let here = move |request: Request| async move {
        let path = request.uri().path().to_owned();
        let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
        let key = |session: &str| SessionKey::new(TenantId::single(), SessionId::parse(session).unwrap());
        let (own, other) = (key("own"), key("s"));
        // Held since an earlier request.
        let fence = earlier.acquire(&own).await.unwrap().fence;
        let beside = store.clone();
        let acquiring = async move { beside.acquire(&other).await.map(|_| ()) };
        let acquired = match path.as_str() {
            "/away" | "/done" => acquiring.await,
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
        let status = if acquired.is_ok() || path == "/done" { StatusCode::OK } else { StatusCode::CONFLICT };
        (status, format!("here: {} bytes", body.len()))
    };
    Router::new().fallback(here).layer(from_fn(move |request: Request, next: Next| {
        let peers = peers.clone();
        async move {
            run_or_forward(
                Some(Peers { transport: &peers, body_max: BODY_MAX }),
                request,
                (next, "request-1"),
            )
            .await
        }
    }))
}

struct Told {
    status: u16,
    kind: Option<String>,
    connection: bool,
    text: String,
}

async fn ask(owner: &Arc<Owner>, path: &str, body: &str, headers: &[(&str, &str)]) -> Told {
    let mut request = Request::new(Body::from(body.to_owned()));
    *request.method_mut() = HttpMethod::POST;
    *request.uri_mut() = path.parse().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    let answer = router(owner).oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let kind = parts.headers.get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    let text = to_bytes(body, usize::MAX).await.unwrap();
    Told {
        status: parts.status.as_u16(),
        kind,
        connection: parts.headers.contains_key("connection"),
        text: String::from_utf8(text.to_vec()).unwrap(),
    }
}

fn owner(fails: Option<Failure>) -> Arc<Owner> {
    Arc::new(Owner { asked: Mutex::default(), fails })
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

#[tokio::test]
async fn where_the_owner_cannot_be_reached_or_refuses_the_caller_the_refusal_from_here_is_told() {
    for fails in [Failure::Unreachable, Failure::Unauthorized] {
        let owner = owner(Some(fails));
        let told = ask(&owner, "/away", "what is said", &[]).await;
        assert_eq!((told.status, told.text.as_str()), (409, "here: 12 bytes"), "{fails:?}");
        assert_eq!(owner.asked.lock().unwrap().len(), 1);
    }
}

// INV-2: the refusal from here would say that it may be sent again.
#[tokio::test]
async fn a_message_that_its_owner_may_have_accepted_is_not_told_as_refused() {
    let owner = owner(Some(Failure::Broken));
    let told = ask(&owner, "/away", "what is said", &[]).await;
    assert_eq!((told.status, told.text.as_str()), (503, ""), "the problem is rendered by the request layer");
    let keyed = ask(&owner, "/away", "what is said", &[("idempotency-key", "k")]).await;
    assert_eq!((keyed.status, keyed.text.as_str()), (409, "here: 12 bytes"));
}
