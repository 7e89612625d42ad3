//! Commands beside a server that has the database open (U17): they go through it, and print as they do alone.

use serde_json::{Value, json};

use crate::home::Home;
use crate::serving::Serving;

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
