//! Traces as a receiver of somebody else's gets them (`oteltap`), from servers that are killed while turns run: every span
//! of a stored turn arrives, with the same content each time, and its parent too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::Home;
use crate::model_server::read_bytes;
use crate::serving::{Serving, try_ask};
use crate::traces::{Collector, hex, run_here};

/// How often the server is killed.
const KILLS: u64 = 12;
const KILLS_IN_DEEP: u64 = 300;
/// How many clients send at once.
const CLIENTS: usize = 4;

const SCRIPT: &str = r#"{ "model": "script", "rules": [
    { "when": { "user": ["add {a} and {b}"] },
      "then": { "calls": [{ "tool": "calculator", "arguments": { "expression": "{a}+{b}" } }] } },
    { "when": { "results": "any" }, "then": { "delay_ms": 2, "reply": "It is done, and it took a few pieces to say." } },
    { "when": { "user": ["*"] }, "then": { "reply": "I hear you." } } ] }"#;

/// The receiver, which writes each span as a line of JSON.
struct Receiver {
    program: Child,
    lines: PathBuf,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.program.kill());
        drop(self.program.wait());
    }
}

impl Receiver {
    fn start(program: &Path, home: &Home) -> (Self, u16) {
        // Free until a moment ago, and nobody else's on this machine.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let lines = home.path().join("spans.ndjson");
        let mut command = Command::new(program);
        command.args(["-m", "oteltap", "--port", &port.to_string()]).env("PYTHONUNBUFFERED", "1");
        let output = fs::File::create(&lines).unwrap();
        let program = command.stdout(output).stderr(Stdio::null()).spawn().unwrap();
        (Self { program, lines }, port)
    }

    /// Returns the spans by their ids. Two deliveries of one id must be the same.
    fn spans(&self) -> BTreeMap<(String, String), Value> {
        let mut spans = BTreeMap::new();
        for line in fs::read_to_string(&self.lines).unwrap().lines().filter(|line| line.starts_with('{')) {
            let span: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| span[name].as_str().unwrap().to_owned();
            let before = spans.insert((text("traceId"), text("spanId")), span.clone());
            assert!(before.is_none_or(|before| before == span), "{span}");
        }
        spans
    }
}

/// Stands before the receiver, and can keep a request from it.
struct Gate {
    url: String,
    /// Told when the next request is kept from the receiver.
    keep_next: Arc<Mutex<Option<Sender<()>>>>,
}

impl Gate {
    fn start(receiver: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let keep_next: Arc<Mutex<Option<Sender<()>>>> = Arc::default();
        let keeping = keep_next.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, keeping) = (stream.unwrap(), keeping.clone());
                std::thread::spawn(move || {
                    while let Some((_, body)) = read_bytes(&stream) {
                        if let Some(told) = keeping.lock().unwrap().take() {
                            // Who sent it is killed meanwhile.
                            return told.send(()).unwrap_or_default();
                        }
                        let Some(answer) = pass_on(receiver, &body) else { return };
                        drop((&stream).write_all(answer.as_bytes()));
                    }
                });
            }
        });
        Self { url, keep_next }
    }

    /// Keeps the next request from the receiver, and says when it is there.
    fn keep_next(&self) -> std::sync::mpsc::Receiver<()> {
        let (tell, told) = channel();
        *self.keep_next.lock().unwrap() = Some(tell);
        told
    }
}

/// Passes a request on to the receiver, and returns the answer for who sent it.
fn pass_on(receiver: u16, body: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", receiver)).ok()?;
    let kind = "content-type: application/x-protobuf";
    let head =
        format!("POST /v1/traces HTTP/1.0\r\nhost: x\r\n{kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    Some(format!("HTTP/1.1 {}\r\ncontent-length: 0\r\n\r\n", answer.split_once(' ')?.1.trim()))
}

/// Sends messages until `kill_after` of them were answered, and where there is a `kept` request until that is there; then
/// kills the server while others are on their way.
fn load_and_kill(
    server: Serving,
    (kill_after, kept): (u64, Option<std::sync::mpsc::Receiver<()>>),
    numbers: &AtomicU64,
) {
    let (tell, answered) = channel();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (tell, url) = (tell.clone(), server.url.clone());
            scope.spawn(move || {
                loop {
                    let no = numbers.fetch_add(1, Ordering::Relaxed);
                    let said = json!({ "content": format!("add {no} and {client}") });
                    let path = format!("/v1/sessions/s{}/messages", no % 7);
                    // The server is gone, and with it this client.
                    if try_ask(&url, "POST", &path, &said).is_none() || tell.send(()).is_err() {
                        return;
                    }
                }
            });
        }
        for _ in 0..kill_after {
            answered.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        if let Some(kept) = kept {
            kept.recv_timeout(Duration::from_secs(60)).unwrap();
        }
        drop(answered);
        server.stop();
    });
}

#[test]
fn a_foreign_receiver_gets_every_span_of_servers_that_are_killed() {
    let name = "traces with oteltap";
    let tools = std::env::var_os("SINGLETREE_TOOLS").map(PathBuf::from);
    let python = tools.map(|tools| tools.join("python/bin/python")).filter(|python| {
        let import = Command::new(python).args(["-c", "import oteltap"]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    });
    let Some(python) = python else {
        let line = format!("not run: {name}: SINGLETREE_TOOLS names no folder with oteltap; .ci/run sets it");
        // `eprintln!` of a test that passes is swallowed.
        return writeln!(std::io::stderr(), "{line}").unwrap();
    };
    let home = Home::new();
    let (receiver, port) = Receiver::start(&python, &home);
    let gate = Gate::start(port);
    fs::write(home.path().join("script.json"), SCRIPT).unwrap();
    let text = format!(
        "[models.main]\nwire = \"script\"\nfile = \"script.json\"\n\n\
         [agents.helper]\ninstructions = \"x\"\ntools = [\"calculator\"]\n\n\
         [telemetry]\nendpoint = \"{}\"\n",
        gate.url
    );
    fs::write(home.path().join("singletree.toml"), text).unwrap();

    let kills = if std::env::var_os("SINGLETREE_DEEP").is_some() { KILLS_IN_DEEP } else { KILLS };
    let numbers = AtomicU64::new(0);
    for kill in 0..kills {
        let kept = (kill % 2 == 1).then(|| gate.keep_next());
        load_and_kill(Serving::start_in(&home, &[]), (1 + kill * 7 % 11, kept), &numbers);
    }
    // The last one takes over what the others have left, and sends it.
    let server = Serving::start_in(&home, &[]);
    let (_never, pause) = channel::<()>();
    let mut tries = 0;
    while run_here(&home, &["telemetry", "status"]) != "no turn waits to be exported\n" {
        tries += 1;
        assert!(tries < 100, "turns wait to be exported");
        assert_eq!(pause.recv_timeout(Duration::from_millis(200)), Err(RecvTimeoutError::Timeout));
    }
    server.stop();

    // What the store has, as another program reads it.
    let stored = Collector::start(200);
    let told = run_here(&home, &["telemetry", "backfill", "--since", "2h", "--to", &stored.url]);
    let (_, spans) = told.split_once(" with ").unwrap();
    let count: usize = spans.split(' ').next().unwrap().parse().unwrap();
    let expected = stored.take_spans(|spans| spans.len() >= count);
    let received = receiver.spans();
    let id = |span: &opentelemetry_proto::tonic::trace::v1::Span| (hex(&span.trace_id), hex(&span.span_id));
    let wanted: BTreeSet<_> = expected.values().map(id).collect();
    assert_eq!(received.keys().cloned().collect::<BTreeSet<_>>(), wanted);
    for span in expected.values() {
        let other = &received[&id(span)];
        assert_eq!(other["name"], span.name.as_str());
        assert_eq!(other["parentSpanId"], hex(&span.parent_span_id), "{other}");
        assert_eq!(other["startTimeUnixNano"], span.start_time_unix_nano.to_string(), "{other}");
        assert_eq!(other["endTimeUnixNano"], span.end_time_unix_nano.to_string(), "{other}");
        assert_eq!(other["attributes"].as_array().unwrap().len(), span.attributes.len(), "{other}");
        let parent = (hex(&span.trace_id), hex(&span.parent_span_id));
        assert!(span.parent_span_id.is_empty() || wanted.contains(&parent), "{other}");
    }
    let tools = expected.values().filter(|span| span.name.contains("tool")).count();
    assert!(tools as u64 > kills, "{tools} calls of tools in {count} spans");
}
