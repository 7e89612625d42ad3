//! Commands beside a server that has the database open (U17): they go through it, and print as they do alone.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Child;
use std::sync::mpsc::{Sender, channel};

use serde_json::{Value, json};

use crate::home::Home;
use crate::model_server::{ModelServer, stream_halves};
use crate::serving::Serving;
use crate::terminal::Terminal;

#[test]
fn what_writes_goes_through_the_server_that_has_the_database() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let (code, sent) = home.json(&["send", "thanks", "--session", "s"]);
    assert_eq!((code, &sent["outcome"]), (0, &json!("completed")), "{sent}");
    assert_eq!(sent["replies"], json!([{ "role": "assistant", "content": "You are welcome." }]));

    let (code, failed) = home.json(&["send", "fail", "--session", "s"]);
    assert_eq!((code, &failed["category"]), (1, &json!("provider_unavailable")), "{failed}");

    let ran = home.run(&["send", "send hello to Bob", "--session", "s"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.out.contains("approval wanted: send_message (effect: destructive)"), "{}", ran.out);
    assert!(ran.out.contains(" approve --session s"), "{}", ran.out);
    // One thing waits: it needs no name.
    let (code, answered) = home.json(&["answer", "approve"]);
    assert_eq!((code, &answered["outcome"]), (0, &json!("completed")), "{answered}");

    let (code, waiting) = home.json(&["send", "send hello to Ann", "--session", "s"]);
    assert_eq!(code, 3, "{waiting}");
    let (code, cancelled) = home.json(&["cancel", waiting["turn"].as_str().unwrap()]);
    assert_eq!((code, &cancelled["category"]), (0, &json!("chat_turn_cancelled")), "{cancelled}");

    let (code, fork) = home.json(&["fork", "s", "--to", "f"]);
    assert_eq!((code, fork), (0, json!({ "forked": "f" })));
    let (code, deleted) = home.json(&["sessions", "delete", "f"]);
    assert_eq!((code, deleted), (0, json!({ "deleted": "f" })));
    let gone = server.ask("GET", "/v1/sessions/f", &Value::Null);
    assert_eq!(gone["error"]["category"], "chat_session_unknown", "{gone}");
    server.stop();
}

#[test]
fn a_chat_from_a_pipe_talks_to_a_server_by_its_address() {
    let (home, elsewhere) = (Home::new(), Home::new());
    let server = Serving::start(&home, &[]);
    let ran = elsewhere
        .feed(&["chat", "--url", &server.url, "--session", "s"], "my name is Ann\nwhat is my name\n");
    assert!(ran.out.ends_with("Your name is Ann.\n"), "{}", ran.out);
    assert_eq!(ran.code, 0);
    server.stop();
}

#[test]
fn a_message_may_come_from_the_standard_input() {
    let home = Home::new();
    assert_eq!(home.feed(&["send", "-", "--session", "s"], "thanks\n").out, "You are welcome.\n");
}

#[test]
fn an_answer_needs_a_name_where_more_than_one_thing_waits() {
    let home = Home::new();
    let ran = home.run(&["answer", "approve"]);
    assert!(ran.code == 2 && ran.err.contains("nothing waits for an answer"), "{}", ran.err);
    for session in ["s", "t"] {
        assert_eq!(home.run(&["send", "send hello to Bob", "--session", session]).code, 3);
    }
    let ran = home.run(&["answer", "approve"]);
    assert!(ran.code == 2 && ran.err.contains("2 wait for an answer, in 2 sessions"), "{}", ran.err);
    let ran = home.run(&["answer", "approve", "--session", "s"]);
    assert!(ran.code == 0 && ran.out.contains("Sent to Bob."), "{}", ran.out);
}

/// A server whose model says `Once upon`, and the rest when it is told to.
fn halting() -> (Home, ModelServer, Serving, Sender<()>) {
    let (go_on, told) = channel();
    let halves = ["Once upon", " a time."];
    let model = ModelServer::start(move |_, stream| stream_halves(stream, halves, &told));
    let home = Home::new();
    let file = format!(
        "[models.x]\nwire = \"openai\"\nname = \"x\"\nbase_url = \"{}\"\n[agents.teller]\ninstructions = \"Tell.\"\n",
        model.url
    );
    std::fs::write(home.path().join("singletree.toml"), file).unwrap();
    let server = Serving::start_in(&home, &[]);
    (home, model, server, go_on)
}

/// Reads the output of a process until these words, lets its model go on, and returns the whole output.
fn printed(mut child: Child, words: &str, go_on: &Sender<()>) -> String {
    let mut out = child.stdout.take().unwrap();
    let mut shown = String::new();
    while !shown.ends_with(words) {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).unwrap(), 1, "it ended after: {shown:?}");
        shown.push(char::from(byte[0]));
    }
    go_on.send(()).unwrap();
    out.read_to_string(&mut shown).unwrap();
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
}

#[test]
fn a_reply_is_printed_while_it_is_made_and_once() {
    let (home, _model, server, go_on) = halting();
    let child = home.spawn(&["send", "tell me", "--session", "s"]);
    assert_eq!(printed(child, "Once upon", &go_on), "Once upon a time.\n");
    let mut child = home.spawn(&["chat", "--session", "s"]);
    child.stdin.take().unwrap().write_all(b"again\n").unwrap();
    assert_eq!(printed(child, "Once upon", &go_on), "Once upon a time.\n");
    server.stop();
}

/// Passes connections on to a server; the first one only until these words have come back.
fn cutting(server: &Serving, words: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let to = server.url.trim_start_matches("http://").to_owned();
    std::thread::spawn(move || {
        for (nth, client) in listener.incoming().enumerate() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || pass(client, server, None));
            std::thread::spawn(move || pass(back.0, back.1, Some(words).filter(|_| nth == 0)));
        }
    });
    url
}

fn pass(mut from: TcpStream, mut to: TcpStream, until: Option<&str>) {
    let (mut bytes, mut seen) = ([0; 4096], String::new());
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
        seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
        if until.is_some_and(|words| seen.contains(words)) {
            break;
        }
    }
    for stream in [from, to] {
        stream.shutdown(Shutdown::Both).unwrap_or_default();
    }
}

#[test]
fn a_connection_that_breaks_is_taken_up_again_and_nothing_is_printed_twice() {
    let (home, _model, server, go_on) = halting();
    let url = cutting(&server, "Once upon");
    let child = home.spawn(&["send", "tell me", "--session", "s", "--url", &url]);
    assert_eq!(printed(child, "Once upon", &go_on), "Once upon a time.\n");
    let history = server.ask("GET", "/v1/sessions/s/messages", &Value::Null);
    assert_eq!(history["items"].as_array().unwrap().len(), 2, "{history}");
    server.stop();
}

#[test]
fn a_chat_beside_a_server_shows_tools_and_questions_as_it_does_alone() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let mut terminal = Terminal::start(&home, &["chat", "--session", "s"], &[]);
    terminal.say("you> ", "what is 6*7");
    terminal.wait_for("* calculator {\"expression\":\"6*7\"}");
    terminal.wait_for("= 42");
    terminal.wait_for("6*7 = 42");
    terminal.say("you> ", "send hello to Bob");
    terminal.wait_for("approval wanted: send_message");
    terminal.say("approve, reject or later? ", "approve");
    terminal.wait_for("Done. Sent to Bob.");
    terminal.say("you> ", "/quit");
    let (screen, _, status) = terminal.end();
    assert!(status.success());
    for once in ["* calculator", "6*7 = 42", "approval wanted", "* send_message", "Done. Sent to Bob."] {
        assert_eq!(screen.matches(once).count(), 1, "{once}: {screen}");
    }
    server.stop();
}

#[test]
fn a_chat_beside_a_server_lists_conversations_and_shows_its_own() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let mut terminal = Terminal::start(&home, &["chat", "--session", "s"], &[]);
    terminal.say("you> ", "/sessions");
    terminal.wait_for("there is no session yet");
    terminal.say("you> ", "/history");
    terminal.wait_for("nothing was said yet");
    terminal.say("you> ", "what is 6*7");
    terminal.wait_for("6*7 = 42");
    server.ask("POST", "/v1/sessions/other/messages", &json!({ "content": "thanks" }));
    terminal.say("you> ", "/sessions");
    terminal.wait_for("other  demo  ");
    terminal.wait_for("  2 messages");
    terminal.wait_for("s  demo  ");
    terminal.say("you> ", "/history");
    let shown = "you> what is 6*7\n  * calculator {\"expression\":\"6*7\"}\n  = 42\n6*7 = 42\n";
    terminal.wait_for(shown);
    // Of a long conversation the newest messages.
    for _ in 0..49 {
        server.ask("POST", "/v1/sessions/s/messages", &json!({ "content": "thanks" }));
    }
    terminal.say("you> ", "/history");
    terminal.wait_for("  (2 earlier messages)\n");
    terminal.say("you> ", "/dance");
    terminal.wait_for(
        "beside a server there are /sessions, /history, /narration, /artifacts, /show, /propose, /approve, /pending, /retry and /quit",
    );
    terminal.say("you> ", "/quit");
    assert!(terminal.end().2.success());
    server.stop();
}
