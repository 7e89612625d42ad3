//! Servers of the previous version of the binary beside servers of this one, over one PostgreSQL database. `.ci/upgrade`
//! builds the previous version, the last one with another version of the database, and names it in `SINGLETREE_PREVIOUS`.

use std::io::Write;

use serde_json::{Value, json};
use singletree_test_store::PostgresServer;

use crate::home::{BINARY, Home};
use crate::rolling::{COMPACTION, Version, approve, replace_under_load, serve_agent};
use crate::serving::{Serving, exchange};

/// How often a turn is read until it has ended.
const READS_MAX: u32 = 100_000;

/// How often a message is sent until it is answered: a previous version may refuse while a session goes elsewhere.
const ATTEMPTS_MAX: usize = 100_000;

/// Returns the previous binary; none, with a line that says so, where nobody has built it.
#[expect(clippy::disallowed_methods, reason = "the script names the binary")]
fn find_previous(test: &str) -> Option<String> {
    let previous = std::env::var("SINGLETREE_PREVIOUS").ok();
    if previous.is_none() {
        let line = format!("not run: {test}: SINGLETREE_PREVIOUS names no binary; .ci/upgrade sets it");
        writeln!(std::io::stderr(), "{line}").unwrap_or_default();
    }
    previous
}

/// Sends a message, again while its session is another server's, and checks the status of its turn.
fn send(server: &Serving, session: &str, content: &str, status: &str) {
    let path = format!("/v1/sessions/{session}/messages");
    let mut outcome = Value::Null;
    for _ in 0..ATTEMPTS_MAX {
        outcome = server.ask("POST", &path, &json!({ "content": content }));
        if outcome["error"]["category"] != "session_moving" {
            break;
        }
    }
    assert_eq!(outcome["status"], status, "{outcome}");
}

/// Reads the messages of a session.
fn messages(server: &Serving, session: &str) -> Value {
    server.ask("GET", &format!("/v1/sessions/{session}/messages?limit=100"), &Value::Null)
}

/// Begins a turn that replies slowly, and returns its id.
fn begin(server: &Serving, session: &str) -> String {
    let body = json!({ "content": "tell me a story" });
    let path = format!("/v1/sessions/{session}/messages");
    let answer = exchange(&server.url, "POST", &path, ("prefer: respond-async\r\n", &body)).unwrap();
    let accepted: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    accepted["id"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

/// Waits until a turn has ended, and returns it.
fn wait_for_turn(server: &Serving, session: &str, turn: &str) -> Value {
    let mut shown = Value::Null;
    for _ in 0..READS_MAX {
        shown = server.ask("GET", &format!("/v1/sessions/{session}/turns/{turn}"), &Value::Null);
        if ["completed", "errored"].iter().any(|status| shown["status"] == *status) {
            return shown;
        }
    }
    panic!("{shown}")
}

/// Writes something of every kind into sessions of this name, and leaves a turn that runs.
fn write_sessions(server: &Serving, name: &str) -> String {
    let [talk, wait, run] = ["talk", "wait", "run"].map(|kind| format!("{name}-{kind}"));
    for content in ["one", "two"] {
        send(server, &talk, content, "completed");
    }
    let of_talk = |part: &str| format!("/v1/sessions/{talk}/{part}");
    let artifact = json!({ "kind": "plan", "key": "main", "content": "Look." });
    let stored = server.ask("POST", &of_talk("artifacts"), &artifact);
    assert_eq!(stored["version"], json!(1), "{stored}");
    let forked = server.ask("POST", &of_talk("fork"), &json!({ "id": format!("{name}-fork") }));
    assert!(forked["error"].is_null(), "{forked}");
    send(server, &wait, "calculate", "suspended");
    let turn = begin(server, &run);
    let steered =
        server.ask("POST", &format!("/v1/sessions/{run}/steer"), &json!({ "content": "make it shorter" }));
    assert!(steered["error"].is_null(), "{steered}");
    turn
}

/// Goes on with sessions that another version has written, whose running turn was left by a process that was killed.
fn go_on(server: &Serving, name: &str, turn: &str, talk: &Value) {
    let [talked, wait, run] = ["talk", "wait", "run"].map(|kind| format!("{name}-{kind}"));
    let ended = wait_for_turn(server, &run, turn);
    assert_eq!(ended["status"], "completed", "{ended}");
    let shown = messages(server, &run).to_string();
    assert!(shown.contains("make it shorter"), "{shown}");
    assert_eq!(&messages(server, &talked), talk);
    send(server, &talked, "three", "completed");
    send(server, &format!("{name}-fork"), "three", "completed");
    let artifacts = server.ask("GET", &format!("/v1/sessions/{talked}/artifacts"), &Value::Null);
    assert_eq!(artifacts["items"][0]["content"], json!("Look."), "{artifacts}");
    let answered = approve(server, &wait);
    assert_eq!(answered["status"], "completed", "{answered}");
    let exported =
        exchange(&server.url, "GET", &format!("/v1/sessions/{talked}/export"), ("", &Value::Null)).unwrap();
    assert!(exported.contains("three"), "{exported}");
}

// INV-1: each version goes on with the sessions and the running turn of a killed process of the other one.
#[test]
fn each_version_goes_on_with_sessions_of_the_other_one() {
    let test = "each_version_goes_on_with_sessions_of_the_other_one";
    let Some(previous) = find_previous(test) else { return };
    let Some(postgres) = PostgresServer::start(test) else { return };
    let url = postgres.create_database("upgrade");
    let (home, other) = (Home::new(), Home::new());
    let [old, new] = [&*previous, BINARY].map(|program| Version { program, change: "" });
    // The old server is there first, so that the new one changes the database beside it.
    let writer = serve_agent(&home, &url, old);
    let reader = serve_agent(&other, &url, new);
    hand_over(writer, &reader, "old");
    reader.terminate();
    // An old server may also start after the change.
    let writer = serve_agent(&home, &url, new);
    let reader = serve_agent(&other, &url, old);
    hand_over(writer, &reader, "new");
    let shown = ["old", "new"].map(|name| messages(&reader, &format!("{name}-wait")));
    reader.terminate();
    let reader = serve_agent(&home, &url, new);
    assert_eq!(["old", "new"].map(|name| messages(&reader, &format!("{name}-wait"))), shown);
}

/// Lets one server write, kills it, and lets the other one go on.
fn hand_over(writer: Serving, reader: &Serving, name: &str) {
    let turn = write_sessions(&writer, name);
    let talk = messages(&writer, &format!("{name}-talk"));
    writer.stop();
    go_on(reader, name, &turn, &talk);
}

// INV-1, INV-2, D33: servers of the previous version are replaced under load, with and without a changed agent.
#[test]
fn a_client_that_tries_again_is_answered_while_servers_are_upgraded() {
    let test = "a_client_that_tries_again_is_answered_while_servers_are_upgraded";
    let Some(previous) = find_previous(test) else { return };
    let Some(postgres) = PostgresServer::start(test) else { return };
    for (database, change) in [("same_agent", ""), ("changed_agent", COMPACTION)] {
        let url = postgres.create_database(database);
        let old = Version { program: &previous, change: "" };
        let figures = replace_under_load(&url, (old, Version { program: BINARY, change }), ATTEMPTS_MAX);
        writeln!(std::io::stderr(), "upgrade, {database}: {figures}").unwrap_or_default();
    }
}
