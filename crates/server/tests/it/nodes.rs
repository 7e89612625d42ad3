//! The list of the servers that share a database.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::json;
use singletree_durable::{BoxFuture, Result, SessionKey};
use singletree_env::RuntimeTimer;
use singletree_http::{HttpRequest, HttpResponse, Transport};
use singletree_protocol::native::Node;
use singletree_server::NodeDirectory;

use crate::support::Rig;
use crate::support::rig::within;

/// Two servers, one of which died.
#[derive(Debug)]
struct TwoNodes;

impl NodeDirectory for TwoNodes {
    fn list_nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        let node = |incarnation: u64, address: Option<&str>, lease_left_ms: u64| Node {
            incarnation,
            name: "singletree serve".into(),
            address: address.map(str::to_owned),
            alive: lease_left_ms > 0,
            lease_left_ms,
            sessions: incarnation,
            draining: incarnation > 1,
        };
        let nodes = vec![node(1, Some("https://one.example"), 4000), node(2, None, 0)];
        Box::pin(std::future::ready(Ok(nodes)))
    }
}

#[tokio::test]
async fn the_operator_alone_lists_the_servers() {
    let rig = Rig::builder().server(|it| it.node_directory(Arc::new(TwoNodes))).start().await;
    let listed = rig.operator().get("/v1/nodes").await;
    let expected = json!({ "items": [
        { "incarnation": 1, "name": "singletree serve", "address": "https://one.example", "alive": true,
          "lease_left_ms": 4000, "sessions": 1, "draining": false },
        { "incarnation": 2, "name": "singletree serve", "alive": false, "lease_left_ms": 0, "sessions": 2, "draining": true },
    ] });
    assert_eq!((listed.status, listed.json()), (200, expected));
    let refused = rig.client().get("/v1/nodes").await;
    assert_eq!((refused.status, &refused.json()["error"]["category"]), (403, &json!("server_forbidden")));
    rig.stop().await;
}

#[tokio::test]
async fn a_server_that_has_its_database_alone_lists_none() {
    let rig = Rig::start().await;
    let listed = rig.operator().get("/v1/nodes").await;
    assert_eq!((listed.status, listed.json()), (200, json!({ "items": [] })));
    rig.stop().await;
}

/// Another server, which has every session from some time on; nobody reaches it.
#[derive(Debug, Default)]
struct Elsewhere {
    owner: Mutex<Option<String>>,
    /// The addresses at which it was asked.
    asked: Mutex<Vec<String>>,
    /// How often somebody looked who has a session.
    looks: AtomicUsize,
}

impl Elsewhere {
    fn own_all(&self, address: &str) {
        *self.owner.lock().unwrap() = Some(address.to_owned());
    }
}

impl NodeDirectory for Elsewhere {
    fn list_nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn find_owner<'a>(&'a self, _: &'a SessionKey) -> BoxFuture<'a, Result<Option<String>>> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(self.owner.lock().unwrap().clone())))
    }
}

impl Transport for Elsewhere {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        self.asked.lock().unwrap().push(request.url);
        let unreachable = singletree_http::Error::Unreachable {
            host: "one".to_owned(),
            source: "connection refused".into(),
        };
        Box::pin(std::future::ready(Err(unreachable)))
    }
}

// A stream that shows the log ends with the hint to come back when another server has its session: that one has the pieces of
// answers. One that cannot be reached ends none.
#[tokio::test]
async fn who_follows_a_session_comes_back_when_another_server_has_it() {
    let elsewhere = Arc::new(Elsewhere::default());
    let others = elsewhere.clone();
    let rig = Rig::builder().server(move |it| {
        let it = it.shared_store(true).node_directory(others.clone()).peer_transport(others);
        it.delivery_timer(Arc::new(RuntimeTimer))
    });
    let rig = rig.start().await;
    let client = rig.client();
    assert_eq!(client.post("/v1/sessions", &json!({ "id": "s" })).await.status, 201);
    for path in ["/v1/sessions/s/events", "/v1/chats/s/events", "/v1/sessions/s/narration"] {
        *elsewhere.owner.lock().unwrap() = None;
        let mut events = client.events(path, None).await;
        assert_eq!((events.status, elsewhere.asked.lock().unwrap().len()), (200, 0), "{path}");
        elsewhere.own_all("http://one");
        within(events.rest()).await;
        assert!(events.raw.ends_with("retry: 10\n\n"), "{path}: {}", events.raw);
        let mut again = client.events(path, None).await;
        assert_eq!(again.status, 200, "{path}");
        let asked = std::mem::take(&mut *elsewhere.asked.lock().unwrap());
        assert_eq!(asked, [format!("http://one{path}")], "it is tried once");
        // It goes on while that one has the session.
        let looks = elsewhere.looks.load(Ordering::SeqCst);
        let looks_again = async {
            while elsewhere.looks.load(Ordering::SeqCst) < looks + 2 {
                tokio::task::yield_now().await;
            }
        };
        within(looks_again).await;
        // The next one may be reached.
        elsewhere.own_all("http://two");
        within(again.rest()).await;
        assert!(again.raw.ends_with("retry: 10\n\n"), "{path}: {}", again.raw);
        elsewhere.asked.lock().unwrap().clear();
    }
    rig.stop().await;
}

/// Another server, which has every session, and breaks off within each stream.
#[derive(Debug)]
struct BreakingOff {
    /// Sent before that.
    sends: &'static str,
    headers: Vec<(&'static str, &'static str)>,
}

impl NodeDirectory for BreakingOff {
    fn list_nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn find_owner<'a>(&'a self, _: &'a SessionKey) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(Some("http://one".to_owned()))))
    }
}

impl Transport for BreakingOff {
    fn send(&self, _: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        let broken =
            singletree_http::Error::Broken { host: "one".to_owned(), source: "it was killed".into() };
        let sent = stream::once(std::future::ready(Ok(self.sends.into())));
        // The bytes before have gone on.
        let then_broken = stream::once(async {
            tokio::task::yield_now().await;
            Err(broken)
        });
        let kind = [("content-type", "text/event-stream")];
        let named = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let answer = HttpResponse {
            status: 200,
            headers: kind.into_iter().chain(self.headers.clone()).map(named).collect(),
            body: Box::pin(sent.chain(then_broken)),
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

// A clean end would look like a complete answer.
#[tokio::test]
async fn a_stream_of_a_server_that_breaks_off_ends_by_its_own_protocol_or_is_cut_off() {
    let resumable = vec![("singletree-resumable", "1")];
    let cases = [
        ("data: {}\n\n", resumable.clone(), "data: {}\n\nretry: 1000\n\n", false),
        ("data: {}\n\n", Vec::new(), "\"type\":\"stream.failed\"", false),
        ("data: {}\n\ndata: {\"te", resumable, "data: {}\n\n", true),
        ("data: {}\n\ndata: {\"te", Vec::new(), "data: {}\n\n", true),
    ];
    for (sends, headers, expected, is_cut_off) in cases {
        let other = Arc::new(BreakingOff { sends, headers });
        let rig = Rig::builder().server(move |it| {
            let it = it.shared_store(true).node_directory(other.clone()).peer_transport(other);
            it.delivery_timer(Arc::new(RuntimeTimer))
        });
        let rig = rig.start().await;
        assert_eq!(rig.client().post("/v1/sessions", &json!({ "id": "s" })).await.status, 201);
        let mut events = rig.client().events("/v1/sessions/s/events", None).await;
        assert_eq!(events.headers.get("singletree-resumable"), None);
        within(events.rest()).await;
        assert!(events.raw.contains(expected), "{}", events.raw);
        assert_eq!((events.is_cut_off, events.raw.ends_with("\n\n")), (is_cut_off, true), "{}", events.raw);
        assert!(!events.raw.contains("\"te"), "{}", events.raw);
        rig.stop().await;
    }
}

/// Another server, which has every session, and answers every request in the same way.
#[derive(Debug)]
struct Answering(Mutex<Vec<HttpRequest>>);

impl NodeDirectory for Answering {
    fn list_nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn find_owner<'a>(&'a self, _: &'a SessionKey) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(std::future::ready(Ok(Some("http://one".to_owned()))))
    }
}

impl Transport for Answering {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, singletree_http::Result<HttpResponse>> {
        self.0.lock().unwrap().push(request);
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let body = Box::pin(stream::iter([Ok("\"of the owner\"".into())]));
        Box::pin(std::future::ready(Ok(HttpResponse { status: 200, headers, body })))
    }
}

// The narration is in the memory of the server that owns the session.
#[tokio::test]
async fn what_was_narrated_is_read_and_deleted_at_the_server_that_owns_the_session() {
    let path = "/v1/sessions/s/narration";
    let unreached = Arc::new(Elsewhere::default());
    unreached.own_all("http://one");
    let answering = Arc::new(Answering(Mutex::default()));
    let directories: [Arc<dyn NodeDirectory>; 2] = [unreached.clone(), answering.clone()];
    let transports: [Arc<dyn Transport>; 2] = [unreached.clone(), answering.clone()];
    for (directory, transport) in directories.into_iter().zip(transports) {
        let rig = Rig::builder().server(move |it| {
            let it =
                it.shared_store(true).node_directory(directory.clone()).peer_transport(transport.clone());
            it.delivery_timer(Arc::new(RuntimeTimer))
        });
        let rig = rig.start().await;
        let read = rig.client().get(path).await;
        let deleted = rig.client().delete(path).await;
        if unreached.asked.lock().unwrap().drain(..).count() == 2 {
            assert_eq!(
                (&read.json()["items"], deleted.status),
                (&json!([]), 204),
                "its own, without the owner"
            );
        } else {
            assert_eq!((read.json(), deleted.status), (json!("of the owner"), 200));
        }
        rig.stop().await;
    }
    let methods: Vec<_> = answering.0.lock().unwrap().iter().map(|request| request.method).collect();
    assert_eq!(methods, [singletree_http::Method::Get, singletree_http::Method::Delete]);
}

// A run of AG-UI is refused before its stream begins where its server ends, as every request is: the server that has sent it on
// tries again, elsewhere.
#[tokio::test]
async fn a_run_at_a_server_that_ends_is_refused_before_its_stream_begins() {
    let rig = Rig::builder().server(|it| it.shared_store(true)).start().await;
    let client = rig.client().with("singletree-forwarded", "1");
    let run = json!({
        "threadId": "s", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{ "id": "m", "role": "user", "content": "say first" }],
    });
    let mut events = client.post_events("/v1/agui", &run).await;
    assert_eq!(events.status, 200);
    within(events.rest()).await;
    rig.chat.shutdown(Duration::ZERO).await;
    let refused = client.post("/v1/agui", &run).await;
    assert_eq!((refused.status, refused.headers["singletree-moving"].to_str().unwrap()), (503, "1"));
    assert!(refused.headers.contains_key("retry-after") && refused.text().contains("chat_shutting_down"));
    rig.stop().await;
}
