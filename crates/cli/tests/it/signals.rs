//! Signals to a server: it reads its file again, ends when it is asked to, and waits for nobody who does not read.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::home::{BINARY, Home};
use crate::serving::ask;

/// How long anything may take before it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose log is read.
struct Logged {
    child: Child,
    url: String,
    log: BufReader<ChildStderr>,
}

impl Logged {
    fn start(home: &Home) -> Self {
        let mut command = home.command(BINARY);
        command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("singletree listens at ").unwrap_or_else(|| panic!("{line:?}"));
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { url: url.to_owned(), child, log }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads the log up to the next line of a kind.
    fn next(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ended");
            match serde_json::from_str::<Value>(&line) {
                Ok(line) if line["kind"] == kind => return line,
                _ => {}
            }
        }
    }

    fn say(&self, session: &str) -> Value {
        ask(&self.url, "POST", &format!("/v1/sessions/{session}/messages"), &json!({ "content": "Hello." }))
    }
}

/// Writes the files of an agent that says this.
fn write_agent(home: &Home, reply: &str) {
    let script =
        json!({ "model": "x", "rules": [{ "when": { "user": ["*"] }, "then": { "reply": reply } }] });
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    let file = "[models.script]\nwire = \"script\"\nfile = \"script.json\"\n\n[agents.a]\ninstructions = \"Speak.\"\n";
    fs::write(home.path().join("singletree.toml"), file).unwrap();
}

/// Waits until a process has ended, and returns its code.
fn ended(mut child: Child) -> i32 {
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(child.wait().unwrap()).unwrap());
    let status = told.recv_timeout(PATIENCE).expect("it does not end");
    status.code().unwrap_or_else(|| panic!("it was killed: {status}"))
}

#[test]
fn a_hangup_reads_the_file_again_and_a_wrong_file_changes_nothing() {
    let home = Home::new();
    write_agent(&home, "First.");
    let mut server = Logged::start(&home);
    assert_eq!(server.say("s")["replies"][0]["content"], "First.");
    fs::write(home.path().join("singletree.toml"), "[agents.a]\nno_such_key = 1\n").unwrap();
    server.signal(Signal::HUP);
    let refused = server.next("reload");
    assert_eq!(refused["state"], "refused");
    assert!(refused["why"].as_str().unwrap().contains("no_such_key"), "{refused}");
    assert_eq!(server.say("s")["replies"][0]["content"], "First.");
    write_agent(&home, "Second.");
    server.signal(Signal::HUP);
    assert_eq!(server.next("reload")["state"], "accepted");
    assert_eq!(server.next("reload")["state"], "applied");
    assert_eq!(server.say("s")["replies"][0]["content"], "Second.");
    let history = ask(&server.url, "GET", "/v1/sessions/s/messages", &Value::Null);
    assert_eq!(history["items"].as_array().unwrap().len(), 6, "{history}");
    server.signal(Signal::TERM);
    assert_eq!(ended(server.child), 0);
}

/// The file is changed again after it was accepted, while the server that ends still has a turn to finish.
#[test]
fn a_server_begins_anew_with_the_configuration_that_was_accepted() {
    let home = Home::new();
    write_agent(&home, "First.");
    let path = home.path().join("script.json");
    let slow = json!({ "model": "x", "rules": [{ "when": { "user": ["*"] },
        "then": { "reply": "First. ".repeat(20), "delay_ms": 100 } }] });
    fs::write(&path, slow.to_string()).unwrap();
    let mut server = Logged::start(&home);
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let body = json!({ "content": "Hello." }).to_string();
    let (host, length) = ("host: localhost\r\naccept: text/event-stream", body.len());
    let head = "POST /v1/sessions/slow/messages HTTP/1.1";
    let request = format!(
        "{head}\r\n{host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    (&stream).write_all(request.as_bytes()).unwrap();
    let mut told = BufReader::new(stream).lines();
    assert!(told.any(|line| line.unwrap().contains("delta")), "the turn runs");
    write_agent(&home, "Second.");
    server.signal(Signal::HUP);
    assert_eq!(server.next("reload")["state"], "accepted");
    fs::write(home.path().join("singletree.toml"), "[agents.a]\nno_such_key = 1\n").unwrap();
    assert_eq!(server.next("reload")["state"], "applied");
    assert_eq!(server.say("s")["replies"][0]["content"], "Second.");
    server.signal(Signal::TERM);
    assert_eq!(ended(server.child), 0);
}

/// A file that is well formed, but from which no server can be started, is refused like one with mistakes.
#[test]
fn a_hangup_with_a_configuration_that_cannot_be_served_changes_nothing() {
    let home = Home::new();
    write_agent(&home, "First.");
    let mut server = Logged::start(&home);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let right = fs::read_to_string(home.path().join("singletree.toml")).unwrap();
    let mut refused = |file: Option<String>, why: &str| {
        let path = home.path().join("singletree.toml");
        match file {
            Some(more) => fs::write(path, format!("{right}{more}")).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
        server.signal(Signal::HUP);
        let told = server.next("reload");
        assert_eq!(told["state"], "refused", "{told}");
        assert!(told["why"].as_str().unwrap().contains(why), "{told}");
        assert_eq!(server.say("s")["replies"][0]["content"], "First.");
    };
    let served = |line: &str| Some(format!("\n[server]\n{line}\n"));
    refused(served(&format!("admin = \"{taken}\"")), &format!("cannot listen at {taken}"));
    refused(served(&format!("metrics = \"{taken}\"")), &format!("cannot listen at {taken}"));
    refused(served("admin = \"0.0.0.0:0\""), "nobody would be asked for a key");
    fs::create_dir(home.path().join("folder")).unwrap();
    refused(served("narration_file = \"folder\""), "folder");
    refused(None, "does not exist any more");
    // A new address is open before the old server ends.
    write_agent(&home, "Second.");
    let path = home.path().join("singletree.toml");
    let file = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{file}\n[server]\nadmin = \"localhost:0\"\n")).unwrap();
    server.signal(Signal::HUP);
    assert_eq!(server.next("reload")["state"], "accepted");
    assert_eq!(server.next("reload")["state"], "applied");
    assert_eq!(server.say("s")["replies"][0]["content"], "Second.");
    server.signal(Signal::TERM);
    assert_eq!(ended(server.child), 0);
}

#[test]
fn a_log_that_nobody_reads_keeps_no_server_from_ending() {
    let home = Home::new();
    write_agent(&home, "Hello.");
    let server = Logged::start(&home);
    // More than a pipe holds.
    let request = b"GET /v1/sessions/none HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    for _ in 0..1500 {
        stream.write_all(request).unwrap();
        read_answer(&mut answers);
    }
    drop((stream, answers));
    server.signal(Signal::TERM);
    assert_eq!(ended(server.child), 0);
}

/// Reads an answer off a connection that stays open.
fn read_answer(answers: &mut impl BufRead) {
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        assert!(answers.read_line(&mut line).unwrap() > 0, "the connection ended");
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    std::io::Read::read_exact(answers, &mut body).unwrap();
}
