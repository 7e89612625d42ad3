//! One tenant and the ids of another (INV-14): every route of every section answers them as ids that never existed.
//!
//! Two servers get the same requests. On the first one, tenant B uses ids of tenant A; on the second one ids of the
//! same form that never existed. Status, headers and bodies must be the same, apart from the ids in the request, the
//! request's own id and the date. Generated names are the same on both servers, so nothing else is excluded from the
//! comparison.
//!
//! The table is [`table`]: each route that is served needs a line there.

mod erased;
pub(crate) mod table;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::Method;
use serde_json::{Value, json};
use singletree_durable::{SessionId, SessionKey, StoredBlob, TenantId};
use singletree_server::AccessPolicy;

use crate::campaigns::story_plan;
use crate::support::rig::within;
use crate::support::{Answer, Client, Rig};
use table::{Entry, TABLE};

/// The ids of A on the first server, or ids that never existed.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) session: String,
    pub(crate) turn: String,
    pub(crate) signal: String,
    pub(crate) action: String,
    pub(crate) digest: String,
    pub(crate) key: String,
    pub(crate) event: String,
    pub(crate) campaign: String,
}

impl Names {
    /// Returns each id with the name of its placeholder in paths.
    fn all(&self) -> [(&'static str, &str); 8] {
        [
            ("session", &self.session),
            ("turn", &self.turn),
            ("signal", &self.signal),
            ("action", &self.action),
            ("digest", &self.digest),
            ("key", &self.key),
            ("event", &self.event),
            ("campaign", &self.campaign),
        ]
    }

    fn fill(&self, template: &str) -> String {
        let filled = self
            .all()
            .iter()
            .fold(template.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id));
        filled.replace("{interrupt}", &self.interrupt())
    }

    /// Returns the id of the interrupt that the wait is to front ends of AG-UI.
    fn interrupt(&self) -> String {
        let named = format!("0.{}.{}", self.action, self.signal);
        format!("int_{}", URL_SAFE_NO_PAD.encode(named))
    }

    /// Returns names of the same form that nobody ever gave.
    fn invented(&self) -> Self {
        let other = |id: &str| {
            let turned = id.chars().rev().map(|it| match it {
                '0'..='8' => char::from_u32(u32::from(it) + 1).unwrap(),
                '9' => '0',
                'a'..='e' => char::from_u32(u32::from(it) + 1).unwrap(),
                'f' => 'a',
                it => it,
            });
            turned.collect::<Vec<_>>().into_iter().rev().collect::<String>()
        };
        // The epoch of events is the log's, which is not A's.
        let (epoch, seq) = self.event.rsplit_once('.').unwrap();
        Self {
            session: "void".into(),
            turn: other(&self.turn),
            signal: other(&self.signal),
            action: other(&self.action),
            digest: other(&self.digest),
            key: other(&self.key),
            event: format!("{epoch}.{seq}"),
            campaign: format!("cmp_{}", other(&self.campaign["cmp_".len()..])),
        }
    }
}

/// A server that requires keys, the ids of A there, and the clients of A and B.
struct World {
    rig: Rig,
    a: Client,
    b: Client,
    names: Names,
}

const EVERYTHING: [&str; 4] = ["read", "write", "approve", "admin"];

impl World {
    async fn new() -> Self {
        let policy = AccessPolicy { required: true, ..AccessPolicy::default() };
        let rig = Rig::builder().campaigns(story_plan());
        let rig = rig.server(|it| it.access_policy(policy)).start().await;
        rig.pace.run_free();
        let (key, a) = client_of(&rig, "a").await;
        let (_, b) = client_of(&rig, "b").await;
        let turn =
            post(&a, "/v1/sessions/mine/messages", json!({ "content": "say hello" })).await["turn"].clone();
        let wait = post(&a, "/v1/sessions/mine/messages", json!({ "content": "send" })).await["wait"].clone();
        let page = a.get("/v1/sessions/mine/messages").await.json();
        let digest = "ab".repeat(32);
        let session = SessionKey::new(TenantId::parse("a").unwrap(), SessionId::parse("mine").unwrap());
        let blob = StoredBlob {
            digest: digest.clone(),
            media_type: "image/png".into(),
            bytes: b"\x89PNG\r\n\x1a\n".into(),
        };
        rig.documents.keep_blob(&session, blob).await.unwrap();
        let text = |it: &Value| it.as_str().unwrap().to_owned();
        // With a plan that waits for its approval: nothing happens in it by itself.
        let begun = json!({ "goal": "Send the letters.", "tasks": story_plan() });
        let campaign = a.post("/v1/campaigns", &begun).await.json()["id"].clone();
        let names = Names {
            session: "mine".into(),
            turn: text(&turn),
            signal: text(&wait["signal"]),
            action: text(&wait["action"]),
            digest,
            key,
            event: text(&page["last_event"]),
            campaign: text(&campaign),
        };
        Self { rig, a, b, names }
    }

    async fn ask(&self, who: &Client, entry: &Entry, names: &Names) -> String {
        let path = names.fill(entry.path) + &names.fill(entry.query);
        let method: Method = entry.method.parse().unwrap();
        let body: Option<Value> = entry.body.map(|it| serde_json::from_str(&names.fill(it)).unwrap());
        let who = entry.headers.iter().fold(who.clone(), |who, (name, value)| who.with(name, value));
        let answer = within(who.send(method, &path, body.as_ref())).await;
        told(&answer, names)
    }
}

async fn client_of(rig: &Rig, tenant: &str) -> (String, Client) {
    client_with(rig, tenant, &EVERYTHING).await
}

async fn client_with(rig: &Rig, tenant: &str, scopes: &[&str]) -> (String, Client) {
    let wanted = json!({ "tenant": tenant, "scopes": scopes });
    let made = rig.operator().post("/v1/keys", &wanted).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let client = rig.client().bearer(made["secret"].as_str().unwrap());
    (made["key"]["id"].as_str().unwrap().to_owned(), client)
}

async fn post(client: &Client, path: &str, body: Value) -> Value {
    let answer = client.post(path, &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Returns all that was answered, without the ids that were asked with, the request's own id and the date.
fn told(answer: &Answer, names: &Names) -> String {
    let mut told = format!("{}\n", answer.status);
    let request = answer.headers.get("x-request-id").map_or("", |it| it.to_str().unwrap());
    for (name, value) in &answer.headers {
        if !matches!(name.as_str(), "date" | "x-request-id") {
            told += &format!("{name}: {}\n", value.to_str().unwrap());
        }
    }
    told += &answer.text();
    if !request.is_empty() {
        told = told.replace(request, "REQUEST");
    }
    names.all().iter().fold(told, |told, (name, id)| told.replace(id, &format!("{{{name}}}")))
}

fn is_store_in_memory() -> bool {
    std::env::var_os("SINGLETREE_STORE").is_none_or(|store| store == "memory")
}

/// Over a database, leaves out when a key was used, which is stored some time after the request, and puts narration, which
/// comes beside the events of a run, behind them.
fn without_varying_order(told: String) -> String {
    if is_store_in_memory() {
        return told;
    }
    const USED: &str = ",\"last_used_at\":\"2026-01-01T00:00:00.000Z\"";
    let count = told.matches(USED).count();
    let told = match told.split_once("content-length: ") {
        Some((head, rest)) if count > 0 => {
            let (length, body) = rest.split_once('\n').unwrap();
            let length = length.parse::<usize>().unwrap() - count * USED.len();
            format!("{head}content-length: {length}\n{}", body.replace(USED, ""))
        }
        _ => told,
    };
    let is_narration = |frame: &&str| frame.contains("\"dev.singletree.narration\"");
    let (narration, events): (Vec<_>, Vec<_>) = told.split("\n\n").partition(is_narration);
    [events, narration].concat().join("\n\n")
}

/// Over a database, leaves out the events of a stream that are not stored: whether one has them depends on when it began to read.
fn without_varying_events(told: String) -> String {
    if is_store_in_memory() {
        return told;
    }
    let stored = |frame: &&str| !frame.starts_with("data: ");
    told.split("\n\n").filter(stored).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn every_route_has_a_line_in_the_table() {
    let served: BTreeSet<_> = singletree_server::Server::list_routes()
        .into_iter()
        .map(|(method, path)| (method.to_string(), path.to_owned()))
        .collect();
    let listed: BTreeSet<_> = TABLE.iter().map(|it| (it.method.to_owned(), it.path.to_owned())).collect();
    let missing: Vec<_> = served.difference(&listed).collect();
    assert_eq!(
        missing,
        Vec::<&(String, String)>::new(),
        "routes without a line in tests/it/tenants/table.rs"
    );
    let gone: Vec<_> = listed.difference(&served).collect();
    assert_eq!(gone, Vec::<&(String, String)>::new(), "lines of no route");
}

// INV-14
#[tokio::test]
async fn a_key_of_another_tenant_is_answered_as_if_there_were_no_such_id() {
    // The files of the page are the same for everybody, and so are their contents.
    let is_file =
        |path: &str| path == "/" || path.starts_with("/page/") && !path.contains('{') && path.contains('.');
    for entry in TABLE.iter().filter(|it| !is_file(it.path)) {
        let (one, other) = (World::new().await, World::new().await);
        let foreign = one.ask(&one.b, entry, &one.names).await;
        let unknown = other.ask(&other.b, entry, &other.names.invented()).await;
        let (foreign, unknown) = (without_varying_order(foreign), without_varying_order(unknown));
        assert_eq!(foreign, unknown, "{} {}", entry.method, entry.path);
        // Proves that the comparison can fail: the owner gets another answer, where the route has something to tell.
        let own = without_varying_order(one.ask(&one.a, entry, &one.names).await);
        assert_eq!(own != foreign, entry.tells, "{} {}: {own}", entry.method, entry.path);
        // The request of B changed nothing: the owner gets the same answer on the server where B used ids that never
        // existed.
        let untouched = without_varying_order(other.ask(&other.a, entry, &other.names).await);
        let (own, untouched) = (without_varying_events(own), without_varying_events(untouched));
        assert_eq!(own, untouched, "{} {}", entry.method, entry.path);
    }
}

// INV-14
#[tokio::test]
async fn the_events_of_a_tenant_are_told_to_nobody_else() {
    let world = World::new().await;
    let mut of_b = world.b.events("/v1/events", None).await;
    assert_eq!(within(of_b.block()).await.unwrap().comments[0], "open");
    let mut of_a = world.a.events("/v1/events", None).await;
    assert_eq!(within(of_a.block()).await.unwrap().comments[0], "open");
    post(&world.a, "/v1/sessions/of-a/messages", json!({ "content": "say hello" })).await;
    post(&world.b, "/v1/sessions/of-b/messages", json!({ "content": "say hello" })).await;
    let mut seen = String::new();
    for (events, session) in [(&mut of_a, "of-a"), (&mut of_b, "of-b")] {
        let event = within(events.next()).await.unwrap();
        assert_eq!(event.json()["session"], session);
        seen = event.id.unwrap();
    }
    // An id of another tenant is one that is not known.
    let mut again = world.a.events("/v1/events", Some(&seen)).await;
    assert_eq!(within(again.next()).await.unwrap().json()["type"], "events.missed");
}

/// The text of a message in one session, and of a pending wait in another one: no request of the table contains them.
const SAID: &str = "canary-said-4711";
const ASKED: &str = "canary-asked-4711";

// S7, INV-14: scopes bound the data that a key can read, in every protocol.
#[tokio::test]
async fn a_key_that_may_only_write_is_told_nothing_that_others_said_by_any_route() {
    let mut told_to_readers = 0;
    // A page's own sign-out is no answer about a session.
    for entry in TABLE.iter().filter(|it| it.path.contains("session}") || it.body.is_some()) {
        for (session, is_suspended) in [("open", false), ("held", true)] {
            let world = World::new().await;
            let (_, writer) = client_with(&world.rig, "a", &["write"]).await;
            let path = format!("/v1/sessions/{session}/messages");
            let said = post(&world.a, &path, json!({ "content": format!("say {SAID}") })).await;
            let mut names = Names { session: session.into(), ..world.names.clone() };
            names.turn = said["turn"].as_str().unwrap().to_owned();
            if is_suspended {
                let asked = post(&world.a, &path, json!({ "content": format!("send {ASKED}") })).await;
                names.turn = asked["turn"].as_str().unwrap().to_owned();
                names.signal = asked["wait"]["signal"].as_str().unwrap().to_owned();
                names.action = asked["wait"]["action"].as_str().unwrap().to_owned();
            }
            let told = world.ask(&writer, entry, &names).await;
            for canary in [SAID, ASKED] {
                assert!(!told.contains(canary), "{} {} tells {canary}: {told}", entry.method, entry.path);
            }
            let whole = world.ask(&world.a, entry, &names).await;
            told_to_readers += usize::from(whole.contains(SAID) || whole.contains(ASKED));
        }
    }
    // Proves that the test can fail: many of these routes do answer a key that may read.
    assert!(told_to_readers > 15, "{told_to_readers}");
}

// S7
#[tokio::test]
async fn looking_by_a_protocol_that_mostly_writes_needs_the_right_to_read() {
    let world = World::new().await;
    let (_, writer) = client_with(&world.rig, "a", &["write"]).await;
    let looks = json!({ "threadId": "mine", "runId": "r", "messages": [] });
    let resumes = json!({ "content": "", "metadata": { "resume": true } });
    let regenerates = json!({});
    for (path, body) in [
        ("/v1/agui", &looks),
        ("/v1/chats/mine/send", &resumes),
        ("/v1/sessions/mine/regenerate", &regenerates),
        ("/v1/sessions/mine/turns/any/retry", &json!({})),
    ] {
        let answer = within(writer.post(path, body)).await;
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
    }
    // It gets the answer to its own message.
    let says = json!({ "threadId": "new", "runId": "r", "messages": [
        { "id": "u", "role": "user", "content": "say hello" }] });
    let answer = within(writer.post("/v1/agui", &says)).await;
    assert!(
        answer.text().contains("You said: hello") || answer.text().contains("hello"),
        "{}",
        answer.text()
    );
    assert!(!answer.text().contains("MESSAGES_SNAPSHOT"), "{}", answer.text());
}
