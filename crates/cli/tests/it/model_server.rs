//! A model's server on this machine whose answers a test sets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

/// One request, as it came.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The first line and the headers.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A server of a model.
#[derive(Debug)]
pub(crate) struct ModelServer {
    pub(crate) url: String,
    asked: Receiver<Asked>,
}

impl ModelServer {
    /// Starts a server that answers each request by a function, until the test ends.
    pub(crate) fn start(answer: impl Fn(&Asked, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, asked) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let Some(request) = read(&stream) else { continue };
                answer(&request, &mut stream);
                // The test is over when nobody listens.
                if tell.send(request).is_err() {
                    return;
                }
            }
        });
        Self { url, asked }
    }

    /// Returns the next request that was answered.
    pub(crate) fn asked(&self) -> Asked {
        self.asked.recv_timeout(std::time::Duration::from_secs(30)).unwrap()
    }
}

pub(crate) fn read(stream: &TcpStream) -> Option<Asked> {
    let (head, body) = read_bytes(stream)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Asked { head, body })
}

/// Reads a request: the first line and the headers, and the body.
pub(crate) fn read_bytes(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Answers by a status and JSON.
pub(crate) fn answer(stream: &mut TcpStream, status: &str, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // Who does not wait for the answer has ended, and that is a test's matter.
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap_or_default();
}

/// Answers by a stream of pieces of text, as OpenAI streams them.
pub(crate) fn stream_text(stream: &mut TcpStream, pieces: &[&str]) {
    let delta = |it: &&str| json!({ "index": 0, "delta": { "content": *it }, "finish_reason": null });
    let end = json!({ "index": 0, "delta": {}, "finish_reason": "stop" });
    stream_choices(stream, pieces.iter().map(delta).chain([end]));
}

/// Answers by a stream of two pieces, the second of them once the test says so. A test that does not say so gets half
/// an answer.
pub(crate) fn stream_halves(stream: &mut TcpStream, [first, second]: [&str; 2], go_on: &Receiver<()>) {
    let chunk = |content: Value, end: Value| {
        let choice = json!({ "index": 0, "delta": content, "finish_reason": end });
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let begin = format!("{head}{}", chunk(json!({ "content": first }), Value::Null));
    stream.write_all(begin.as_bytes()).unwrap_or_default();
    if go_on.recv_timeout(std::time::Duration::from_secs(30)).is_err() {
        return;
    }
    let end = chunk(json!({ "content": second }), Value::Null) + &chunk(json!({}), json!("stop"));
    stream.write_all(format!("{end}data: [DONE]\n\n").as_bytes()).unwrap_or_default();
}

/// Answers by a stream that calls one tool.
pub(crate) fn stream_call(stream: &mut TcpStream, tool: &str, arguments: &Value) {
    let function = json!({ "name": tool, "arguments": arguments.to_string() });
    let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
    let delta = json!({ "index": 0, "delta": { "tool_calls": [call] }, "finish_reason": null });
    let end = json!({ "index": 0, "delta": {}, "finish_reason": "tool_calls" });
    stream_choices(stream, [delta, end]);
}

fn stream_choices(stream: &mut TcpStream, choices: impl IntoIterator<Item = Value>) {
    let mut text =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned();
    for choice in choices {
        let chunk = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": [choice] });
        text.push_str(&format!("data: {chunk}\n\n"));
    }
    text.push_str("data: [DONE]\n\n");
    stream.write_all(text.as_bytes()).unwrap_or_default();
}
