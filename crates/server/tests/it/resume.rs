//! Streams that are lost and resumed (D9): over random disconnects, restarts and slow readers, the durable events that
//! a client saw equal the durable log, whole and without duplicates.
//!
//! A run has one session. A writer sends messages and approves pending waits, readers follow the events, and the server
//! is restarted at random, at the same port or at another, with a clean shutdown or as if it were killed. Each reader
//! drops its stream after a random number of frames, and comes back with the last id that it saw.

mod slow;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hyper::Method;
use serde_json::{Value, json};
use singletree_harness::{Chat, ChatEvent, ChatEventKind};
use singletree_store_sqlite::{CommitDurability, SqliteStore};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::support::rig::within;
use crate::support::{Client, Events, Rig, RigBuilder};

/// How many runs go on at once.
const AT_ONCE: usize = 4;

/// Numbers that a seed decides.
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.roll(of.len() as u64)).unwrap()]
    }

    /// Returns dice that roll on their own.
    fn apart(&mut self) -> Self {
        Self(self.roll(u64::MAX))
    }
}

/// A server that lives in a runtime of its own, so that it can die with everything that it does.
struct Generation {
    runtime: Runtime,
    rig: Rig,
    store: SqliteStore,
}

impl Generation {
    fn begin(file: &Path, builder: RigBuilder) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (rig, store) = runtime.block_on(async {
            let store = SqliteStore::options(file).durability(CommitDurability::Normal).open().await.unwrap();
            let rig = builder.start_on(store.clone()).await;
            rig.pace.run_free();
            (rig, store)
        });
        Self { runtime, rig, store }
    }

    /// Ends it: in order, or in the middle of whatever it does.
    fn end(self, in_order: bool) {
        let Self { runtime, rig, store } = self;
        if in_order {
            runtime.block_on(rig.stop());
        } else {
            drop(rig);
        }
        runtime.shutdown_timeout(Duration::from_secs(5));
        // Only the file is left of it.
        Runtime::new().unwrap().block_on(store.close());
    }
}

/// Where the server is at present, for who comes again.
type Place = watch::Receiver<SocketAddr>;

fn client(place: &Place) -> Client {
    Client::new(*place.borrow())
}

/// Posts until it is answered by something else than that the server is not there.
async fn post(place: &Place, path: &str, key: Option<&str>, body: &Value) -> Value {
    loop {
        let mut client = client(place).with("content-type", "application/json");
        if let Some(key) = key {
            client = client.with("idempotency-key", key);
        }
        if let Some(answer) = ask(&client, Method::POST, path, Bytes::from(body.to_string())).await {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

async fn ask(client: &Client, method: Method, path: &str, body: Bytes) -> Option<Value> {
    let response = client.try_begin(method, path, body).await.ok()?;
    let status = response.status().as_u16();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.ok()?.to_bytes();
    if status == 503 {
        return None;
    }
    assert!(matches!(status, 200 | 404 | 409), "{status} {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).ok()
}

/// Sends messages and approves pending waits, until all messages are sent.
async fn talk(place: Place, mut dice: Dice, turns: u64) {
    for n in 0..turns {
        let text = *dice.pick(&["say hello", "slow one two three", "look", "both", "send", "fail retryable"]);
        let key = format!("k{n}");
        loop {
            let sent = json!({ "content": text });
            let outcome = post(&place, "/v1/sessions/s/messages", Some(&key), &sent).await;
            match outcome["status"].as_str() {
                Some("suspended") if outcome.get("resumed_by").is_none() => {
                    approve(&place, &outcome["wait"], &mut dice).await
                }
                _ => break,
            }
        }
    }
}

async fn approve(place: &Place, wait: &Value, dice: &mut Dice) {
    let path = format!("/v1/sessions/s/signals/{}", wait["signal"].as_str().unwrap());
    let approved = dice.roll(2) == 0;
    let body =
        json!({ "payload": { "approved": approved }, "wait": wait["number"], "action": wait["action"] });
    post(place, &path, None, &body).await;
}

/// The events that one reader has seen.
type Seen = Arc<Mutex<Vec<Value>>>;

/// The totals of all runs.
#[derive(Debug, Default)]
struct Tally {
    runs: AtomicU64,
    restarts: AtomicU64,
    /// Streams that a reader gave up, or that broke off.
    disconnects: AtomicU64,
    /// Those of them that were read slowly.
    slow: AtomicU64,
    /// Durable events that readers saw.
    events: AtomicU64,
}

impl Tally {
    fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }

    fn of(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }

    /// Writes one line to standard error, which the test harness does not capture here.
    fn tell(&self) {
        let Self { runs, restarts, disconnects, slow, events } = self;
        let [runs, restarts] = [runs, restarts].map(Self::of);
        let [disconnects, slow, events] = [disconnects, slow, events].map(Self::of);
        let told = writeln!(
            std::io::stderr(),
            "stream resume: {runs} runs, {disconnects} disconnects, {restarts} restarts, {slow} slow readers, {events} events"
        );
        told.unwrap();
    }
}

/// Follows the session with one stream after the other.
async fn follow(place: Place, mut dice: Dice, seen: Seen, tally: Arc<Tally>) {
    loop {
        let last = seen.lock().unwrap().last().map(|it: &Value| it["id"].as_str().unwrap().to_owned());
        if let Some(mut events) = open(&client(&place), last, &mut dice).await {
            let frames = 1 + dice.roll(12);
            let is_slow = dice.roll(3) == 0;
            Tally::add(&tally.slow, u64::from(is_slow));
            for _ in 0..frames {
                let Some(event) = events.next().await else { break };
                if let Some(id) = event.id {
                    let data: Value = serde_json::from_str(&event.data.unwrap()).unwrap();
                    assert_eq!(data["id"], id);
                    seen.lock().unwrap().push(data);
                }
                for _ in 0..if is_slow { dice.roll(200) } else { 0 } {
                    tokio::task::yield_now().await;
                }
            }
            Tally::add(&tally.disconnects, 1);
        }
        tokio::task::yield_now().await;
    }
}

/// Opens a stream from behind the last event, as a browser says it or as an address does.
async fn open(client: &Client, last: Option<String>, dice: &mut Dice) -> Option<Events> {
    let mut path = "/v1/sessions/s/events".to_owned();
    let mut client = client.clone().with("accept", "text/event-stream");
    match last {
        Some(last) if dice.roll(2) == 0 => client = client.with("last-event-id", &last),
        Some(last) => path += &format!("?after={last}"),
        None => {}
    }
    let response = client.try_begin(Method::GET, &path, Bytes::new()).await.ok()?;
    match response.status().as_u16() {
        200 => Some(Events::of(response)),
        // It is not there yet; or the server ends.
        404 | 503 => None,
        status => panic!("{status}"),
    }
}

/// Returns the parts of an event that are the same whenever it is read.
fn gist(event: &ChatEvent) -> Value {
    let text = match &event.what {
        ChatEventKind::TurnAccepted { message } => message.as_ref().map(|it| it.text().into_owned()),
        ChatEventKind::MessageAppended { message, .. } => Some(message.text().into_owned()),
        other => other.outcome().map(|it| it.as_str().to_owned()),
    };
    let id = event.id.as_ref().unwrap().to_string();
    json!({ "id": id, "turn": event.turn.to_string(), "type": event.what.as_str(), "text": text })
}

/// Returns the same parts of an event from the wire.
fn gist_of(event: &Value) -> Value {
    let text = match event.get("outcome") {
        Some(outcome) => outcome["status"].clone(),
        None => event.get("message").map_or(Value::Null, |it| it["content"].clone()),
    };
    json!({ "id": event["id"], "turn": event["turn"], "type": event["type"], "text": text })
}

/// Reads the durable log.
async fn log(chat: &Chat) -> Vec<Value> {
    let mut events = Box::pin(chat.session("s").events().stream().await.unwrap());
    let mut log = Vec::new();
    let length = chat.session("s").transcript(0, 0).await.unwrap().last_event.unwrap().seq + 1;
    while (log.len() as u64) < length {
        log.push(gist(&events.next().await.unwrap().unwrap()));
    }
    log
}

struct Run {
    seed: u64,
    file: PathBuf,
    clients: Runtime,
    tally: Arc<Tally>,
}

impl Run {
    /// Talks, reads and restarts.
    fn go(&self) {
        let mut dice = Dice(self.seed);
        let mut generation = Generation::begin(&self.file, Rig::builder());
        let (told, place) = watch::channel(generation.rig.at);
        let turns = 2 + dice.roll(4);
        let mut talking = self.clients.spawn(talk(place.clone(), dice.apart(), turns));
        let seen: Vec<Seen> = (0..3).map(|_| Seen::default()).collect();
        let readers: Vec<_> = seen
            .iter()
            .map(|it| follow(place.clone(), dice.apart(), it.clone(), self.tally.clone()))
            .map(|it| self.clients.spawn(it))
            .collect();
        let restarts = dice.roll(4);
        for _ in 0..restarts {
            // At any moment: after so many looks at how much was seen.
            for _ in 0..dice.roll(40) {
                std::thread::yield_now();
                self.clients.block_on(async { tokio::task::yield_now().await });
            }
            let mut builder = Rig::builder().after(&generation.rig);
            if dice.roll(2) == 0 {
                builder = builder.at(generation.rig.at);
            }
            generation.end(dice.roll(2) == 0);
            generation = Generation::begin(&self.file, builder);
            told.send_replace(generation.rig.at);
        }
        self.clients.block_on(within(&mut talking)).unwrap();
        let whole = generation.runtime.block_on(log(&generation.rig.chat));
        for seen in &seen {
            self.clients.block_on(within(async {
                while !self.has_seen(seen, &whole) {
                    tokio::task::yield_now().await;
                }
            }));
        }
        readers.iter().for_each(tokio::task::JoinHandle::abort);
        for reader in readers {
            let ended = self.clients.block_on(reader);
            assert!(ended.is_err_and(|it| it.is_cancelled()), "seed {}: a reader broke off", self.seed);
        }
        for seen in &seen {
            assert!(self.has_seen(seen, &whole));
            Tally::add(&self.tally.events, whole.len() as u64);
        }
        generation.end(true);
        Tally::add(&self.tally.restarts, restarts);
        Tally::add(&self.tally.runs, 1);
    }

    /// Checks whether a reader has seen the whole log; its events must be a prefix of the log.
    fn has_seen(&self, seen: &Seen, whole: &[Value]) -> bool {
        let seen: Vec<Value> = seen.lock().unwrap().iter().map(gist_of).collect();
        assert_eq!(seen, whole[..seen.len().min(whole.len())], "seed {}", self.seed);
        seen.len() == whole.len()
    }
}

// D9, INV-2
#[test]
fn what_a_client_saw_by_id_is_the_durable_log_over_disconnects_restarts_and_slow_readers() {
    let runs = if std::env::var_os("SINGLETREE_DEEP").is_some() { 1000 } else { 25 };
    let folder = tempfile::tempdir().unwrap();
    let (next, tally) = (AtomicU64::new(0), Arc::new(Tally::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= runs {
                return;
            }
            let file = folder.path().join(format!("{seed}.db"));
            let clients =
                tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            Run { seed, file, clients, tally: tally.clone() }.go();
        }
    };
    // A run waits more than it works: for its disk, its sockets, and a server that ends.
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    tally.tell();
    let Tally { runs: done, restarts, disconnects, slow, events } = &*tally;
    assert_eq!(Tally::of(done), runs);
    assert!(Tally::of(restarts) > runs, "hardly any restart: {tally:?}");
    assert!(Tally::of(disconnects) > 3 * runs, "hardly any reader came again: {tally:?}");
    assert!(Tally::of(slow) > runs && Tally::of(events) > 9 * runs, "{tally:?}");
}
