//! Our requests, whole and streamed, on all three wires, before a mock of someone else: npm's `@copilotkit/aimock`,
//! strict.
//!
//! It reads every wire into one form, which its journal shows: it understood the requests as we meant them, and the
//! same on each wire.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use singletree_http::{HttpClient, HttpLimits, HttpRequest, Method, Transport, read_body};
use singletree_llm::{
    ChatMessage, ModelFinishReason, Provider, Request, Response, ResponseLimits, Result, RuntimeConfig,
    ToolCall, ToolDefinition, complete_streaming,
};
use singletree_providers::{HttpProvider, Wire};

use crate::installed::installed;

const WIRES: [Wire; 3] = [Wire::OpenAi, Wire::Anthropic, Wire::Gemini];

/// The mock; it ends when its standard input does.
struct Mock {
    child: Child,
    url: String,
}

impl Mock {
    fn start(test: &str) -> Option<Self> {
        let package = installed(test, "node_modules/@copilotkit/aimock/package.json")?;
        let folder = package.ancestors().nth(4).unwrap();
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/aimock");
        let mut child = Command::new("node")
            .args([format!("{here}/serve.mjs").as_ref(), folder, format!("{here}/fixtures.json").as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node starts");
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://"), "the mock says {url:?}");
        Some(Self { child, url: url.trim().to_owned() })
    }

    /// Returns the requests, oldest first: the status of each answer, whether a fixture matched, and the content as
    /// the mock understood it.
    async fn journal(&self) -> Vec<Value> {
        let url = format!("{}/__aimock/journal", self.url);
        let request = HttpRequest { method: Method::Get, url, headers: Vec::new(), body: Bytes::new() };
        let answer = client().send(request).await.unwrap();
        let body = read_body(answer.body, 1 << 20, "the mock").await.unwrap();
        let entries: Vec<Value> = serde_json::from_slice(&body).unwrap();
        entries.iter().map(understood).collect()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn client() -> Arc<HttpClient> {
    Arc::new(HttpClient::new(HttpLimits::standard()).unwrap())
}

fn understood(entry: &Value) -> Value {
    let (answer, body) = (&entry["response"], &entry["body"]);
    let tools =
        body["tools"].as_array().map(|it| it.iter().map(|it| it["function"].clone()).collect::<Vec<_>>());
    json!({
        "status": answer["status"],
        "matched": !answer["fixture"].is_null(),
        "model": body["model"],
        "stream": body["stream"].as_bool().unwrap_or(false),
        "messages": body["messages"],
        "tools": tools,
    })
}

async fn ask(provider: &HttpProvider, streaming: bool, request: Request) -> Result<Response> {
    let config = RuntimeConfig { max_tokens: Some(256), ..Default::default() };
    let request = request.with_config(config);
    if streaming {
        complete_streaming(provider, &request, ResponseLimits::standard(), |_| {}).await
    } else {
        provider.complete(&request).await
    }
}

fn user(text: &str) -> Request {
    Request::new(vec![Arc::new(ChatMessage::user(text))])
}

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    })
}

fn calls() -> [ToolCall; 2] {
    [("call_zurich", json!({"city": "Zürich", "days": 2})), ("call_bern", json!({"city": "Bern"}))]
        .map(|(id, arguments)| ToolCall::new(id, "weather", arguments.as_object().unwrap().clone()))
}

/// A question, two calls at once, their results, the answer; then an error, and a request that matches no fixture.
async fn talk(provider: &HttpProvider, streaming: bool) {
    let case = format!("{:?}, streaming: {streaming}", provider.wire());
    let hello = ask(provider, streaming, user("Hello")).await.unwrap();
    assert_eq!(hello.message, ChatMessage::assistant("Hello to you, 🦀 of the cafés."), "{case}");
    assert_eq!(hello.finish_reason, ModelFinishReason::Stop, "{case}");

    let tools = vec![ToolDefinition::new("weather", "Tells the weather.", parameters()).unwrap()];
    let mut messages = vec![ChatMessage::system("Be brief."), ChatMessage::user("The weather?")];
    let request = |messages: &[ChatMessage]| {
        Request::new(messages.iter().cloned().map(Arc::new).collect()).with_tools(tools.clone())
    };
    let asks = ask(provider, streaming, request(&messages)).await.unwrap();
    assert_eq!(asks.message, ChatMessage::assistant("I look it up.").with_tool_calls(calls()), "{case}");
    assert_eq!(asks.finish_reason, ModelFinishReason::ToolCalls, "{case}");

    messages.extend([
        asks.message,
        ChatMessage::tool("call_zurich", "sun"),
        ChatMessage::tool("call_bern", "rain"),
    ]);
    let told = ask(provider, streaming, request(&messages)).await.unwrap();
    assert_eq!(told.message, ChatMessage::assistant("Sun in Zürich, rain in Bern."), "{case}");
    let usage = told.usage;
    let counts = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens);
    assert_eq!(counts, (Some(40), Some(9), Some(49)), "{case}");

    // spec: llm-provider §7
    let error = ask(provider, streaming, user("too often")).await.unwrap_err();
    let seen = (error.category(), error.http_status(), error.retry_after(), error.to_string());
    let wait = Some(Duration::from_secs(1));
    assert_eq!(seen, ("provider_rate_limit", Some(429), wait, "Slow down, please.".to_owned()), "{case}");
    let error = ask(provider, streaming, user("strange")).await.unwrap_err();
    let seen = (error.category(), error.http_status(), error.to_string());
    assert_eq!(
        seen,
        ("provider_unavailable", Some(503), "Strict mode: no fixture matched".to_owned()),
        "{case}"
    );
}

/// The expected journal of one such talk. Gemini's results are objects.
fn meant(wire: Wire, streaming: bool) -> Vec<Value> {
    let result = |text: &str| match wire {
        Wire::OpenAi | Wire::Anthropic => text.to_owned(),
        Wire::Gemini => json!({ "result": text }).to_string(),
    };
    let call = |call: ToolCall| {
        let arguments = Value::Object(call.arguments.unwrap()).to_string();
        json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
    };
    let system = json!({"role": "system", "content": "Be brief."});
    let question = json!({"role": "user", "content": "The weather?"});
    let round = [
        json!({"role": "assistant", "content": "I look it up.", "tool_calls": calls().map(call)}),
        json!({"role": "tool", "tool_call_id": "call_zurich", "content": result("sun")}),
        json!({"role": "tool", "tool_call_id": "call_bern", "content": result("rain")}),
    ];
    let asked = [system, question];
    let tools = json!([{"name": "weather", "description": "Tells the weather.", "parameters": parameters()}]);
    let entry = |status: u16, messages: Value, tools: Value| {
        json!({
            "status": status, "matched": status != 503, "model": "mocked", "stream": streaming,
            "messages": messages, "tools": tools,
        })
    };
    let user =
        |status: u16, text: &str| entry(status, json!([{"role": "user", "content": text}]), Value::Null);
    vec![
        user(200, "Hello"),
        entry(200, json!(asked), tools.clone()),
        entry(200, json!([asked.as_slice(), round.as_slice()].concat()), tools),
        user(429, "too often"),
        user(503, "strange"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mock_of_someone_else_understands_what_we_ask() {
    let Some(mock) = Mock::start("a_mock_of_someone_else_understands_what_we_ask") else { return };
    let mut expected = Vec::new();
    for wire in WIRES {
        let provider = HttpProvider::builder(wire, "mocked", client()).base_url(&mock.url).build().unwrap();
        for streaming in [false, true] {
            talk(&provider, streaming).await;
            expected.extend(meant(wire, streaming));
        }
    }
    let journal = mock.journal().await;
    assert_eq!(journal.len(), expected.len());
    for (entry, expected) in journal.iter().zip(&expected) {
        assert_eq!(entry, expected);
    }
}
