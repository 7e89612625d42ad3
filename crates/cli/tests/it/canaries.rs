//! Keys, and the texts of conversations, are in nothing that a server writes for operators: its lines, its metrics as they are
//! shown and sent, its traces (INV-16, telemetry).

use std::fs::{self, File};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::{BINARY, Home};
use crate::model_server::{ModelServer, answer, stream_call, stream_text};
use crate::serving::{Serving, exchange};
use crate::traces::Collector;

/// What the model's server wants to be shown; its errors repeat it.
const KEY: &str = "canary-key";

/// What the receiver of traces wants to be shown.
const RECEIVER_KEY: &str = "canary-receiver";

/// Texts of the conversation: of the user, of the model, of a call and its result, of an error, of the agent.
const TEXTS: [&str; 5] =
    ["canary-said", "canary-answered", "canary-argument", "canary-broken", "canary-brief"];

fn write_agent(home: &Home, model: &str, receiver: &str, more: &str) {
    fs::write(home.path().join("key"), KEY).unwrap();
    fs::write(home.path().join("receiver"), RECEIVER_KEY).unwrap();
    let text = format!(
        "[models.m]\nwire = \"openai\"\nname = \"x\"\nbase_url = \"{model}\"\nkey = {{ file = \"key\" }}\n\n\
         [agents.a]\ninstructions = \"canary-brief\"\ntools = [\"calculator\"]\n\n[server]\nlog = true\n\n\
         [telemetry]\nendpoint = \"{receiver}\"\nprofile = \"genai\"\nheaders = {{ x-api-key = {{ file = \"receiver\" }} }}\n\
         metrics = true\nmetrics_every = \"1h\"\n{more}"
    );
    fs::write(home.path().join("singletree.toml"), text).unwrap();
}

/// Starts a model's server: a call of a tool first, a text after its result, and an error that repeats the key where the
/// user says so.
fn start_model() -> ModelServer {
    ModelServer::start(|asked, stream| {
        let said = asked.body["messages"].to_string();
        if said.contains("fail") {
            let told = json!({ "error": { "message": format!("{KEY} is no key for canary-broken") } });
            answer(stream, "401 Unauthorized", &told);
        } else if said.contains("\"role\":\"tool\"") {
            stream_text(stream, &["canary-", "answered"]);
        } else {
            stream_call(stream, "calculator", &json!({ "expression": "canary-argument" }));
        }
    })
}

/// Runs two turns, one of which fails, and returns all that the server wrote for operators, and the conversation as it shows it to users.
fn collect_outputs(more: &str) -> (Vec<(&'static str, String)>, String) {
    let (home, model, receiver) = (Home::new(), start_model(), Collector::start(200));
    write_agent(&home, &model.url, &receiver.url, more);
    let lines = home.path().join("lines");
    let mut command = home.command(BINARY);
    command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]);
    let child = command.stdout(Stdio::piped()).stderr(File::create(&lines).unwrap()).spawn().unwrap();
    let server = Serving::of(child);
    for (session, content) in [("s", "canary-said"), ("f", "fail canary-said")] {
        server.ask("POST", &format!("/v1/sessions/{session}/messages"), &json!({ "content": content }));
    }
    let shown = server.ask("GET", "/v1/sessions/s/messages", &Value::Null).to_string();
    let metrics = exchange(&server.url, "GET", "/metrics", ("", &Value::Null)).unwrap();
    let (mut sent, mut turns) = (Vec::new(), 0);
    while turns < 2 {
        let next = receiver.next();
        turns += next.spans().iter().filter(|span| span.parent_span_id.is_empty()).count();
        sent.push(next);
    }
    server.terminate();
    sent.extend(std::iter::from_fn(|| receiver.try_next()));
    let mut outputs = vec![("/metrics", metrics), ("lines", fs::read_to_string(&lines).unwrap())];
    for sent in sent {
        let kind = if sent.head.starts_with("post /v1/metrics ") { "sent metrics" } else { "traces" };
        outputs.push((kind, String::from_utf8_lossy(&sent.body).into_owned()));
    }
    for kind in ["/metrics", "lines", "sent metrics", "traces"] {
        let has_some = outputs.iter().any(|(of, text)| *of == kind && !text.is_empty());
        assert!(has_some, "there are no {kind}");
    }
    (outputs, shown)
}

#[test]
fn operators_are_told_neither_keys_nor_texts() {
    let (outputs, shown) = collect_outputs("");
    for text in &TEXTS[..3] {
        assert!(shown.contains(text), "{text} is part of the conversation: {shown}");
    }
    for (kind, text) in &outputs {
        for canary in TEXTS.iter().chain([&KEY, &RECEIVER_KEY]) {
            assert!(!text.contains(canary), "{canary} is in the {kind}: {text}");
        }
    }
}

#[test]
fn texts_that_are_wanted_are_in_traces_alone_and_keys_nowhere() {
    let (outputs, _) = collect_outputs("payloads = true\n");
    for (kind, text) in &outputs {
        for key in [KEY, RECEIVER_KEY] {
            assert!(!text.contains(key), "{key} is in the {kind}: {text}");
        }
        let has_texts = TEXTS.iter().any(|canary| text.contains(canary));
        assert!(!has_texts || *kind == "traces", "a text is in the {kind}: {text}");
    }
    let traces: String =
        outputs.iter().filter(|(kind, _)| *kind == "traces").map(|(_, text)| &**text).collect();
    for text in &TEXTS[..3] {
        assert!(traces.contains(text), "{text} is wanted in the traces");
    }
}
