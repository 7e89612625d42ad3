//! The commands for scripts: their JSON output, and their exit codes.

use std::io::Read;

use serde_json::{Value, json};

use crate::home::{Home, kill};

/// Replaces the values that differ each time, after a check of their form.
fn plain(mut document: Value) -> Value {
    for name in ["turn", "invocation", "action", "signal"] {
        if let Some(value) = document.get_mut(name).filter(|it| it.is_string()) {
            assert!(value.as_str().is_some_and(|it| it.len() >= 10), "{name}: {value}");
            *value = name.into();
        }
    }
    document
}

/// Sends a message that needs an approval, and returns its signal and its turn.
fn suspended(home: &Home) -> (String, String) {
    let (code, document) = home.json(&["send", "send hello to Bob", "--session", "s"]);
    assert_eq!(code, 3, "{document}");
    let text = |name: &str| document[name].as_str().unwrap().to_owned();
    (text("signal"), text("turn"))
}

#[test]
fn send_tells_how_the_turn_ended() {
    let home = Home::new();
    let (code, document) = home.json(&["send", "thanks", "--session", "s"]);
    let reply = json!({ "role": "assistant", "content": "You are welcome." });
    let expected = json!({ "session": "s", "turn": "turn", "outcome": "completed", "replies": [reply] });
    assert_eq!((code, plain(document)), (0, expected));

    let (code, document) = home.json(&["send", "fail", "--session", "s"]);
    let expected = json!({
        "session": "s",
        "turn": "turn",
        "outcome": "errored",
        "bucket": "retryable_transient",
        "category": "provider_unavailable",
        "reply": "I had trouble responding. Try again in a moment.",
        "diagnostic": document["diagnostic"],
        "retry_safe": document["retry_safe"],
        "recorded": true,
    });
    assert!(document["diagnostic"].as_str().unwrap().contains("the demo fails"), "{document}");
    assert_eq!((code, plain(document)), (1, expected));

    let (code, document) = home.json(&["send", "send hello to Bob", "--session", "s"]);
    let metadata = &document["metadata"];
    let told = [&metadata["tool"], &metadata["effect"], &metadata["arguments"]];
    assert_eq!(
        told,
        [&json!("send_message"), &json!("destructive"), &json!({ "to": "Bob", "body": "hello" })]
    );
    let expected = json!({
        "session": "s",
        "turn": "turn",
        "outcome": "suspended",
        "invocation": "invocation",
        "signal": "signal",
        "wait": document["wait"],
        "action": "action",
        "metadata": metadata,
        "deadline": null,
        "payload_schema": document["payload_schema"],
        "pending_messages": document["pending_messages"],
        "resumed_by": null,
    });
    assert_eq!(document["pending_messages"].as_array().unwrap().len(), 1);
    assert_eq!((code, plain(document)), (3, expected));

    let (code, document) = home.json(&["send", "thanks", "--session", "s"]);
    assert_eq!((code, &document["category"]), (1, &json!("chat_session_suspended")));
}

// INV-7
#[test]
fn an_approval_is_answered_once_and_acts_once() {
    let home = Home::new();
    let (signal, _) = suspended(&home);
    let (code, document) = home.json(&["answer", &signal, "approve", "--from", "Ann"]);
    assert_eq!((code, &document["outcome"]), (0, &json!("completed")), "{document}");
    let (code, again) = home.json(&["answer", &signal, "approve", "--session", "s"]);
    assert_eq!((code, again), (0, document));
    let (code, other) = home.json(&["answer", &signal, "reject", "--session", "s"]);
    assert_eq!((code, &other["error"]["category"]), (1, &json!("chat_signal_conflict")));
    assert_eq!(home.outbox(), [json!({ "to": "Bob", "body": "hello" })]);
    let (_, document) = home.json(&["pending"]);
    assert_eq!(document, json!({ "pending": [] }));
    let db = rusqlite::Connection::open(home.db()).unwrap();
    let by: String = db.query_row("SELECT answered_by FROM wait", [], |row| row.get(0)).unwrap();
    assert_eq!(by, "Ann");
}

#[test]
fn a_rejection_acts_not_at_all_and_an_answer_may_be_an_object() {
    for answer in ["reject", r#"{"approved": false, "reason": "too early"}"#] {
        let home = Home::new();
        let (signal, _) = suspended(&home);
        let ran = home.run(&["answer", &signal, answer]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(
            ran.out.contains("  ! denied: ") && ran.out.ends_with("Nothing was sent to Bob.\n"),
            "{}",
            ran.out
        );
        assert_eq!(ran.out.contains("too early"), answer.contains("too early"), "{}", ran.out);
        assert_eq!(home.outbox(), [] as [Value; 0]);
    }
}

#[test]
fn an_answer_that_does_not_fit_consumes_nothing() {
    let home = Home::new();
    let (signal, _) = suspended(&home);
    let (code, document) = home.json(&["answer", &signal, r#"{"approved": "yes"}"#]);
    assert_eq!((code, &document["error"]["category"]), (1, &json!("suspension_resume_payload_invalid")));
    let (code, document) = home.json(&["answer", "another", "approve"]);
    assert_eq!((code, &document["error"]["category"]), (1, &json!("harness_signal_correlation_failed")));
    assert_eq!(home.json(&["pending", "--session", "s"]).1["pending"][0]["signal"], signal);
    assert_eq!(home.json(&["pending", "--session", "t"]).1, json!({ "pending": [] }));
}

// spec: D3
#[test]
fn a_key_makes_sending_again_harmless() {
    let home = Home::new();
    let send = |text: &str| home.json(&["send", text, "--session", "s", "--key", "k"]);
    let (code, first) = send("note: buy milk");
    assert_eq!(code, 0, "{first}");
    let (code, again) = send("note: buy milk");
    assert_eq!((code, &again["turn"], &again["replies"]), (0, &first["turn"], &first["replies"]));
    let (code, other) = send("note: buy bread");
    assert_eq!((code, &other["error"]["category"]), (1, &json!("chat_idempotency_conflict")));
    let (_, told) = home.json(&["send", "what are my notes", "--session", "s"]);
    assert_eq!(told["replies"][2]["content"], json!("Your notes:\nbuy milk"), "{told}");
    // In words, a stored outcome tells the same as a fresh one.
    let ran = home.run(&["send", "note: buy milk", "--session", "s", "--key", "k"]);
    assert_eq!(ran.out.lines().last(), Some("Done. Noted: buy milk"), "{ran:?}");
}

// spec: D10
#[test]
fn cancel_gives_up_what_waits() {
    let home = Home::new();
    let (_, turn) = suspended(&home);
    let (code, document) = home.json(&["cancel", &turn]);
    assert_eq!((code, &document["category"]), (0, &json!("chat_turn_cancelled")), "{document}");
    assert_eq!(home.json(&["pending"]).1, json!({ "pending": [] }));
    let (code, document) = home.json(&["cancel", "00000000-0000-4000-8000-000000000000"]);
    assert_eq!((code, &document["error"]["category"]), (1, &json!("chat_turn_unknown")));
    let (_, done) = home.json(&["send", "thanks", "--session", "s"]);
    let ran = home.run(&["cancel", done["turn"].as_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with("had ended already: ") && ran.out.ends_with(", completed\n"), "{}", ran.out);
}

// INV-2
#[test]
fn a_script_finishes_what_a_killed_one_left() {
    let home = Home::new();
    let mut child = home.spawn(&["send", "tell me a story", "--session", "s"]);
    child.stdout.take().unwrap().read_exact(&mut [0; 64]).unwrap();
    kill(child);
    let (code, _) = home.json(&["send", "thanks", "--session", "s"]);
    assert_eq!(code, 0);
    let (_, shown) = home.json(&["sessions", "show", "s"]);
    let said: Vec<&str> = shown["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["message"]["content"].as_str().unwrap())
        .collect();
    let [one, story, two, last] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!([*one, *two, *last], ["tell me a story", "thanks", "You are welcome."]);
    assert!(story.ends_with("wrote that down, too."), "{story}");
}
