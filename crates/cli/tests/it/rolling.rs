//! Servers over one PostgreSQL database are replaced one after the other, by servers with another version of their agent.

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::{BINARY, Home};
use crate::serving::{Serving, exchange};
use singletree_test_store::PostgresServer;

const CLIENTS: usize = 6;

/// How many answers come between two replacements.
const BETWEEN: usize = 3 * CLIENTS;

/// How many pieces a reply has, and how long each one takes.
const PIECES: usize = 10;
const PIECE_MILLIS: u64 = 20;

/// What changes the graph of the agent.
pub(crate) const COMPACTION: &str = "\n[agents.a.compaction]\nkeep = 1000\nevery = 1000\n";

/// This version, with the agent as it was and with a changed one.
const OLD: Version<'static> = Version { program: BINARY, change: "" };
const NEW: Version<'static> = Version { program: BINARY, change: COMPACTION };

/// A binary that serves, and the lines that the file of its agent has at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version<'a> {
    pub(crate) program: &'a str,
    pub(crate) change: &'a str,
}

/// Writes the file of an agent that asks before it calculates, and otherwise replies slowly.
fn write_agent(home: &Home, change: &str) {
    let reply = json!({ "reply": "Word. ".repeat(PIECES), "delay_ms": PIECE_MILLIS });
    let asks = json!({ "calls": [{ "tool": "calculator", "arguments": { "expression": "1+1" } }] });
    let told = json!([{ "tool": "calculator", "content": "{told}" }]);
    let rules = json!([
        { "when": { "user": ["calculate"], "results": told }, "then": { "reply": "It is {told}." } },
        { "when": { "user": ["calculate"] }, "then": asks },
        { "when": { "user": ["*"] }, "then": reply },
    ]);
    let script = json!({ "model": "x", "rules": rules });
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    let agents = "[models.m]\nwire = \"script\"\nfile = \"script.json\"\n\n[agents.a]\ninstructions = \"Answer.\"\n\
        tools = [\"calculator\"]\napproval = { ask = [\"calculator\"] }\n";
    fs::write(home.path().join("singletree.toml"), format!("{agents}{change}")).unwrap();
}

/// Serves an agent over a database.
pub(crate) fn serve_agent(home: &Home, url: &str, version: Version<'_>) -> Serving {
    write_agent(home, version.change);
    Serving::start_program_in(version.program, home, &["--store", url])
}

/// Answers the approval that a session waits for.
pub(crate) fn approve(server: &Serving, session: &str) -> Value {
    let waits = server.ask("GET", &format!("/v1/sessions/{session}/pending"), &Value::Null);
    let wait = &waits["items"][0];
    let path = format!("/v1/sessions/{session}/signals/{}", wait["signal"].as_str().unwrap());
    let answer = json!({ "payload": { "approved": true }, "wait": wait["number"], "action": wait["action"] });
    server.ask("POST", &path, &answer)
}

// D28: a turn goes on with the version of its agent with which it began, as long as a server has it.
#[test]
fn a_turn_that_waits_is_answered_at_a_newer_server_and_goes_on_at_an_older_one() {
    let test = "a_turn_that_waits_is_answered_at_a_newer_server_and_goes_on_at_an_older_one";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, changed, url) = (Home::new(), Home::new(), postgres.create_database("versions"));
    let old = serve_agent(&home, &url, OLD);
    for session in ["one", "two"] {
        let path = format!("/v1/sessions/{session}/messages");
        assert_eq!(old.ask("POST", &path, &json!({ "content": "calculate" }))["status"], "suspended");
    }
    old.terminate();
    // Nobody holds its sessions now; both servers may have them.
    let (old, new) = (serve_agent(&home, &url, OLD), serve_agent(&changed, &url, NEW));
    let owners = |alive: &str| {
        let (_, listed) = home.json(&["nodes", "--store", &url]);
        let of = |node: &&Value| node["address"] == json!(alive);
        listed["nodes"].as_array().unwrap().iter().find(of).map(|node| node["sessions"].as_u64().unwrap())
    };
    let answered = approve(&new, "one");
    assert_eq!(answered["status"], "completed", "{answered}");
    assert_eq!((owners(&old.url), owners(&new.url)), (Some(1), Some(0)));
    // Without such a server the newer one goes on, as far as its graph allows.
    old.terminate();
    let answered = approve(&new, "two");
    assert!(answered["error"].is_null(), "{answered}");
    assert_eq!(owners(&new.url), Some(1));
}

/// The addresses of the servers, of which one may just be replaced.
type Addresses = Mutex<Vec<String>>;

/// The answers that one client had.
#[derive(Debug, Default)]
struct Answers {
    /// How long each one took, with its retry.
    took: Vec<Duration>,
    retried: usize,
    failed: Vec<String>,
}

/// Sends a message to one server, and again to the next one if that fails, so often in all.
#[expect(clippy::disallowed_methods, reason = "how long it took is a figure for people")]
fn send(addresses: &Addresses, (client, no): (usize, usize), attempts: usize, answers: &mut Answers) {
    let since = Instant::now();
    let path = format!("/v1/sessions/s{client}/messages");
    let header = format!("idempotency-key: m{no}\r\n");
    let body = json!({ "content": format!("message {no}") });
    let mut refused = Vec::new();
    for attempt in 0..attempts {
        let addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let url = &addresses[(client + no + attempt) % addresses.len()];
        let answer = exchange(url, "POST", &path, (&header, &body)).map_err(|error| error.to_string());
        let answer = answer.and_then(|text| {
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            serde_json::from_str::<Value>(body).map_err(|error| format!("{error}: {text:?}"))
        });
        match answer {
            Ok(answer) if answer["status"] == "completed" => {
                answers.took.push(since.elapsed());
                answers.retried += usize::from(attempt > 0);
                return;
            }
            Ok(answer) => refused.push(answer.to_string()),
            Err(error) => refused.push(error),
        }
    }
    answers.failed.push(format!("s{client}, message {no}: {refused:?}"));
}

/// Sends one message after the other, until it is told to stop, and tells of each answer.
fn run_client(
    addresses: &Addresses,
    is_over: &AtomicBool,
    (client, attempts): (usize, usize),
    told: &Sender<()>,
) -> Answers {
    let mut answers = Answers::default();
    for no in 0.. {
        if is_over.load(Ordering::Acquire) {
            break;
        }
        send(addresses, (client, no), attempts, &mut answers);
        told.send(()).unwrap();
    }
    answers
}

/// Replaces three servers one after the other while clients send messages, each so often at most, then checks that each session has every
/// message once, in order, and returns the figures for people.
pub(crate) fn replace_under_load(
    url: &str,
    (old, new): (Version<'_>, Version<'_>),
    attempts: usize,
) -> String {
    let homes = [Home::new(), Home::new(), Home::new()];
    let mut servers: Vec<_> = homes.iter().map(|home| Some(serve_agent(home, url, old))).collect();
    let addresses: Addresses =
        Mutex::new(servers.iter().flatten().map(|server| server.url.clone()).collect());
    let is_over = AtomicBool::new(false);
    let answers: Vec<Answers> = thread::scope(|scope| {
        let (told, heard) = mpsc::channel();
        let client = |client: usize| {
            let (addresses, is_over, told) = (&addresses, &is_over, told.clone());
            scope.spawn(move || run_client(addresses, is_over, (client, attempts), &told))
        };
        let wait_for_answers = || (0..BETWEEN).for_each(|_| heard.recv().unwrap());
        let clients: Vec<_> = (0..CLIENTS).map(client).collect();
        for (slot, home) in homes.iter().enumerate() {
            wait_for_answers();
            servers[slot].take().unwrap().terminate();
            let server = serve_agent(home, url, new);
            addresses.lock().unwrap_or_else(PoisonError::into_inner)[slot].clone_from(&server.url);
            servers[slot] = Some(server);
        }
        wait_for_answers();
        is_over.store(true, Ordering::Release);
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let failed: Vec<_> = answers.iter().flat_map(|it| &it.failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    check_sessions(servers[0].as_ref().unwrap(), &answers);
    let mut took: Vec<_> = answers.iter().flat_map(|it| it.took.iter().copied()).collect();
    took.sort_unstable();
    let retried: usize = answers.iter().map(|it| it.retried).sum();
    let (count, slow, slowest) = (took.len(), took[took.len() * 99 / 100], took[took.len() - 1]);
    format!("{count} answers, {retried} retried, p99 {slow:?}, slowest {slowest:?}")
}

/// Checks that each session has the messages that were answered, once and in order.
fn check_sessions(server: &Serving, answers: &[Answers]) {
    for (client, answers) in answers.iter().enumerate() {
        let shown = server.ask("GET", &format!("/v1/sessions/s{client}/messages"), &Value::Null);
        let texts: Vec<&str> = shown["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["role"] == "user")
            .map(|it| it["content"].as_str().unwrap())
            .collect();
        let sent: Vec<String> = (0..answers.took.len()).map(|no| format!("message {no}")).collect();
        assert_eq!(texts, sent);
    }
}

// INV-1, INV-2, D33: three servers are replaced under load, and the newer ones have a changed agent.
#[test]
fn a_client_that_retries_once_does_not_notice_that_servers_are_replaced() {
    let test = "a_client_that_retries_once_does_not_notice_that_servers_are_replaced";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let url = postgres.create_database("rolling");
    let figures = replace_under_load(&url, (OLD, NEW), 2);
    writeln!(std::io::stderr(), "rolling restart: {figures}").unwrap_or_default();
}
