//! The model's server, and the ways in which it errs.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::model_server::{Asked, answer, read};

/// When it errs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// In its first answer of a turn, which should call the tool.
    FirstCall,
    /// In its first answer after the tool has run.
    FirstAnswer,
    /// In each answer from the beginning on.
    Always,
    /// In each answer until the tool has run.
    AlwaysBefore,
    /// In each answer after the tool has run.
    AlwaysAfter,
}

/// One way to err.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) when: When,
    pub(crate) err: fn(&mut TcpStream, &str),
    /// How the turn may end: `completed`, or a category.
    pub(crate) ends: &'static [&'static str],
    /// How often the tool acts.
    pub(crate) effects: usize,
}

impl Way {
    /// Returns the user's message: each way over each wire has its own text.
    pub(crate) fn text(&self, wire: &str) -> String {
        format!("do {} over {wire}", self.name)
    }
}

const DONE: &[&str] = &["completed"];

pub(super) const fn way(name: &'static str, when: When, err: fn(&mut TcpStream, &str)) -> Way {
    Way { name, when, err, ends: DONE, effects: 1 }
}

pub(super) const fn fails(
    name: &'static str,
    when: When,
    err: fn(&mut TcpStream, &str),
    ends: &'static [&'static str],
) -> Way {
    let effects = match when {
        When::AlwaysAfter | When::FirstAnswer => 1,
        When::FirstCall | When::Always | When::AlwaysBefore => 0,
    };
    Way { name, when, err, ends, effects }
}

pub(crate) const WAYS: &[Way] = &[
    way("unknown-tool", When::FirstCall, |out, _| calls(out, &[("c1", "no_such_tool", "{}")], "tool_calls")),
    way("another-agents-tool", When::FirstCall, |out, _| {
        calls(out, &[("c1", "calculator", r#"{"expression":"1+1"}"#)], "tool_calls");
    }),
    way("bad-json", When::FirstCall, |out, _| {
        calls(out, &[("c1", "send_message", "{\"to\": \"Bob\", ")], "tool_calls")
    }),
    way("arguments-no-object", When::FirstCall, |out, _| {
        calls(out, &[("c1", "send_message", "[1,2]")], "tool_calls")
    }),
    way("wrong-arguments", When::FirstCall, |out, _| {
        calls(out, &[("c1", "send_message", r#"{"to": 7, "body": ["x"]}"#)], "tool_calls");
    }),
    way("extra-argument", When::FirstCall, |out, text| {
        let arguments = json!({ "to": "Bob", "body": text, "urgent": true }).to_string();
        calls(out, &[("c1", "send_message", &arguments)], "tool_calls");
    }),
    way("duplicate-ids", When::FirstCall, |out, text| {
        let arguments = json!({ "to": "Bob", "body": text }).to_string();
        calls(out, &[("same", "send_message", &arguments), ("same", "clock", "{}")], "tool_calls");
    }),
    way("empty-text", When::FirstAnswer, |out, _| text(out, &[""], "stop")),
    way("null-text", When::FirstAnswer, |out, _| {
        choices(out, &[json!({ "content": null }), json!({})], "stop")
    }),
    way("empty-for-ever", When::AlwaysAfter, |out, _| text(out, &[""], "stop")),
    way("error-reason", When::FirstAnswer, |out, _| text(out, &[], "error")),
    way("length", When::FirstAnswer, |out, _| text(out, &["All ", "do"], "length")),
    way("content-filter", When::FirstAnswer, |out, _| text(out, &["All "], "content_filter")),
    way("usage-of-nonsense", When::FirstAnswer, |out, _| {
        let end = json!({ "id": "c", "object": "chat.completion.chunk", "choices": [
            { "index": 0, "delta": { "content": "All done." }, "finish_reason": "stop" }],
            "usage": { "prompt_tokens": -7, "completion_tokens": "many", "total_tokens": 1e300 } });
        stream(out, &format!("data: {end}\n\ndata: [DONE]\n\n"));
    }),
    way("cut", When::FirstAnswer, |out, _| {
        let piece = chunk(&json!({ "content": "All " }), None);
        out.write_all(format!("{EVENT_STREAM}data: {piece}\n\ndata: {{\"id\"").as_bytes())
            .unwrap_or_default();
    }),
    way("closed-without-answer", When::FirstCall, |_, _| {}),
    way("stall", When::FirstAnswer, |out, _| {
        stall(out, Duration::from_secs(3));
        text(out, &["All done."], "stop");
    }),
    way("stall-for-ever", When::FirstAnswer, |out, _| stall(out, Duration::from_secs(8))),
    way("500-once", When::FirstAnswer, |out, _| {
        answer(out, "500 Oops", &json!({ "error": { "message": "oops" } }))
    }),
    way("429-retry-after", When::FirstAnswer, |out, _| {
        raw(
            out,
            "429 Too Many Requests",
            "retry-after: 1\r\ncontent-type: application/json",
            r#"{"error":{"message":"slow down"}}"#,
        );
    }),
    way("429-bare", When::FirstAnswer, |out, _| answer(out, "429 Too Many Requests", &json!({}))),
    fails(
        "500-for-ever",
        When::AlwaysAfter,
        |out, _| answer(out, "500 Oops", &json!({})),
        &["provider_unavailable"],
    ),
    fails(
        "401",
        When::Always,
        |out, _| answer(out, "401 Unauthorized", &json!({ "error": { "message": "bad key" } })),
        &["provider_authentication"],
    ),
    fails(
        "403",
        When::Always,
        |out, _| answer(out, "403 Forbidden", &json!({ "error": { "message": "no" } })),
        &["provider_authentication"],
    ),
    fails(
        "404",
        When::Always,
        |out, _| {
            answer(
                out,
                "404 Not Found",
                &json!({ "error": { "message": "no such model", "code": "model_not_found" } }),
            )
        },
        &["provider_invalid_model"],
    ),
    fails(
        "html",
        When::AlwaysAfter,
        |out, _| raw(out, "200 OK", "content-type: text/html", "<html><body>Sign in</body></html>"),
        &["provider_invalid_response"],
    ),
    fails(
        "garbage",
        When::AlwaysAfter,
        |out, _| raw(out, "200 OK", "content-type: text/event-stream", "\u{1}\u{2}data data data\n\n\n"),
        &["provider_invalid_response", "provider_unavailable"],
    ),
    fails(
        "wrong-content-type",
        When::AlwaysAfter,
        |out, _| raw(out, "200 OK", "content-type: image/png", "{}"),
        &["provider_invalid_response", "provider_unavailable"],
    ),
    fails(
        "wrong-for-ever",
        When::Always,
        |out, _| calls(out, &[("c1", "no_such_tool", "{}")], "tool_calls"),
        &["provider_invalid_response"],
    ),
    fails(
        "endless-text",
        When::FirstAnswer,
        |out, _| {
            out.write_all(EVENT_STREAM.as_bytes()).unwrap_or_default();
            let piece =
                format!("data: {}\n\n", chunk(&json!({ "content": "on and on ".repeat(10_000) }), None));
            // Until the reader has enough, but for a reader that never has: 400 MB.
            for _ in 0..4_000 {
                if out.write_all(piece.as_bytes()).is_err() {
                    return;
                }
            }
        },
        &["provider_response_too_large", "provider_invalid_response"],
    ),
    fails(
        "one-huge-piece",
        When::FirstAnswer,
        |out, _| {
            let piece = chunk(&json!({ "content": "x".repeat(10 << 20) }), Some("stop"));
            stream(out, &format!("data: {piece}\n\ndata: [DONE]\n\n"));
        },
        &["provider_response_too_large", "provider_invalid_response", "completed"],
    ),
];

/// Sends nothing until the reader closes the connection, or for this long.
pub(super) fn stall(out: &mut TcpStream, length: Duration) {
    out.set_read_timeout(Some(length)).unwrap();
    out.read(&mut [0]).map(drop).unwrap_or_default();
}

pub(super) const EVENT_STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

pub(super) fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": [choice] })
}

fn stream(out: &mut TcpStream, events: &str) {
    out.write_all(format!("{EVENT_STREAM}{events}").as_bytes()).unwrap_or_default();
}

fn choices(out: &mut TcpStream, deltas: &[Value], finish: &str) {
    let mut events: String = deltas.iter().map(|delta| format!("data: {}\n\n", chunk(delta, None))).collect();
    events.push_str(&format!("data: {}\n\ndata: [DONE]\n\n", chunk(&json!({}), Some(finish))));
    stream(out, &events);
}

fn text(out: &mut TcpStream, pieces: &[&str], finish: &str) {
    let deltas: Vec<Value> = pieces.iter().map(|piece| json!({ "content": piece })).collect();
    choices(out, &deltas, finish);
}

fn calls(out: &mut TcpStream, calls: &[(&str, &str, &str)], finish: &str) {
    let call = |(index, (id, name, arguments)): (usize, &(&str, &str, &str))| json!({ "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    choices(out, &[json!({ "tool_calls": calls })], finish);
}

fn raw(out: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    out.write_all(format!("{head}{body}").as_bytes()).unwrap_or_default();
}

/// Returns the number at the end of a user's message, which some ways take.
pub(super) fn number(said: &str) -> usize {
    said.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no number: {said}"))
}

/// How often a model was asked in one turn, and how often it erred.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AskedCount {
    pub(crate) asked: u32,
    pub(crate) erred: u32,
}

/// A server that errs as the user's message says.
#[derive(Default)]
pub(crate) struct Failing {
    /// By the user's message.
    counts: Mutex<HashMap<String, AskedCount>>,
}

impl Failing {
    /// Starts it, each request on a thread of its own, and returns where it is.
    pub(crate) fn serve(self: Arc<Self>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let failing = self.clone();
                std::thread::spawn(move || {
                    if let Some(request) = read(&stream) {
                        failing.answer(&request, &mut stream);
                    }
                });
            }
        });
        url
    }

    /// Returns how often it was asked and has erred in the turn of a message.
    pub(crate) fn count(&self, said: &str) -> AskedCount {
        self.counts.lock().unwrap().get(said).copied().unwrap_or_default()
    }

    fn answer(&self, request: &Asked, out: &mut TcpStream) {
        let messages = request.body["messages"].as_array().cloned().unwrap_or_default();
        let role = |message: &Value, role: &str| message["role"] == role;
        let asked = messages.iter().rposition(|message| role(message, "user")).unwrap_or_default();
        let said =
            messages.get(asked).map(|message| super::wires::text_of(&message["content"])).unwrap_or_default();
        let name = said.split(' ').nth(1).unwrap_or_default();
        let mut ways = WAYS.iter().chain(super::cuts::CUTS).chain(super::stalls::STALLS);
        let Some(way) = ways.find(|way| way.name == name) else {
            return text(out, &["All done."], "stop");
        };
        let has_acted = messages.iter().skip(asked).any(|message| {
            role(message, "tool") && super::wires::text_of(&message["content"]).starts_with("Sent to")
        });
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(said.clone()).or_default();
        let errs = match way.when {
            When::FirstCall => count.erred == 0,
            When::FirstAnswer => has_acted && count.erred == 0,
            When::Always => true,
            When::AlwaysBefore => !has_acted,
            When::AlwaysAfter => has_acted,
        };
        count.asked += 1;
        count.erred += u32::from(errs);
        drop(counts);
        if errs {
            (way.err)(out, &said);
        } else if has_acted {
            text(out, &["All ", "done."], "stop");
        } else {
            let arguments = json!({ "to": "Bob", "body": said }).to_string();
            calls(out, &[("c2", "send_message", &arguments)], "tool_calls");
        }
    }
}
