//! A server of every wire: calls two tools, twice, and then says that it is done.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use singletree_http::{BoxFuture, HttpRequest, HttpResponse, Result, Transport};
use singletree_providers::Wire;
use tokio::sync::{Notify, Semaphore};

/// How often the model calls tools before it is done.
const ROUNDS: usize = 2;

/// The server. Gives out its replies piece by piece, as many as it may.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) wire: Wire,
    sent: Mutex<Vec<Value>>,
    pieces: Arc<Semaphore>,
    waiting: Arc<Notify>,
}

impl Server {
    pub(super) fn new(wire: Wire) -> Arc<Self> {
        Self::gated(wire, Semaphore::MAX_PERMITS / 2)
    }

    /// Makes a server that stops after so many pieces.
    pub(super) fn gated(wire: Wire, pieces: usize) -> Arc<Self> {
        let pieces = Arc::new(Semaphore::new(pieces));
        Arc::new(Self { wire, sent: Mutex::default(), pieces, waiting: Arc::default() })
    }

    /// Waits until the server has stopped.
    pub(super) async fn is_waiting(&self) {
        self.waiting.notified().await;
    }

    pub(super) fn release(&self) {
        self.pieces.add_permits(1_000_000);
    }

    /// Returns every body that it was sent.
    pub(super) fn sent(&self) -> Vec<Value> {
        self.sent.lock().unwrap().clone()
    }

    /// Answers a request by how often tools were called since the user spoke.
    fn reply(&self, body: &Value) -> Vec<Bytes> {
        let messages =
            body[if self.wire == Wire::Gemini { "contents" } else { "messages" }].as_array().unwrap();
        let since_user = messages.iter().rev().take_while(|it| !is_user(it));
        let round =
            since_user.filter(|it| matches!(it["role"].as_str(), Some("assistant" | "model"))).count();
        // The last call of a history of interrupted turns is by its place, and no id comes twice.
        let no = messages.len();
        let events = match (self.wire, round < ROUNDS) {
            (Wire::OpenAi, calls) => openai(calls, no),
            (Wire::Anthropic, calls) => anthropic(calls, no),
            (Wire::Gemini, calls) => gemini(calls, no),
        };
        events.into_iter().map(|it| format!("data: {it}\n\n").into()).collect()
    }
}

/// Says whether it is a message in which the user speaks, and not one with results.
fn is_user(message: &Value) -> bool {
    let text = message.to_string();
    message["role"] == "user" && !text.contains("tool_result") && !text.contains("functionResponse")
}

impl Transport for Server {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let reply = self.reply(&body).into_iter();
        self.sent.lock().unwrap().push(body);
        let gate = (Arc::clone(&self.pieces), Arc::clone(&self.waiting), reply);
        let body = futures_util::stream::unfold(gate, |(pieces, waiting, mut reply)| async move {
            let piece = reply.next()?;
            if pieces.available_permits() == 0 {
                waiting.notify_one();
            }
            pieces.acquire().await.unwrap().forget();
            Some((Ok(piece), (pieces, waiting, reply)))
        });
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        Box::pin(async move { Ok(HttpResponse { status: 200, headers, body: Box::pin(body) }) })
    }
}

fn openai(calls: bool, no: usize) -> Vec<String> {
    let delta = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string();
    let end = |reason: &str| {
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] }).to_string()
    };
    let call = |index: usize, name: &str| {
        let function = json!({ "name": name, "arguments": "{\"city\":" });
        delta(
            json!({ "tool_calls": [{ "index": index, "id": format!("{name}_{no}"), "function": function }] }),
        )
    };
    let more = |index: usize| {
        delta(json!({ "tool_calls": [{ "index": index, "function": { "arguments": "\"Oslo\"}" } }] }))
    };
    let done = "[DONE]".to_owned();
    if !calls {
        return vec![
            delta(json!({ "content": "All " })),
            delta(json!({ "content": "done." })),
            end("stop"),
            done,
        ];
    }
    let text = delta(json!({ "content": "Let me look." }));
    vec![text, call(0, "look"), more(0), call(1, "act"), more(1), end("tool_calls"), done]
}

fn anthropic(calls: bool, no: usize) -> Vec<String> {
    let start = |index: usize, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let stop = |index: usize| json!({ "type": "content_block_stop", "index": index });
    let delta =
        |index: usize, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let message = json!({ "type": "message", "id": "m", "role": "assistant", "model": "m", "content": [], "usage": usage });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    let text = if calls { "Let me look." } else { "All done." };
    events.extend([
        start(0, json!({ "type": "text", "text": "" })),
        delta(0, json!({ "type": "text_delta", "text": text })),
        stop(0),
    ]);
    for (index, name) in [(1, "look"), (2, "act")].into_iter().filter(|_| calls) {
        let id = format!("{name}_{no}");
        events.extend([
            start(index, json!({ "type": "tool_use", "id": id, "name": name, "input": {} })),
            delta(index, json!({ "type": "input_json_delta", "partial_json": "{\"city\":\"Oslo\"}" })),
            stop(index),
        ]);
    }
    let reason = if calls { "tool_use" } else { "end_turn" };
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": usage }));
    events.push(json!({ "type": "message_stop" }));
    events.iter().map(Value::to_string).collect()
}

fn gemini(calls: bool, no: usize) -> Vec<String> {
    let parts = |parts: Value| json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": parts } }] });
    let call = |name: &str| {
        let call = json!({ "id": format!("{name}_{no}"), "name": name, "args": { "city": "Oslo" } });
        parts(json!([{ "functionCall": call }]))
    };
    let end = json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": [] }, "finishReason": "STOP" }] });
    let text = |text: &str| parts(json!([{ "text": text }]));
    let events = if calls {
        vec![text("Let me look."), call("look"), call("act"), end]
    } else {
        vec![text("All "), text("done."), end]
    };
    events.iter().map(Value::to_string).collect()
}
