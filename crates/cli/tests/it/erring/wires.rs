//! The wires, each as its client reads it: the end of the turn, and the text that is shown.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::home::Home;

/// A turn as its client saw it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether it was told that the turn failed, or that its connection did.
    pub(crate) failed: bool,
    /// The text of the last message, where the wire shows text.
    pub(crate) text: Option<String>,
}

/// One wire.
pub(crate) struct Wire {
    pub(crate) name: &'static str,
    /// Says something in a session, and reads the answer to its end.
    pub(crate) say: fn(&str, &str, &str) -> Seen,
}

pub(crate) const WIRES: &[Wire] = &[
    Wire { name: "native", say: native },
    Wire { name: "native-stream", say: native_stream },
    Wire { name: "ui", say: ui },
    Wire { name: "agui", say: agui },
    Wire { name: "openai", say: openai },
    Wire { name: "openai-stream", say: openai_stream },
    Wire { name: "steerable", say: steerable },
    Wire { name: "terminal", say: terminal },
];

/// Returns the text of a content, be it a text or a list of parts.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Posts JSON, and returns the status and all that is answered.
fn post(url: &str, path: &str, accept: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.0\r\nhost: localhost\r\naccept: {accept}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    (status, body.to_owned())
}

/// Returns the data of the events of a stream.
fn events(body: &str) -> Vec<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect()
}

const EVENTS: &str = "text/event-stream";

fn native(url: &str, session: &str, text: &str) -> Seen {
    let path = format!("/v1/sessions/{session}/messages");
    let (_, body) = post(url, &path, "application/json", &json!({ "content": text }));
    let outcome: Value = serde_json::from_str(&body).unwrap_or_default();
    Seen { failed: outcome["status"] != "completed", text: None }
}

fn native_stream(url: &str, session: &str, text: &str) -> Seen {
    let path = format!("/v1/sessions/{session}/messages");
    let (_, body) = post(url, &path, EVENTS, &json!({ "content": text }));
    let mut texts: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let (mut failed, mut last) = (true, None);
    for event in events(&body) {
        match event["type"].as_str().unwrap_or_default() {
            "delta" => {
                let id = event["message_id"].as_str().unwrap_or_default().to_owned();
                let run = event["run"].as_u64().unwrap_or_default();
                let shown = texts.entry(id.clone()).or_default();
                // A piece of a higher run takes all earlier ones back.
                if run > shown.0 || event["so_far"] == true {
                    *shown = (run, String::new());
                }
                shown.1.push_str(event["text"].as_str().unwrap_or_default());
                last = Some(id);
            }
            "message.appended" if event["message"]["role"] == "assistant" => {
                let id = event["message_id"].as_str().unwrap_or_default().to_owned();
                // The record replaces the pieces.
                texts.insert(id.clone(), (u64::MAX, text_of(&event["message"]["content"])));
                last = Some(id);
            }
            "turn.completed" => failed = false,
            _ => {}
        }
    }
    Seen { failed, text: last.and_then(|id| texts.remove(&id)).map(|(_, text)| text) }
}

fn ui(url: &str, session: &str, text: &str) -> Seen {
    let message = json!({ "id": "u", "role": "user", "parts": [{ "type": "text", "text": text }] });
    let (_, body) = post(url, "/v1/ui", EVENTS, &json!({ "id": session, "message": message }));
    let (mut failed, mut ended, mut texts, mut last) =
        (false, false, BTreeMap::<String, String>::new(), None);
    for part in events(&body) {
        let id = part["id"].as_str().unwrap_or_default().to_owned();
        match part["type"].as_str().unwrap_or_default() {
            "text-start" => {
                texts.insert(id, String::new());
            }
            "text-delta" => {
                texts.entry(id.clone()).or_default().push_str(part["delta"].as_str().unwrap_or_default());
                last = Some(id);
            }
            "error" => failed = true,
            "finish" => ended = true,
            _ => {}
        }
    }
    Seen { failed: failed || !ended, text: last.and_then(|id| texts.remove(&id)) }
}

fn agui(url: &str, session: &str, text: &str) -> Seen {
    let message = json!({ "id": "u", "role": "user", "content": text });
    let run = json!({ "threadId": session, "runId": "r", "messages": [message], "tools": [], "context": [], "state": {} });
    let (_, body) = post(url, "/v1/agui", EVENTS, &run);
    let (mut failed, mut texts, mut last) = (true, BTreeMap::<String, String>::new(), None);
    for event in events(&body) {
        let id = event["messageId"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "TEXT_MESSAGE_START" => {
                texts.insert(id, String::new());
            }
            "TEXT_MESSAGE_CONTENT" => {
                texts.entry(id.clone()).or_default().push_str(event["delta"].as_str().unwrap_or_default());
                last = Some(id);
            }
            "RUN_FINISHED" => failed = false,
            _ => {}
        }
    }
    Seen { failed, text: last.and_then(|id| texts.remove(&id)) }
}

fn completion(session: &str, text: &str, streams: bool) -> Value {
    let messages = json!([{ "role": "user", "content": text }]);
    json!({ "model": "keeper", "stream": streams, "metadata": { "session_id": session }, "messages": messages })
}

/// Returns the last message of an answer: each message, and each text that replaces one, is a paragraph.
fn last_paragraph(answer: &str) -> String {
    answer.rsplit("\n\n").next().unwrap_or_default().to_owned()
}

fn openai(url: &str, session: &str, text: &str) -> Seen {
    let (status, body) =
        post(url, "/v1/chat/completions", "application/json", &completion(session, text, false));
    let answer: Value = serde_json::from_str(&body).unwrap_or_default();
    Seen {
        failed: status != 200,
        text: answer["choices"][0]["message"]["content"].as_str().map(last_paragraph),
    }
}

fn openai_stream(url: &str, session: &str, text: &str) -> Seen {
    let (status, body) = post(url, "/v1/chat/completions", EVENTS, &completion(session, text, true));
    let events = events(&body);
    let failed =
        status != 200 || !body.contains("[DONE]") || events.iter().any(|event| !event["error"].is_null());
    let pieces = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    Seen { failed, text: Some(last_paragraph(&pieces.collect::<String>())) }
}

fn steerable(url: &str, session: &str, text: &str) -> Seen {
    let path = format!("/v1/chats/{session}/send");
    let (_, body) = post(url, &path, EVENTS, &json!({ "content": text }));
    let (mut failed, mut done, mut texts, mut last) = (false, false, BTreeMap::<String, String>::new(), None);
    for event in events(&body) {
        match event["type"].as_str().unwrap_or_default() {
            "content" => {
                let id = event["messageId"].as_str().unwrap_or_default().to_owned();
                texts.entry(id.clone()).or_default().push_str(event["content"].as_str().unwrap_or_default());
                last = Some(id);
            }
            "error" => failed = true,
            "done" | "complete" | "end" => done = true,
            _ => {}
        }
    }
    Seen { failed: failed || !done, text: last.and_then(|id| texts.remove(&id)) }
}

/// `send` in a terminal beside the server. Its user reads what it prints: texts, indented lines about tools, and words
/// about a failure with an indented line that names the category.
fn terminal(url: &str, session: &str, text: &str) -> Seen {
    let ran = Home::new().run(&["send", text, "--session", session, "--url", url]);
    let lines: Vec<_> = ran.out.lines().collect();
    let failure = lines.iter().position(|line| line.starts_with("  ("));
    let said = &lines[..failure.map_or(lines.len(), |category| category.saturating_sub(1))];
    let last = said.last().filter(|line| !line.starts_with("  ")).copied().unwrap_or_default();
    Seen { failed: ran.code != 0, text: Some(last.to_owned()) }
}
