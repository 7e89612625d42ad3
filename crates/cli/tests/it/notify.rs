//! What waits reaches a person: in a terminal as a count, from a server by a webhook, whatever dies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::{BINARY, Home, kill};

/// How long anything may take before the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_terminal_says_how_much_waits_and_where() {
    let home = Home::new();
    let ran = home.run(&["pending"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "nothing waits for an answer\n"));
    home.feed(&["chat", "--session", "s"], "send hello to Bob\n");
    let ran = home.run(&["pending"]);
    assert!(ran.out.ends_with("\n1 waits for an answer, in 1 session\n"), "{}", ran.out);
    // What waits here is shown here.
    let ran = home.feed(&["chat", "--session", "s"], "");
    assert!(!ran.err.contains("waiting:") && ran.out.contains("approval wanted"), "{ran:?}");
    home.feed(&["chat", "--session", "t"], "send hello to Bob\n");
    let ran = home.run(&["pending"]);
    assert!(ran.out.ends_with("\n2 wait for an answer, in 2 sessions\n"), "{}", ran.out);
    let ran = home.feed(&["chat", "--session", "u"], "");
    let waiting = "waiting:  2 wait for an answer, in 2 other sessions: singletree pending\n";
    assert!(ran.err.ends_with(waiting), "{}", ran.err);
    let ran = home.feed(&["chat", "--session", "s"], "");
    assert!(ran.err.ends_with("waiting:  1 waits for an answer, in 1 other session: singletree pending\n"));
}

/// A server in a home, with an agent that asks before it sends.
struct Served {
    child: Child,
    at: String,
}

fn serve(home: &Home, hook: &TcpListener) -> Served {
    let script = json!({ "model": "s", "rules": [
        { "when": { "user": ["send"] }, "then": { "calls": [
            { "tool": "send_message", "arguments": { "to": "Bob", "body": "CONTENT" } } ] } },
    ] });
    std::fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    let port = hook.local_addr().unwrap().port();
    let file = format!(
        "[models.m]\nwire = \"script\"\nfile = \"script.json\"\n[agents.a]\ninstructions = \"x\"\ntools = [\"outbox\"]\n\
         [notify.default]\nurl = \"http://127.0.0.1:{port}/hook\"\nsecret = {{ env = \"HOOK\" }}\n"
    );
    std::fs::write(home.path().join("singletree.toml"), file).unwrap();
    let mut command: Command = home.command(BINARY);
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("HOOK", "a secret that signs what is sent");
    command.current_dir(home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let at = line.trim().rsplit_once("http://").unwrap_or_else(|| panic!("{line:?}")).1.to_owned();
    Served { child, at }
}

impl Served {
    fn post(&self, path: &str, body: &Value) -> String {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.at).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that waits for another process gives up in time")]
fn begun() -> Instant {
    Instant::now()
}

/// Takes the next delivery: its id and its body, and who waits for the answer.
fn delivered(hook: &TcpListener) -> (String, Value, TcpStream) {
    hook.set_nonblocking(true).unwrap();
    let begun = begun();
    let stream = loop {
        match hook.accept() {
            Ok((stream, _)) => break stream,
            Err(_) if begun.elapsed() < PATIENCE => std::thread::yield_now(),
            Err(error) => panic!("nothing came: {error}"),
        }
    };
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let (mut id, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().split_once(": ") {
            Some(("webhook-id", value)) => id = value.to_owned(),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (id, serde_json::from_slice(&body).unwrap(), reader.into_inner())
}

/// Returns how many notices are stored.
fn stored(home: &Home) -> u64 {
    let db = rusqlite::Connection::open(home.db()).unwrap();
    db.query_row("SELECT count(*) FROM document WHERE kind = 'notice'", [], |row| row.get::<_, i64>(0))
        .unwrap()
        .cast_unsigned()
}

// INV-2, at least once: the process dies when the endpoint has the notice and nobody knows that it has.
#[test]
fn a_notice_is_told_again_under_its_id_when_the_server_is_killed_while_it_tells_it() {
    let home = Home::new();
    let hook = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = serve(&home, &hook);
    let answer = served.post("/v1/sessions/s/messages", &json!({ "content": "send" }));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("suspended"), "{answer}");
    let (id, body, waiting) = delivered(&hook);
    kill(served.child);
    drop(waiting);
    assert_eq!(stored(&home), 1);
    assert_eq!((&body["type"], &body["data"]["session"]), (&json!("suspended"), &json!("s")));
    assert_eq!(
        (&body["data"]["action"], &body["data"]["risk"]),
        (&json!("send_message"), &json!("dangerous"))
    );
    assert!(!body.to_string().contains("CONTENT"), "{body}");

    let served = serve(&home, &hook);
    let (again, same, mut waiting) = delivered(&hook);
    assert_eq!((&again, &same), (&id, &body));
    waiting.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    let begun = begun();
    while stored(&home) > 0 {
        assert!(begun.elapsed() < PATIENCE, "it is not removed");
        std::thread::yield_now();
    }
    kill(served.child);
}
