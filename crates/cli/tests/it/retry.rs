//! Retries of failed turns: alone, beside a server, and in a chat (D29).

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::home::Home;
use crate::model_server::{ModelServer, answer, stream_call, stream_text};
use crate::serving::Serving;
use crate::terminal::Terminal;

const PROMPT: &str = "you> ";

/// A desk whose model refuses its first request and answers from then on.
fn recovering() -> (Desk, ModelServer) {
    let asked = AtomicUsize::new(0);
    let model = ModelServer::start(move |_, stream| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => answer(stream, "401 Unauthorized", &json!({ "error": { "message": "who are you" } })),
        _ => stream_text(stream, &["Here ", "again."]),
    });
    (desk(&model), model)
}

fn desk(model: &ModelServer) -> Desk {
    let desk = Desk::new();
    desk.write(
        "singletree.toml",
        &format!(
            "[models.x]\nwire = \"openai\"\nname = \"x\"\nbase_url = \"{}\"\nkey = {{ env = \"OPENAI_API_KEY\" }}\n\
             [agents.keeper]\ninstructions = \"Keep.\"\ntools = [\"outbox\"]\n\
             [approval]\nask = []\ntrust = [\"send_message\"]\n",
            model.url
        ),
    );
    desk
}

/// The roles of the messages of a history, in order.
fn history(home: &Home, session: &str) -> Vec<String> {
    let (_, shown) = home.json(&["sessions", "show", session]);
    let role = |entry: &Value| entry["message"]["role"].as_str().unwrap().to_owned();
    shown["history"].as_array().unwrap().iter().map(role).collect()
}

// spec: D29
#[test]
fn the_last_turn_is_retried_and_its_reply_printed() {
    let (desk, _model) = recovering();
    let (code, failed) = desk.json(&["send", "hello", "--session", "s"]);
    assert_eq!((code, &failed["category"]), (1, &json!("provider_authentication")), "{failed}");
    let ran = desk.run(&["retry"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "Here again.\n", ""));
    assert_eq!(history(&desk.home, "s"), ["user", "assistant"], "the message is there once");

    let ran = desk.run(&["retry", "--session", "s"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("the last turn of session s did not fail"), "{}", ran.err);
    let turn = failed["turn"].as_str().unwrap();
    let (code, refused) = desk.json(&["retry", turn]);
    assert_eq!((code, &refused["error"]["category"]), (1, &json!("chat_retry_superseded")), "{refused}");
    assert_eq!(refused["error"]["hint"], "retry only the newest turn of a conversation, once");
    let (code, refused) = desk.json(&["retry", turn, "--session", "other"]);
    assert_eq!((code, &refused["error"]["category"]), (1, &json!("chat_turn_unknown")), "{refused}");
}

// spec: D29
#[test]
fn a_retry_goes_on_from_what_the_turn_did_and_does_nothing_twice() {
    let asked = AtomicUsize::new(0);
    let model = ModelServer::start(move |_, stream| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => stream_call(stream, "send_message", &json!({ "to": "Bob", "body": "hello" })),
        1 => answer(stream, "401 Unauthorized", &json!({ "error": { "message": "who are you" } })),
        _ => stream_text(stream, &["It is sent."]),
    });
    let desk = desk(&model);
    let (code, failed) = desk.json(&["send", "tell Bob", "--session", "s"]);
    assert_eq!((code, &failed["outcome"]), (1, &json!("errored")), "{failed}");
    let (code, retried) = desk.json(&["retry", "--session", "s", "--key", "k"]);
    assert_eq!((code, &retried["replies"][0]["content"]), (0, &json!("It is sent.")), "{retried}");
    // The same key again is answered by the same turn.
    let (code, again) = desk.json(&["retry", failed["turn"].as_str().unwrap(), "--key", "k"]);
    assert_eq!((code, again), (0, retried));
    assert_eq!(desk.home.outbox().len(), 1);
    assert_eq!(history(&desk.home, "s"), ["user", "assistant", "tool", "assistant"]);
}

// spec: D29
#[test]
fn a_turn_is_retried_through_the_server_that_has_the_database() {
    let home = Home::new();
    let server = Serving::start(&home, &[]);
    let (_, failed) = home.json(&["send", "fail", "--session", "s"]);
    let turn = failed["turn"].as_str().unwrap();
    let (code, retried) = home.json(&["retry"]);
    assert_eq!((code, &retried["category"]), (1, &json!("provider_unavailable")), "{retried}");
    let (code, refused) = home.json(&["retry", turn]);
    assert_eq!((code, &refused["error"]["category"]), (1, &json!("chat_retry_superseded")), "{refused}");
    assert_eq!(refused["error"]["hint"], "retry only the newest turn of a conversation, once");
    let ran = home.run(&["retry", retried["turn"].as_str().unwrap()]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.out.contains("(provider_unavailable: "), "{}", ran.out);

    let elsewhere = Home::new();
    let ran = elsewhere.run(&["retry", "--url", &server.url]);
    assert!(ran.code == 2 && ran.err.contains("with --url, name the --session"), "{}", ran.err);
    let ran = elsewhere.run(&["retry", "--url", &server.url, "--session", "s"]);
    assert!(ran.code == 1 && ran.out.contains("(provider_unavailable: "), "{}", ran.err);
    assert_eq!(home.run(&["send", "thanks", "--session", "s"]).code, 0);
    let ran = elsewhere.run(&["retry", "--url", &server.url, "--session", "s"]);
    assert!(ran.code == 2 && ran.err.contains("send a message instead"), "{}", ran.err);
    let turns = server.ask("GET", "/v1/sessions/s/turns", &Value::Null);
    let retries: Vec<&Value> = turns["items"].as_array().unwrap().iter().map(|it| &it["retries"]).collect();
    assert_eq!(retries[..2], [&Value::Null, &json!(turn)], "{turns}");
    server.stop();
}

#[test]
fn a_chat_retries_by_a_command() {
    let home = Home::new();
    let chat = |args: &[&str]| {
        let mut terminal = Terminal::start(&home, args, &[]);
        terminal.say(PROMPT, "/retry");
        terminal.wait_for("nothing was said yet");
        terminal.say(PROMPT, "fail");
        terminal.wait_for("(provider_unavailable: ");
        terminal.say(PROMPT, "/retry");
        terminal.wait_for("(provider_unavailable: ");
        terminal.say(PROMPT, "thanks");
        terminal.wait_for("You are welcome.");
        terminal.say(PROMPT, "/retry");
        terminal.wait_for("send a message instead");
        terminal.say(PROMPT, "/quit");
        assert!(terminal.end().2.success());
    };
    chat(&["chat", "--session", "alone"]);
    let server = Serving::start(&home, &[]);
    chat(&["chat", "--session", "beside"]);
    server.stop();
}
