//! A database of SQLite is moved into a PostgreSQL database, with everything in it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::home::Home;
use crate::postgres::{keep_picture, stream_lines};
use crate::serving::{Serving, exchange};
use singletree_test_store::PostgresServer;

/// Writes an agent that calculates where it is asked to, after an approval, and takes a second for another answer.
fn write_agent(home: &Home) {
    let script = json!({ "model": "x", "rules": [
        { "when": { "user": ["*calculate*"] },
          "then": { "calls": [{ "tool": "calculator", "arguments": { "expression": "1+1" } }] } },
        { "when": { "user": ["*calculate*"], "results": "any" }, "then": { "reply": "It is two." } },
        { "when": { "user": ["*"] }, "then": { "reply": "Word. ".repeat(20), "delay_ms": 50 } },
    ] });
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    let agents = "[models.m]\nwire = \"script\"\nfile = \"script.json\"\n\n\
        [agents.a]\ninstructions = \"Answer.\"\ntools = [\"calculator\"]\napproval = { ask = [\"calculator\"] }\n";
    fs::write(home.path().join("singletree.toml"), agents).unwrap();
}

fn say(server: &Serving, session: &str, text: &str) -> Value {
    server.ask("POST", &format!("/v1/sessions/{session}/messages"), &json!({ "content": text }))
}

/// Returns the ids of the events that the stream of a message has.
fn stream_ids(server: &Serving, session: &str, text: &str) -> Vec<String> {
    let path = format!("/v1/sessions/{session}/messages");
    let lines = stream_lines(server, &path, &json!({ "content": text }));
    lines.filter_map(|line| Some(line.strip_prefix("id: ")?.to_owned())).collect()
}

const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// Returns the answer to a request for a picture.
fn read_picture(server: &Serving, digest: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    write!(stream, "GET /v1/sessions/s/blobs/{digest} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Returns everything that is told of some sessions.
fn read_all(server: &Serving, sessions: &[&str]) -> Vec<String> {
    let of_session = ["", "/messages", "/turns", "/pending", "/usage", "/artifacts", "/export"];
    let paths = sessions
        .iter()
        .flat_map(|session| of_session.iter().map(move |part| format!("/v1/sessions/{session}{part}")));
    let all = ["/v1/sessions".to_owned(), "/v1/pending".to_owned(), "/v1/usage".to_owned()].into_iter();
    let read = |path: String| {
        let answer = exchange(&server.url, "GET", &path, ("", &Value::Null)).unwrap();
        format!("{path} {}", answer.split_once("\r\n\r\n").unwrap().1)
    };
    all.chain(paths).map(read).collect()
}

#[test]
fn a_database_of_sqlite_goes_on_in_postgresql() {
    let Some(postgres) = PostgresServer::start("a_database_of_sqlite_goes_on_in_postgresql") else { return };
    let (home, url) = (Home::new(), postgres.create_database("moved"));
    write_agent(&home);
    let file = home.path().join("old.db").display().to_string();
    let server = Serving::start_in(&home, &["--db", &file]);
    assert_eq!(say(&server, "talk", "Hello.")["status"], "completed");
    assert_eq!(say(&server, "s", "Please calculate.")["status"], "suspended");
    let (_, picture) = keep_picture(&server, PICTURE);
    let before_deletion = stream_ids(&server, "gone", "Hello.");
    assert!(before_deletion.len() > 2, "{before_deletion:?}");
    server.ask("DELETE", "/v1/sessions/gone", &Value::Null);
    let told = read_all(&server, &["talk", "s"]);
    // The turn of one session is unfinished.
    let mut running = stream_lines(&server, "/v1/sessions/open/messages", &json!({ "content": "Go." }));
    assert!(running.any(|line| line.contains("delta")));
    let import = ["import", "--from", &file, "--store", &url];
    let refused = home.run(&import);
    assert_eq!(refused.code, 4, "{}", refused.err);
    server.stop();

    let ran = home.run(&import);
    let expected = "imported 3 sessions with 3 turns, and ";
    assert!(ran.code == 0 && ran.out.starts_with(expected), "{} {} {}", ran.code, ran.out, ran.err);
    // Nothing is imported into a database that is not empty.
    let again = home.run(&import);
    assert!(again.code == 4 && again.err.contains("not empty"), "{} {}", again.code, again.err);

    let server = Serving::start_in(&home, &["--store", &url]);
    let without_open = |all: Vec<String>| -> Vec<String> {
        all.into_iter()
            .filter(|it| !it.starts_with("/v1/sessions ") && !it.starts_with("/v1/usage "))
            .collect()
    };
    assert_eq!(without_open(read_all(&server, &["talk", "s"])), without_open(told));
    let blob = picture["blob"].as_str().unwrap_or_else(|| panic!("{picture}"));
    let digest = blob.trim_start_matches("blob:");
    assert!(read_picture(&server, digest).ends_with(PICTURE));
    // A session that is made again under the name of a deleted one goes on with its numbers.
    let after = stream_ids(&server, "gone", "Hello.");
    assert!(after.len() > 2 && after.iter().all(|id| !before_deletion.contains(id)), "{after:?}");
    // The turn that ran is finished once, and the wait takes its answer.
    let pending = server.ask("GET", "/v1/sessions/s/pending", &Value::Null);
    let (code, answered) = home.json(&["answer", "approve", "--store", &url, "--session", "s"]);
    assert_eq!((code, &answered["outcome"]), (0, &json!("completed")), "{pending} {answered}");
    while server.ask("GET", "/v1/sessions/open/turns", &Value::Null)["items"][0]["status"] != "completed" {}
    let messages = server.ask("GET", "/v1/sessions/open/messages", &Value::Null);
    assert_eq!(messages["items"].as_array().map(Vec::len), Some(2), "{messages}");
    server.terminate();
    let doctor = home.run(&["doctor", "--store", &url]);
    assert_eq!(
        (doctor.code, doctor.out.as_str()),
        (0, "4 sessions, 0 mended, 0 findings\n"),
        "{}",
        doctor.err
    );
}

#[test]
fn an_import_without_a_file_or_into_a_file_is_refused() {
    let home = Home::new();
    let file = home.path().join("old.db").display().to_string();
    let missing = home.run(&["import", "--from", &file, "--store", "postgres://u:canary@127.0.0.1:1/x"]);
    assert!(missing.code == 2 && missing.err.contains("there is no database"), "{}", missing.err);
    assert!(!missing.err.contains("canary"), "{}", missing.err);
    let into_file = home.run(&["import", "--from", &file]);
    assert!(into_file.code == 2 && into_file.err.contains("--store"), "{}", into_file.err);
}
