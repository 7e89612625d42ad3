//! A client that goes away: the connection of every route is closed after its n-th poll, for every n in a deep run and
//! for every third n in a plain one.
//!
//! Whatever a request had begun by then, the session works afterwards, each accepted turn has an outcome, everybody who
//! waits for one receives it, and the doctor finds nothing. Each line of the table of all routes is tried in a session
//! that waits for an approval, and in one with a running and a queued turn.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt;
use hyper::Request;
use serde_json::json;
use singletree_harness::{Chat, ChatTurnOutcome, Error, SendOptions, StoreDoctor, Turn};
use singletree_llm::ChatMessage;
use singletree_server::Server;
use singletree_test_store::TestStore;

use crate::support::Rig;
use crate::tenants::table::{Entry, TABLE};

const SESSION: &str = "mine";

/// More polls than any answer takes that ends by itself.
const POLLS: usize = 16;

/// The state of the session when the request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It waits for an approval.
    Waits,
    /// A turn runs, and another one waits behind it.
    Runs,
}

/// A server with a session.
struct World {
    rig: Rig,
    store: TestStore,
    /// The turns for whose ends somebody waits.
    waiting: Vec<Turn>,
    /// The values of the placeholders in paths and bodies.
    names: Vec<(&'static str, String)>,
}

impl World {
    async fn new(doing: Doing) -> Self {
        let store = TestStore::new();
        let rig = Rig::builder().start_on(store.clone()).await;
        let chat = &rig.chat;
        let ChatTurnOutcome::Completed(first) = send(chat, SESSION, "say hello").await else { panic!() };
        let png = chat.session(SESSION).keep_blob(b"\x89PNG\r\n\x1a\n".to_vec(), None).await.unwrap();
        let last_event = chat.session(SESSION).transcript(0, 0).await.unwrap().last_event.unwrap();
        let key = rig.operator().post("/v1/keys", &json!({})).await.json()["key"]["id"].clone();
        let (mut waiting, mut turn) = (Vec::new(), first.turn.to_string());
        let (mut signal, mut action) = ("nothing".to_owned(), "0".repeat(32));
        match doing {
            Doing::Waits => {
                let ChatTurnOutcome::Suspended(it) = send(chat, SESSION, "send").await else { panic!() };
                signal = it.signal_descriptor.signal_id.to_string();
                action = it.wait.action.unwrap();
            }
            Doing::Runs => {
                for text in ["slow one", "slow two"] {
                    let accepted =
                        chat.session(SESSION).submit(ChatMessage::user(text), SendOptions::new()).await;
                    waiting.push(accepted.unwrap());
                }
                turn = waiting[0].id().to_string();
            }
        }
        let interrupt = format!("int_{}", URL_SAFE_NO_PAD.encode(format!("0.{action}.{signal}")));
        let names = vec![
            ("session", SESSION.to_owned()),
            ("turn", turn),
            ("signal", signal),
            ("action", action),
            ("digest", png.digest),
            ("key", key.as_str().unwrap().to_owned()),
            ("event", last_event.to_string()),
            ("interrupt", interrupt),
            ("agent", "scripted".to_owned()),
            ("model", "scripted".to_owned()),
        ];
        Self { rig, store, waiting, names }
    }

    fn request(&self, entry: &Entry) -> Request<Body> {
        let fill = |template: &str| {
            self.names
                .iter()
                .fold(template.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id))
        };
        let mut request = Request::builder()
            .method(entry.method)
            .uri(fill(entry.path) + &fill(entry.query))
            .header("host", "localhost");
        for (name, value) in entry.headers {
            request = request.header(*name, *value);
        }
        if entry.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        request.body(entry.body.map(|it| Body::from(fill(it))).unwrap_or_default()).unwrap()
    }

    /// Checks the conditions that hold after every closed connection.
    async fn check(self, at: &str) {
        let chat = &self.rig.chat;
        self.rig.pace.run_free();
        for turn in &self.waiting {
            in_time(turn.outcome(), at, "who waits for a turn is told").await;
        }
        in_time(settled(chat, SESSION), at, "what was accepted ends").await;
        let again = in_time(send(chat, SESSION, "say again"), at, "the session works").await;
        assert!(matches!(&again, ChatTurnOutcome::Completed(_)), "{at}: {again:?}");
        for info in chat.sessions(None, 100).await.unwrap().items {
            in_time(settled(chat, &info.session), at, "what was accepted elsewhere ends").await;
            let turns = chat.session(&info.session).turns(0, 100).await.unwrap();
            assert!(turns.items.iter().all(|it| it.status.is_ended()), "{at}: {turns:?}");
        }
        let store = Arc::new(self.store.clone());
        let examined = StoreDoctor::new(store.clone(), store).examine().await.unwrap();
        assert!(examined.is_sound(), "{at}: {examined:?}");
        // It stops by itself when it is dropped: nobody waits for that.
    }
}

async fn send(chat: &Chat, session: &str, text: &str) -> ChatTurnOutcome {
    chat.session(session).send(ChatMessage::user(text)).await
}

/// Waits until no turn of a session is open and nothing is pending: pending approvals are denied.
async fn settled(chat: &Chat, session: &str) {
    loop {
        let open = match chat.session(session).open_turns().await {
            Err(Error::SessionUnknown { .. }) => return,
            open => open.unwrap(),
        };
        let pending = chat.session(session).pending().await.unwrap();
        match (open.is_empty(), pending.first()) {
            (true, None) => return,
            (true, Some(wait)) => {
                let denied = chat.answer(wait.address(), wait.answer([("approved", false)])).await;
                // Somebody else's answer may have come before.
                if let Ok(turn) = denied {
                    turn.outcome().await;
                }
            }
            (false, _) => tokio::task::yield_now().await,
        }
    }
}

async fn in_time<T>(work: impl Future<Output = T>, at: &str, what: &str) -> T {
    let done = tokio::time::timeout(Duration::from_secs(20), work).await;
    done.unwrap_or_else(|_| panic!("{at}: {what}: it does not"))
}

/// Polls a request and its answer so many times, then closes the connection. Returns whether the answer was complete.
async fn closed_after(polls: usize, server: &Server, request: Request<Body>) -> bool {
    let mut whole = pin!(async {
        let mut body = server.answer_request(request).await.into_body();
        while let Some(Ok(_)) = body.frame().await {}
    });
    // The ticks cause further polls of a request that waits for something that never comes.
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut polled = 0;
    std::future::poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(false);
        }
        polled += 1;
        match whole.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(true),
            Poll::Pending if polled == polls => Poll::Ready(false),
            Poll::Pending => {
                while ticks.poll_tick(context).is_ready() {}
                Poll::Pending
            }
        }
    })
    .await
}

/// Closes the connection of each of these lines after each of its polls in a deep run; else after every third poll,
/// from a first one that changes with the line and the session.
async fn sweep(entries: impl Iterator<Item = &'static Entry>) {
    let step = if std::env::var_os("SINGLETREE_DEEP").is_some() { 1 } else { 3 };
    for (number, entry) in entries.enumerate() {
        for (which, doing) in [Doing::Waits, Doing::Runs].into_iter().enumerate() {
            for polls in ((number + which) % step..=POLLS).step_by(step) {
                let world = World::new(doing).await;
                let request = world.request(entry);
                let at = format!(
                    "{number}: {} {} ({doing:?}), closed after {polls} polls",
                    entry.method, entry.path
                );
                let whole = closed_after(polls, &world.rig.server, request).await;
                world.check(&at).await;
                if whole {
                    break;
                }
            }
        }
    }
}

/// Tells whether a line is about a file of the page: those are the same for everybody and touch nothing.
fn is_file(entry: &Entry) -> bool {
    entry.path == "/" || entry.path.starts_with("/page/") && entry.path.contains('.')
}

// INV-2, INV-8, C4
#[tokio::test]
async fn a_connection_that_is_closed_in_a_request_that_changes_something_stops_no_session() {
    sweep(TABLE.iter().filter(|it| it.method != "GET")).await;
}

// INV-2, INV-8, C4
#[tokio::test]
async fn a_connection_that_is_closed_in_a_request_that_reads_stops_no_session() {
    sweep(TABLE.iter().filter(|it| it.method == "GET" && !is_file(it))).await;
}
