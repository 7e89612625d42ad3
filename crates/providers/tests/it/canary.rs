//! Keys are planted, servers give them back in every way that they can, and every error is searched for them (INV-16).
//!
//! The server echoes the whole request, its key with it, into bodies, heads, streams and broken answers.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_llm::{
    ChatMessage, Error, Provider, Request, ResponseLimits, RuntimeConfig, Schema, ToolDefinition,
    complete_streaming,
};
use singletree_providers::{HttpProvider, Wire};

use crate::served::{Answer, Asked, Served, written};

const WIRES: [Wire; 3] = [Wire::OpenAi, Wire::Anthropic, Wire::Gemini];
const KEY: &str = "canary-7Qx2mV9aLr4tWk8ZpB3n";
const HEADER: &str = "canary-header-Jd6sYc1uHe5gNf0o";
/// The prefix of both secrets: half a key in an error is a leak, too.
const PLANTED: &str = "canary-";

/// Everything that an error shows to whoever prints it, and whoever walks to its sources.
fn shown(error: &(dyn StdError + 'static)) -> Vec<String> {
    let mut shown = vec![error.to_string(), format!("{error:?}"), format!("{error:#?}")];
    let mut next = error.source();
    while let Some(source) = next {
        shown.extend([source.to_string(), format!("{source:?}")]);
        next = source.source();
    }
    shown
}

fn assert_hidden(case: &str, told: &[String]) {
    for text in told {
        assert!(!text.contains(PLANTED), "{case}: {text}");
    }
}

fn limits() -> HttpLimits {
    let wait = Duration::from_millis(150);
    HttpLimits { connect: wait, head: wait, idle: wait, body_bytes: 64 * 1024, line_bytes: 4096 }
}

fn client() -> Arc<HttpClient> {
    Arc::new(HttpClient::new(limits()).unwrap())
}

fn provider(wire: Wire, client: &Arc<HttpClient>, url: &str) -> HttpProvider {
    let builder = HttpProvider::builder(wire, "any", client.clone()).base_url(url).limits(limits());
    let builder = builder.key(Secret::new(KEY)).header("x-gateway-key", Secret::new(HEADER));
    assert_hidden("the builder", &[format!("{builder:?}"), format!("{builder:#?}")]);
    let provider = builder.build().unwrap();
    assert_hidden("the provider", &[format!("{provider:?}"), format!("{provider:#?}")]);
    provider
}

fn request() -> Request {
    let any = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let config = RuntimeConfig { max_tokens: Some(64), ..Default::default() };
    Request::new(vec![Arc::new(ChatMessage::user("Hello"))])
        .with_tools(vec![ToolDefinition::new("count", "Counts.", any).unwrap()])
        .with_config(config)
}

/// Makes a call of every kind; returns the errors.
async fn failures(provider: &HttpProvider) -> Vec<Error> {
    let plain = request();
    let schema = Schema::compile(
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
    );
    let mut shaped = request().with_response_schema(Arc::new(schema.unwrap()));
    shaped.tools = Arc::new([]);
    let mut failures = Vec::from_iter(provider.ready().await.err());
    for request in [&plain, &shaped] {
        failures.extend(provider.complete(request).await.err());
        let streamed = complete_streaming(provider, request, ResponseLimits::standard(), |_| {}).await;
        failures.extend(streamed.err());
    }
    failures
}

/// Makes calls of every kind against an answer. At least one of them must fail: a call that succeeds shows no error.
async fn check(case: &str, client: &Arc<HttpClient>, url: &str) {
    for wire in WIRES {
        let failures = failures(&provider(wire, client, url)).await;
        assert!(!failures.is_empty(), "{wire:?}, {case}: nothing failed");
        for error in &failures {
            assert_hidden(&format!("{wire:?}, {case}, {}", error.category()), &shown(error));
        }
    }
}

async fn check_answer(
    case: &str,
    client: &Arc<HttpClient>,
    answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
) {
    let server = Served::new(move |asked| {
        assert!(asked.text.contains(KEY) && asked.text.contains(HEADER), "the keys are sent: {}", asked.text);
        answer(asked)
    });
    check(case, client, &server.url()).await;
}

/// Bodies that give a text back, in the forms of the wires' errors and out of all forms.
fn echoes(text: &str) -> Vec<(&'static str, Value)> {
    // Also where a diagnostic is cut: half a key must not be left over.
    let late = |before: usize| format!("{}{text}", "x".repeat(before));
    vec![
        (
            "message",
            json!({"error": {"message": text, "type": text, "code": text, "param": text, "status": text}}),
        ),
        ("type", json!({"type": "error", "error": {"type": text, "message": format!("key {KEY} is wrong")}})),
        ("string", json!({"error": text})),
        ("cut", json!({"error": {"message": late(490)}})),
        ("cut, the other", json!({"error": {"message": late(480)}})),
        (
            "details",
            json!({"error": {"code": 429, "message": text, "status": "RESOURCE_EXHAUSTED", "details": [text]}}),
        ),
        ("list", json!([{"error": {"message": text}}])),
        ("detail", json!({"detail": text, "message": text})),
        ("bare", json!(text)),
    ]
}

const STATUSES: [u16; 23] = [
    300, 301, 302, 303, 307, 308, 400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 502, 503,
    504, 529,
];

// spec: llm-provider §7; INV-16
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_status_gives_a_key_away_whatever_the_body_says() {
    let client = client();
    for status in STATUSES {
        let forms = echoes(KEY).len();
        for form in 0..=forms {
            check_answer(&format!("{status}, form {form}"), &client, move |asked| {
                let location =
                    format!("location: http://127.0.0.1:9/{KEY}?key={HEADER}\r\nretry-after: {KEY}\r\n");
                let text = if form % 2 == 0 { KEY.to_owned() } else { asked.text.clone() };
                match echoes(&text).into_iter().nth(form) {
                    Some((_, body)) => {
                        Answer::of(status, "application/json", &location, body.to_string().as_bytes())
                    }
                    None => Answer::of(status, "text/html", &location, format!("<p>{text}</p>").as_bytes()),
                }
            })
            .await;
        }
    }
}

/// Bodies of a success that is none, whole or as a stream.
fn broken(text: &str) -> Vec<Vec<u8>> {
    let json = |value: Value| value.to_string().into_bytes();
    let event = |value: &str| format!("data: {value}\n\n").into_bytes();
    let chunk = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]}).to_string();
    let call = json!({"id": text, "type": "function", "function": {"name": text, "arguments": text}});
    let in_band = json!({"error": {"message": text, "type": text, "code": text}}).to_string();
    vec![
        Vec::new(),
        text.as_bytes().to_vec(),
        format!("{{\"choices\": [\"{KEY}").into_bytes(),
        json(json!({"choices": text, "content": text, "candidates": text})),
        json(json!({"choices": [{"message": text}], "content": [text], "candidates": [{"content": text}]})),
        json(json!({"choices": [{"message": {"role": text, "content": null, "tool_calls": [call]},
            "finish_reason": "tool_calls"}]})),
        json(json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": text, "name": text, "input": {"n": text}}]})),
        json(json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model",
            "parts": [{"functionCall": {"name": "count", "args": {"n": text}}}]}}]})),
        json(json!({"data": text, "models": text, "promptFeedback": {"blockReason": text}})),
        event(text),
        event(&in_band),
        event(&format!("{{\"choices\": \"{KEY}\", \"type\": \"{KEY}\", \"candidates\": \"{KEY}\"}}")),
        [event(&chunk), event(&in_band)].concat(),
        [
            event(&chunk),
            b"event: error\n".to_vec(),
            event(
                &json!({"type": "error", "error": {"type": text,
            "message": text}})
                .to_string(),
            ),
        ]
        .concat(),
        [event(&chunk), format!("data: {KEY}").into_bytes()].concat(),
        format!("data: {}{text}\n\n", "x".repeat(5000)).into_bytes(),
        [b"data: \xff\xfe".as_slice(), text.as_bytes(), b"\n\n"].concat(),
    ]
}

// spec: llm-provider §7; INV-16
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_broken_success_gives_a_key_away() {
    let client = client();
    for kind in ["application/json", "text/event-stream", "text/html"] {
        for form in 0..broken("").len() {
            for echo in [false, true] {
                check_answer(&format!("{kind}, form {form}, echo {echo}"), &client, move |asked| {
                    let text = if echo { asked.text.replace(['\r', '\n'], " ") } else { KEY.to_owned() };
                    Answer::of(200, kind, &format!("x-echo: {KEY}\r\n"), &broken(&text)[form])
                })
                .await;
            }
        }
    }
}

// INV-16; D20
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_failed_exchange_gives_a_key_away() {
    let client = client();
    check_answer("hung up", &client, |_| Answer::Bytes(Vec::new())).await;
    check_answer("no HTTP", &client, |asked| Answer::Bytes(asked.text.clone().into_bytes())).await;
    check_answer("a bad status", &client, |_| {
        Answer::Bytes(format!("HTTP/1.1 {KEY} {KEY}\r\n\r\n").into_bytes())
    })
    .await;
    check_answer("a bad head", &client, |_| {
        Answer::Bytes(format!("HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n").into_bytes())
    })
    .await;
    check_answer("half a body", &client, |asked| {
        let text = format!("HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{}", asked.text);
        Answer::Bytes(text.into_bytes())
    })
    .await;
    check_answer("a bad piece", &client, |_| {
        Answer::Bytes(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{KEY}\r\n").into_bytes())
    })
    .await;
    check_answer("no head in time", &client, |_| Answer::Stall(Vec::new())).await;
    for kind in ["application/json", "text/event-stream"] {
        check_answer("a body that stalls", &client, move |asked| {
            Answer::Stall(written(200, kind, "", format!("data: {}", asked.text).as_bytes()))
        })
        .await;
        check_answer("a body too large", &client, move |_| {
            Answer::of(200, kind, "", KEY.repeat(4000).as_bytes())
        })
        .await;
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    check("refused", &client, &url).await;
    check(
        "no TLS",
        &client,
        &Served::new(|_| Answer::Bytes(KEY.as_bytes().to_vec())).url().replace("http:", "https:"),
    )
    .await;
}

// INV-16
#[test]
fn no_wrong_address_or_key_gives_itself_away() {
    let client = client();
    let addresses = [
        format!("http://user:{KEY}@127.0.0.1"),
        format!("http://127.0.0.1/?key={KEY}"),
        format!("http://127.0.0.1/#{KEY}"),
        format!("ftp://{KEY}"),
        KEY.to_owned(),
        format!("http://[{KEY}"),
    ];
    for address in addresses {
        let built = HttpProvider::builder(Wire::OpenAi, "any", client.clone()).base_url(&address).build();
        let told = match &built {
            Ok(provider) => debugged(provider),
            Err(error) => shown(error),
        };
        assert_hidden("an address", &told);
    }
    for key in [format!("{KEY}\n{KEY}"), format!("{KEY}\u{0}"), format!("{KEY}é")] {
        let builder =
            HttpProvider::builder(Wire::OpenAi, "any", client.clone()).key(Secret::new(key.clone()));
        let built = builder.header("x-other", Secret::new(key)).build();
        let told = match &built {
            Ok(provider) => debugged(provider),
            Err(error) => shown(error),
        };
        assert_hidden("a key", &told);
    }
}

fn debugged(value: &impl Debug) -> Vec<String> {
    vec![format!("{value:?}"), format!("{value:#?}")]
}
