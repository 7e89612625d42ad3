//! A model's server on a thread of its own that answers at once, with answers made beforehand (OpenAI's wire).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::Failure;

/// The text of every piece of an answer.
pub(crate) const PIECE: &str = " word";

/// The server. Lives as long as the program.
#[derive(Debug)]
pub(crate) struct MockModelServer {
    address: SocketAddr,
    seen: Arc<MockModelState>,
}

#[derive(Debug, Default)]
struct MockModelState {
    /// The body of the last request.
    body: Mutex<Bytes>,
    /// How many answers are held in the middle.
    held: watch::Sender<usize>,
}

/// The prepared answer of one path, in front of the wire's own.
#[derive(Debug)]
struct PreparedAnswer {
    first: Bytes,
    /// How many answers must have come this far before any goes on; 0 holds none.
    together: usize,
    rest: Bytes,
}

impl MockModelServer {
    /// Starts a server that answers whole, streams so many deltas, and streams to so many callers at a time.
    #[expect(clippy::disallowed_methods, reason = "a program starts tasks on a runtime of its own")]
    pub(crate) fn start(deltas: &[usize], together: usize) -> Result<Self, Failure> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let (address, seen) = (listener.local_addr()?, Arc::new(MockModelState::default()));
        let mut answers = HashMap::from([
            ("whole".to_owned(), prepare_whole_answer()),
            ("held".to_owned(), prepare_held_answer(together)),
        ]);
        answers
            .extend(deltas.iter().map(|delta| (format!("deltas-{delta}"), prepare_streamed_answer(*delta))));
        let (answers, kept) = (Arc::new(answers), seen.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("mock".to_owned()).spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve_connection(stream, answers.clone(), kept.clone()));
                }
            });
        })?;
        Ok(Self { address, seen })
    }

    /// Returns the base address of one kind of answer.
    pub(crate) fn base_url(&self, answer: &str) -> String {
        format!("http://{}/{answer}", self.address)
    }

    /// Returns the body of the last request.
    pub(crate) fn last_body(&self) -> Bytes {
        self.seen.body.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers the requests of one connection, until the other side hangs up or sends a request that is not understood.
async fn serve_connection(
    mut stream: TcpStream,
    answers: Arc<HashMap<String, PreparedAnswer>>,
    seen: Arc<MockModelState>,
) {
    // Answers are small; they must not wait for each other.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut buffer = BytesMut::new();
    while let Ok(Some((path, body))) = read_request(&mut stream, &mut buffer).await {
        *seen.body.lock().unwrap_or_else(PoisonError::into_inner) = body;
        let Some(answer) = path.split('/').nth(1).and_then(|part| answers.get(part)) else { return };
        if stream.write_all(&answer.first).await.is_err() {
            return;
        }
        if answer.together > 0 {
            seen.held.send_modify(|held| *held += 1);
            let mut all = seen.held.subscribe();
            if all.wait_for(|all| *all >= answer.together).await.is_err() {
                return;
            }
        }
        if stream.write_all(&answer.rest).await.is_err() {
            return;
        }
    }
}

/// Reads one request: its path and its body.
async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
) -> std::io::Result<Option<(String, Bytes)>> {
    let mut searched = 0;
    let head = loop {
        if let Some(at) = buffer[searched..].windows(4).position(|window| window == b"\r\n\r\n") {
            break buffer.split_to(searched + at + 4);
        }
        searched = buffer.len().saturating_sub(3);
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&head);
    let length = head.lines().filter_map(|line| line.split_once(':'));
    let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length = length.filter_map(|(_, value)| value.trim().parse().ok()).next().unwrap_or(0);
    buffer.reserve(length);
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    Ok(Some((path, buffer.split_to(length).freeze())))
}

fn usage_json() -> serde_json::Value {
    json!({"prompt_tokens": 25_000, "completion_tokens": 10, "total_tokens": 25_010})
}

fn prepare_whole_answer() -> PreparedAnswer {
    let message = json!({"role": "assistant", "content": PIECE, "refusal": null});
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_741_570_283, "model": "mock",
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}],
        "usage": usage_json(),
    });
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    PreparedAnswer { first: Bytes::from(head + &body), together: 0, rest: Bytes::new() }
}

const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Writes an event as a piece of its own.
fn format_sse_event(data: &str) -> String {
    let event = format!("data: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

fn format_chunk_event(choices: &serde_json::Value, usage: &serde_json::Value) -> String {
    let chunk = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_741_570_283, "model": "mock",
        "system_fingerprint": "fp_fc9f1d7035", "choices": choices, "usage": usage,
    });
    format_sse_event(&chunk.to_string())
}

fn format_delta_events(count: usize) -> String {
    let delta = json!([{"index": 0, "delta": {"content": PIECE}, "logprobs": null, "finish_reason": null}]);
    format_chunk_event(&delta, &json!(null)).repeat(count)
}

fn format_end_events() -> String {
    let finish = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": "stop"}]);
    let last = format_chunk_event(&json!([]), &usage_json());
    format!("{}{last}{}0\r\n\r\n", format_chunk_event(&finish, &json!(null)), format_sse_event("[DONE]"))
}

fn prepare_streamed_answer(deltas: usize) -> PreparedAnswer {
    let all = format!("{STREAM_HEAD}{}{}", format_delta_events(deltas), format_end_events());
    PreparedAnswer { first: Bytes::from(all), together: 0, rest: Bytes::new() }
}

fn prepare_held_answer(together: usize) -> PreparedAnswer {
    let first = Bytes::from(format!("{STREAM_HEAD}{}", format_delta_events(1)));
    PreparedAnswer { first, together, rest: Bytes::from(format_delta_events(1) + &format_end_events()) }
}
