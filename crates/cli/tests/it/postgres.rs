//! The binary over a PostgreSQL database.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::thread;

use serde_json::{Value, json};

use crate::home::Home;
use crate::serving::Serving;
use crate::traces::{Collector, Spans};
use singletree_test_store::{PostgresServer, url_at};

/// How often a session of a killed process may be refused, one request after the other, until its lease has ended.
const REFUSALS_MAX: u32 = 100_000;

/// A part of the reply of the slow agent.
pub(crate) const REPLY: &str = "Word. ";

/// Returns the texts of a session, each with its author.
pub(crate) fn read_texts(server: &Serving, session: &str) -> Vec<(String, String)> {
    let answer = server.ask("GET", &format!("/v1/sessions/{session}/messages"), &Value::Null);
    let items = answer["items"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = |message: &Value, key: &str| message[key].as_str().unwrap_or_default().to_owned();
    items.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

pub(crate) fn say(server: &Serving, text: &str) -> Value {
    server.ask("POST", "/v1/sessions/s/messages", &json!({ "content": text }))
}

/// Sends a message, and returns the lines of the stream of its turn.
fn stream_message(server: &Serving, text: &str) -> impl Iterator<Item = String> + use<> {
    stream_lines(server, "/v1/sessions/s/messages", &json!({ "content": text }))
}

/// Follows a turn to its end, after the last event that was seen.
fn follow_turn(server: &Serving, turn: &str, last: &str) -> impl Iterator<Item = String> + use<> {
    follow(server, &format!("turns/{turn}"), last)
}

/// Follows a part of the session, after the last event that was seen.
fn follow(server: &Serving, part: &str, last: &str) -> impl Iterator<Item = String> + use<> {
    follow_path(server, &format!("/v1/sessions/s/{part}"), last)
}

fn follow_path(server: &Serving, path: &str, last: &str) -> impl Iterator<Item = String> + use<> {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close");
    let request = format!("{head}\r\naccept: text/event-stream\r\nlast-event-id: {last}\r\n\r\n");
    (&stream).write_all(request.as_bytes()).unwrap();
    BufReader::new(stream).lines().map(Result::unwrap)
}

pub(crate) fn stream_lines(
    server: &Serving,
    path: &str,
    body: &Value,
) -> impl Iterator<Item = String> + use<> {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let body = body.to_string();
    let (host, length) = ("host: localhost\r\nconnection: close\r\naccept: text/event-stream", body.len());
    let head = format!("POST {path} HTTP/1.1");
    let request = format!(
        "{head}\r\n{host}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    (&stream).write_all(request.as_bytes()).unwrap();
    BufReader::new(stream).lines().map(Result::unwrap)
}

#[test]
fn a_conversation_in_postgresql_is_whole_after_a_kill() {
    let Some(postgres) = PostgresServer::start("a_conversation_in_postgresql_is_whole_after_a_kill") else {
        return;
    };
    let (home, url) = (Home::new(), postgres.create_database("whole"));
    let server = Serving::start(&home, &["--store", &url]);
    let answer = say(&server, "what time is it?");
    assert_eq!(answer["status"], "completed", "{answer}");
    let before = read_texts(&server, "s");
    assert!(before.len() >= 2, "{before:?}");
    server.stop();
    // Reading does not wait for the lease of the dead process.
    let (code, shown) = home.json(&["sessions", "list", "--store", &url]);
    assert_eq!((code, shown["sessions"].as_array().map(Vec::len)), (0, Some(1)), "{shown}");
    let server = Serving::start(&home, &["--store", &url]);
    assert_eq!(read_texts(&server, "s"), before);
    // A message waits until then.
    let answered = say(&server, "and now?");
    assert_eq!(answered["status"], "completed", "{answered}");
    let after = read_texts(&server, "s");
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(after.iter().filter(|(_, text)| text == "and now?").count(), 1, "{after:?}");
    server.stop();
    let ran = home.run(&["doctor", "--store", &url]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1 sessions, 0 mended, 0 findings\n"), "{}", ran.err);
}

/// Serves an agent that takes two seconds for its reply.
pub(crate) fn serve_slow_agent(home: &Home, url: &str) -> Serving {
    let script = json!({ "model": "x", "rules": [{ "when": { "user": ["*"] },
        "then": { "reply": REPLY.repeat(20), "delay_ms": 100 } }] });
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    let agents =
        "[models.m]\nwire = \"script\"\nfile = \"script.json\"\n\n[agents.a]\ninstructions = \"Answer.\"\n";
    fs::write(home.path().join("singletree.toml"), agents).unwrap();
    Serving::start_in(home, &["--store", url])
}

// A list of conversations is up to date, whichever server shows it.
#[test]
fn what_happens_at_one_server_is_told_to_those_who_follow_all_sessions_at_the_other_one() {
    let test = "what_happens_at_one_server_is_told_to_those_who_follow_all_sessions_at_the_other_one";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("told"));
    let (one, two) = (Serving::start(&home, &["--store", &url]), Serving::start(&other, &["--store", &url]));
    let mut readers = [&one, &two].map(|server| {
        let mut lines = follow_path(server, "/v1/events", "");
        assert!(lines.any(|line| line == ": open"));
        lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
    });
    let mut expect_told = |expected: &[&str]| {
        for told in &mut readers {
            let told: Vec<Value> = told.take(expected.len()).collect();
            assert_eq!(told.iter().map(|event| &event["type"]).collect::<Vec<_>>(), expected, "{told:?}");
            assert!(told.iter().all(|event| event["session"] == "s"), "{told:?}");
        }
    };
    assert_eq!(say(&one, "send hello to Bob")["status"], "suspended");
    expect_told(&["session.created", "wait.began", "turn.ended"]);
    assert_eq!(two.ask("DELETE", "/v1/sessions/s", &Value::Null), Value::Null);
    expect_told(&["session.deleted"]);
    one.stop();
    two.stop();
}

// INV-1, INV-2: one of two servers dies in the middle of a turn.
#[test]
fn a_turn_of_a_killed_server_is_finished_once_by_the_other_one() {
    let test = "a_turn_of_a_killed_server_is_finished_once_by_the_other_one";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("two"));
    let (one, two) = (serve_slow_agent(&home, &url), serve_slow_agent(&other, &url));
    let mut told = stream_message(&one, "Hello.");
    let mut seen: Vec<String> = told.by_ref().take_while(|line| !line.contains("delta")).collect();
    seen.extend(told.next());
    // The session is the first server's.
    let (code, listed) = home.json(&["nodes", "--store", &url]);
    let nodes = listed["nodes"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let held: Vec<_> = nodes.iter().map(|node| (&node["alive"], &node["sessions"])).collect();
    assert_eq!((code, held), (0, vec![(&json!(true), &json!(1)), (&json!(true), &json!(0))]), "{listed}");
    one.stop();
    // Whoever followed the turn goes on at once, at the server that takes it over later.
    let turn = seen.iter().find_map(|line| line.split("\"turn\":\"").nth(1)?.split('"').next()).unwrap();
    let last = seen.iter().rev().find_map(|line| line.strip_prefix("id: ")).unwrap();
    let rest = follow_turn(&two, turn, last);
    // Until its lease has ended, nobody else may have it: a message waits so long.
    let answered = say(&two, "Me too.");
    assert_eq!(answered["status"], "completed", "{answered}");
    let rest: Vec<String> = rest.collect();
    let kinds = ["message.appended", "turn.completed"];
    let of = |kind: &str| rest.iter().filter(|line| line.contains(&format!("\"type\":\"{kind}\""))).count();
    assert_eq!(kinds.map(of), [1, 1], "{rest:?}");
    let reply = || ("assistant", REPLY.repeat(20));
    let expected = [("user", "Hello.".to_owned()), reply(), ("user", "Me too.".to_owned()), reply()];
    assert_eq!(read_texts(&two, "s"), expected.map(|(role, text)| (role.to_owned(), text)));
}

// A client need not know which of two servers has its conversation.
#[test]
fn a_server_sends_requests_for_a_session_on_to_the_server_that_owns_it() {
    let test = "a_server_sends_requests_for_a_session_on_to_the_server_that_owns_it";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("forward"));
    let (one, two) = (serve_slow_agent(&home, &url), Serving::start(&other, &["--store", &url]));
    assert_eq!(say(&one, "Hello.")["status"], "completed");
    let answered = say(&two, "And you?");
    assert_eq!(answered["status"], "completed", "{answered}");
    // The agent of the owner has answered, and the other server has not become the owner.
    let expected = ["Hello.", &REPLY.repeat(20), "And you?", &REPLY.repeat(20)];
    for server in [&one, &two] {
        let texts: Vec<String> = read_texts(server, "s").into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, expected);
    }
    let (code, listed) = home.json(&["nodes", "--store", &url]);
    let held = listed["nodes"].as_array().unwrap().iter().map(|node| node["sessions"].as_u64().unwrap());
    assert_eq!((code, held.sum::<u64>()), (0, 1), "{listed}");
    let addresses: Vec<_> =
        listed["nodes"].as_array().unwrap().iter().filter_map(|node| node["address"].as_str()).collect();
    assert!(addresses.contains(&one.url.as_str()) && addresses.contains(&two.url.as_str()), "{listed}");
    // A stream through the other server has the pieces of the answer as they come.
    let streamed: Vec<String> =
        stream_message(&two, "Once more.").take_while(|line| !line.contains("turn.completed")).collect();
    let deltas = streamed.iter().filter(|line| line.contains("delta")).count();
    assert!(deltas > 10, "{streamed:?}");
    // A protocol whose stream begins before the message is accepted.
    let message = json!({ "id": "m", "role": "user", "content": "And again." });
    let run = json!({ "threadId": "s", "runId": "r", "protocolVersion": "1.0", "messages": [message],
        "tools": [], "context": [], "state": {}, "forwardedProps": {} });
    let ran = stream_lines(&two, "/v1/agui", &run)
        .find(|line| line.contains("RUN_FINISHED") || line.contains("RUN_ERROR"));
    assert!(ran.as_ref().is_some_and(|line| line.contains("RUN_FINISHED")), "{ran:?}");
    let texts = read_texts(&one, "s");
    assert_eq!(texts.iter().filter(|(_, text)| text == "And again.").count(), 1, "{texts:?}");
    one.stop();
    two.stop();
}

/// Follows the events of the session while somebody says something at a server, to the end of that turn or of the stream.
fn follow_while_said(follower: &Serving, last: &str, (server, text): (&Serving, &str)) -> Vec<String> {
    let mut lines = follow(follower, "events", last);
    let mut seen: Vec<String> = lines.by_ref().take_while(|line| line != ": open").collect();
    thread::scope(|scope| {
        let following = scope.spawn(move || {
            let mut is_said = false;
            for line in lines {
                is_said |= line.contains(text);
                let is_over = is_said && line.contains("turn.completed") || line.starts_with("retry:");
                seen.push(line);
                if is_over {
                    break;
                }
            }
            seen
        });
        let answered = say(server, text);
        assert_eq!(answered["status"], "completed", "{answered}");
        following.join().unwrap()
    })
}

fn count_deltas(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains("\"type\":\"delta\"")).count()
}

// A page follows a session at one server, and the message comes to another one.
#[test]
fn who_follows_a_session_at_any_server_has_the_pieces_of_its_answers() {
    let test = "who_follows_a_session_at_any_server_has_the_pieces_of_its_answers";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("followed"));
    let (one, two) = (serve_slow_agent(&home, &url), serve_slow_agent(&other, &url));
    assert_eq!(say(&one, "Hello.")["status"], "completed");
    let id = |lines: &[String]| {
        lines.iter().rev().find_map(|line| Some(line.strip_prefix("id: ")?.to_owned())).unwrap()
    };
    let begun: Vec<String> =
        follow(&two, "events", "").take_while(|line| !line.contains("turn.completed")).collect();
    // The first server has the session: the stream comes from there.
    let seen = follow_while_said(&two, &id(&begun), (&one, "And you?"));
    assert!(count_deltas(&seen) > 10, "{seen:?}");
    let last = id(&seen);
    one.terminate();
    // Nobody has it, and the stream is that of the log; when another server has it, the reader comes back.
    let third = serve_slow_agent(&home, &url);
    let seen = follow_while_said(&two, &last, (&third, "Are you there?"));
    assert!(seen.last().is_some_and(|line| line.starts_with("retry:")), "{seen:?}");
    let last = seen.iter().rev().find_map(|line| line.strip_prefix("id: ")).unwrap_or(&last).to_owned();
    let seen = follow_while_said(&two, &last, (&third, "And now?"));
    assert!(count_deltas(&seen) > 10, "{seen:?}");
    // One whose owner died is shown from the log at once.
    let last = id(&seen);
    third.stop();
    let seen = follow_while_said(&two, &last, (&two, "Still there?"));
    assert!(seen.iter().any(|line| line.contains("Still there?")), "{seen:?}");
}

/// Serves an agent that waits for an approval, with a receiver of notices and one of traces.
fn serve_approvals(home: &Home, url: &str, (notices, traces): (&Collector, &Collector)) -> Serving {
    let script = json!({ "model": "x", "rules": [{ "when": { "user": ["*"] },
        "then": { "calls": [{ "tool": "calculator", "arguments": { "expression": "1+1" } }] } }] });
    fs::write(home.path().join("script.json"), script.to_string()).unwrap();
    fs::write(home.path().join("key"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let agents = format!(
        "[models.m]\nwire = \"script\"\nfile = \"script.json\"\n\n\
         [agents.a]\ninstructions = \"Answer.\"\ntools = [\"calculator\"]\napproval = {{ ask = [\"calculator\"] }}\n\n\
         [notify.default]\nurl = \"{}/notices\"\nsecret = {{ file = \"key\" }}\n\n[telemetry]\nendpoint = \"{}\"\n",
        notices.url, traces.url
    );
    fs::write(home.path().join("singletree.toml"), agents).unwrap();
    Serving::start_in(home, &["--store", url])
}

// Notices and traces of one database are sent by two servers, each of them once, and by the other one when one has ended.
#[test]
fn two_servers_send_each_notice_and_each_trace_once() {
    let Some(postgres) = PostgresServer::start("two_servers_send_each_notice_and_each_trace_once") else {
        return;
    };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("sent"));
    let (notices, traces) = (Collector::start(200), Collector::start(200));
    let receivers = (&notices, &traces);
    let (one, two) = (serve_approvals(&home, &url, receivers), serve_approvals(&other, &url, receivers));
    let say_in = |server: &Serving, session: u64| {
        let path = format!("/v1/sessions/s{session}/messages");
        let answered = server.ask("POST", &path, &json!({ "content": "Do it." }));
        assert_eq!(answered["status"], "suspended", "{answered}");
    };
    let roots = |spans: &Spans| spans.values().filter(|span| span.parent_span_id.is_empty()).count();
    std::thread::scope(|scope| {
        for (server, first) in [(&one, 0), (&two, 10)] {
            scope.spawn(move || (first..first + 10).for_each(|session| say_in(server, session)));
        }
    });
    let waits = |all: &[String]| all.iter().collect::<std::collections::BTreeSet<_>>().len();
    let read_notices = |count: usize| -> Vec<String> {
        let id =
            |head: &str| head.lines().find_map(|line| Some(line.strip_prefix("webhook-id: ")?.to_owned()));
        (0..count).map(|_| id(&notices.next().head).unwrap()).collect()
    };
    let told = read_notices(20);
    assert_eq!(waits(&told), 20, "{told:?}");
    let spans = traces.take_spans(|spans| roots(spans) == 20);
    // In the middle of its work or not: the other one may have its claims at once.
    one.terminate();
    for session in 20..25 {
        say_in(&two, session);
    }
    let later = read_notices(5);
    assert_eq!(waits(&[told, later].concat()), 25);
    let is_new = |id: &(Vec<u8>, Vec<u8>)| !spans.contains_key(id);
    let new_roots =
        |more: &Spans| more.iter().filter(|(id, span)| is_new(id) && span.parent_span_id.is_empty()).count();
    // Spans that were taken in the moment in which the first server ended may come again, as they were.
    let more = traces.take_spans(|more| new_roots(more) == 5);
    assert!(more.iter().all(|(id, span)| spans.get(id).is_none_or(|before| before == span)));
    two.stop();
    assert!(notices.try_next().is_none(), "a notice was sent twice");
}

/// Sends a picture, and returns the status and the body of the answer.
pub(crate) fn keep_picture(server: &Serving, bytes: &[u8]) -> (String, Value) {
    let stream = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
    let head = "POST /v1/sessions/s/blobs HTTP/1.1\r\nhost: localhost\r\nconnection: close";
    let head = format!("{head}\r\ncontent-type: image/png\r\ncontent-length: {}\r\n\r\n", bytes.len());
    (&stream).write_all(head.as_bytes()).unwrap();
    (&stream).write_all(bytes).unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    let body = lines.iter().rev().find_map(|line| serde_json::from_str(line).ok());
    (lines[0].clone(), body.unwrap_or_default())
}

// A picture may be larger than a request that is sent on, and needs no owner.
#[test]
fn a_large_picture_is_kept_at_whichever_server() {
    let test = "a_large_picture_is_kept_at_whichever_server";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("picture"));
    let (one, two) = (serve_slow_agent(&home, &url), Serving::start(&other, &["--store", &url]));
    assert_eq!(say(&one, "Hello.")["status"], "completed");
    let picture = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &vec![7; 3 << 20]].concat();
    let (status, kept) = keep_picture(&two, &picture);
    assert_eq!(
        (status.as_str(), kept["bytes"].as_u64()),
        ("HTTP/1.1 201 Created", Some(picture.len() as u64))
    );
    assert_eq!(keep_picture(&one, &picture), (status, kept));
}

// The owner of a session checks the key of a request that was sent on, and a key that is taken back counts nowhere.
#[test]
fn a_key_is_good_at_two_servers_until_one_of_them_takes_it_back() {
    let test = "a_key_is_good_at_two_servers_until_one_of_them_takes_it_back";
    let Some(postgres) = PostgresServer::start(test) else { return };
    let (home, other, url) = (Home::new(), Home::new(), postgres.create_database("keys"));
    let start = |home| Serving::start(home, &["--auth", "--store", &url]);
    let (one, two) = (start(&home), start(&other));
    let (code, made) = home.json(&["keys", "create", "--name", "shared", "--store", &url]);
    assert_eq!(code, 0, "{made}");
    let key = made["secret"].as_str().unwrap_or_else(|| panic!("{made}"));
    let say = |server: &Serving, key: &str| {
        server.ask_with_key(key, "/v1/sessions/s/messages", &json!({ "content": "what time is it?" }))
    };
    for server in [&one, &two] {
        let answered = say(server, key);
        assert_eq!(answered["status"], "completed", "{answered}");
        let refused = say(server, "another");
        assert_eq!(refused["error"]["category"], "server_unauthorized", "{refused}");
    }
    assert_eq!(home.run(&["keys", "revoke", made["key"]["id"].as_str().unwrap(), "--store", &url]).code, 0);
    let is_refused = |server: &Serving| say(server, key)["error"]["category"] == "server_key_revoked";
    for server in [&two, &one] {
        assert!((0..REFUSALS_MAX).any(|_| is_refused(server)), "{}", say(server, key));
    }
}

#[test]
fn a_command_beside_a_server_over_postgresql_goes_through_it() {
    let Some(postgres) = PostgresServer::start("a_command_beside_a_server_over_postgresql_goes_through_it")
    else {
        return;
    };
    let (home, url) = (Home::new(), postgres.create_database("beside"));
    let server = Serving::start(&home, &["--store", &url]);
    assert_eq!(say(&server, "what time is it?")["status"], "completed");
    // The session is the server's.
    let (code, sent) = home.json(&["send", "and now?", "--session", "s", "--store", &url]);
    assert_eq!((code, &sent["outcome"]), (0, &json!("completed")), "{sent}");
    let ran = home.run(&["keys", "create", "--store", &url]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let texts = read_texts(&server, "s");
    assert_eq!(texts.iter().filter(|(_, text)| text == "and now?").count(), 1, "{texts:?}");
}

#[test]
fn a_postgresql_database_that_cannot_be_used_is_refused_by_category() {
    let Some(postgres) =
        PostgresServer::start("a_postgresql_database_that_cannot_be_used_is_refused_by_category")
    else {
        return;
    };
    let home = Home::new();
    let refused = |url: &str, command: &[&str]| {
        let ran = home.run(&[command, &["--store", url]].concat());
        assert_eq!(ran.code, 4, "{ran:?}");
        ran.err
    };
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    let nowhere = refused(&url_at(home.path(), "nowhere"), &serve);
    assert!(nowhere.starts_with("error: store_unavailable: the database cannot be opened"), "{nowhere}");
    let url = postgres.create_database("refused");
    // A command that only reads makes no schema.
    let empty = refused(&url, &["sessions", "list"]);
    assert!(empty.contains("store_unavailable") && empty.contains("no server has used this"), "{empty}");
    postgres.run_sql("postgres", "ALTER DATABASE refused SET synchronous_commit = off");
    let volatile = refused(&url, &serve);
    assert!(volatile.starts_with("error: store_not_durable: ") && volatile.contains("off"), "{volatile}");
    postgres.run_sql("postgres", "ALTER DATABASE refused RESET synchronous_commit");
    assert_eq!(home.run(&["keys", "list", "--store", &url]).code, 0);
    postgres.run_sql("refused", "UPDATE singletree.meta SET version = 99");
    for command in [&serve[..], &["sessions", "list"]] {
        let newer = refused(&url, command);
        assert!(newer.starts_with("error: store_format_unsupported: ") && newer.contains("99"), "{newer}");
    }
}

#[test]
fn an_address_of_another_kind_is_refused_and_its_password_is_told_nowhere() {
    let home = Home::new();
    let refuse = |arguments: &[&str]| {
        let ran = home.run(arguments);
        assert!(ran.code != 0 && !ran.err.contains("s3cret") && !ran.out.contains("s3cret"), "{ran:?}");
        (ran.code, ran.err)
    };
    let (code, away) = refuse(&["keys", "list", "--store", "postgres://ann:s3cret@127.0.0.1:1/chat"]);
    assert_eq!(code, 4, "{away}");
    let (code, backup) = refuse(&["backup", "copy.db", "--store", "postgres://ann:s3cret@127.0.0.1:1/chat"]);
    assert!(code == 2 && backup.contains("pg_dump"), "{backup}");
    let (code, unset) = refuse(&["keys", "list", "--store-env", "NO_SUCH_VARIABLE"]);
    assert!(code == 2 && unset.contains("--store-env"), "{unset}");
    for address in ["10.0.0.5:8787", "https://", "https://ann:s3cret@10.0.0.5", "https://10.0.0.5/path"] {
        let ran = home.run(&["serve", "--address", address]);
        assert!(ran.code == 2 && ran.err.contains("a scheme and a host"), "{ran:?}");
    }
}
