//! A server returns a planted key in every error response. No outcome, event, narration or stored byte of a chat may
//! contain the key (INV-16).

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;

use singletree::http::{HttpClient, HttpLimits, Secret};
use singletree::narration::{NarrationMessage, NarrationOwner, NarrationSink};
use singletree::providers::{HttpProvider, Wire};
use singletree::{Agent, Chat, ChatMessage, ChatTurnOutcome, SendOptions, SqliteStore};

const KEY: &str = "canary-7Qx2mV9aLr4tWk8ZpB3n";
/// Half a key is a leak, too.
const PLANTED: &str = "canary-";

/// Answers that hold the key, in the order in which they are given.
fn answers() -> Vec<(&'static str, Vec<u8>)> {
    let answer = |status: u16, kind: &str, body: &str| {
        let head = format!(
            "HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\nx-echo: {KEY}\r\nconnection: close\r\n"
        );
        format!("{head}location: http://127.0.0.1:9/{KEY}\r\n\r\n{body}").into_bytes()
    };
    let error = json!({"error": {"message": format!("Incorrect API key provided: {KEY}."), "type": KEY, "code": KEY}});
    let late = json!({"error": {"message": format!("{}{KEY}", "x".repeat(490))}});
    let call =
        json!({"index": 0, "id": KEY, "type": "function", "function": {"name": KEY, "arguments": "{}"}});
    let event = |delta: serde_json::Value, finish: Option<&str>| {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
        format!("data: {chunk}\n\n")
    };
    let half = event(json!({"content": "Half"}), None);
    let calls = format!("{}data: [DONE]\n\n", event(json!({"tool_calls": [call]}), Some("tool_calls")));
    vec![
        ("unauthorized", answer(401, "application/json", &error.to_string())),
        ("forbidden", answer(403, "text/html", KEY)),
        ("a redirect", answer(302, "text/plain", KEY)),
        ("a bad request", answer(400, "application/json", &late.to_string())),
        ("not found", answer(404, "application/json", &error.to_string())),
        ("no JSON", answer(200, "application/json", &format!("{{\"choices\": [{KEY}"))),
        ("an unknown tool", answer(200, "text/event-stream", &calls)),
        ("an event that is none", answer(200, "text/event-stream", &format!("{half}data: {KEY}\n\n"))),
        ("cut", answer(200, "text/event-stream", &format!("{half}data: {{\"choices\": \"{KEY}"))),
        ("no HTTP", KEY.as_bytes().to_vec()),
        ("a bad head", format!("HTTP/1.1 200 {KEY}\r\n{KEY}\r\n\r\n").into_bytes()),
    ]
}

/// Serves one answer for ever, to who sends the key.
fn serve(answer: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // Who hangs up early is not waited for.
            let _gone = answered(stream.unwrap(), &answer);
        }
    });
    address
}

fn answered(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {
        let last = head.lines().last().unwrap_or_default();
        if let Some(value) = last.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    assert!(head.contains(KEY), "the key is sent: {head}");
    reader.read_exact(&mut vec![0; length])?;
    stream.write_all(answer)
}

#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl NarrationSink for Told {
    fn emit_narration(&self, _whose: NarrationOwner<'_>, narration: NarrationMessage) {
        self.0.lock().unwrap().push(format!("{narration:?}"));
    }

    fn forget_session(&self, _whose: NarrationOwner<'_>) {}
}

fn chat(store: SqliteStore, address: SocketAddr, told: Arc<Told>) -> Chat {
    let wait = Duration::from_millis(500);
    let limits = HttpLimits { connect: wait, head: wait, idle: wait, ..HttpLimits::standard() };
    let provider = HttpProvider::builder(Wire::OpenAi, "any", Arc::new(HttpClient::new(limits).unwrap()))
        .base_url(format!("http://{address}"))
        .key(Secret::new(KEY))
        .build()
        .unwrap();
    let agent = Agent::new("asker", provider).build().unwrap();
    Chat::builder().agent(agent).narration(told).open(store).unwrap()
}

/// Every byte that the store keeps, its log included.
fn stored(folder: &Path) -> Vec<u8> {
    std::fs::read_dir(folder).unwrap().flat_map(|it| std::fs::read(it.unwrap().path()).unwrap()).collect()
}

// INV-16
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_chat_tells_or_stores_of_a_failed_call_holds_the_key() {
    for (case, answer) in answers() {
        let folder = tempfile::tempdir().unwrap();
        let told = Arc::new(Told::default());
        let store = SqliteStore::open(folder.path().join("x.db")).await.unwrap();
        let chat = chat(store, serve(answer), told.clone());
        let turn =
            chat.session("s").submit(ChatMessage::user("Hello"), SendOptions::new().listen()).await.unwrap();
        let mut shown: Vec<String> = Vec::new();
        let mut events = std::pin::pin!(turn.events());
        while let Some(event) = events.next().await {
            shown.push(format!("{:?}", event.unwrap()));
        }
        let outcome = turn.outcome().await;
        let ChatTurnOutcome::Errored(_) = outcome.as_ref() else { panic!("{case}: {outcome:?}") };
        shown.push(format!("{outcome:#?}"));
        shown.push(format!("{chat:?} {turn:?}"));
        shown.extend(told.0.lock().unwrap().drain(..));
        shown.push(String::from_utf8_lossy(&stored(folder.path())).into_owned());
        for text in shown {
            let at = text.find(PLANTED);
            let around = at.map(|at| text[at.saturating_sub(80)..].chars().take(200).collect::<String>());
            assert_eq!(around, None, "{case}");
        }
    }
}
