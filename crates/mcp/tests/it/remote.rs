//! A server that is reached by streamable HTTP: a small one of our own, over sockets.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_http::{HttpClient, HttpLimits, Secret};
use singletree_mcp::{McpEndpoint, McpServer};
use singletree_tools::{LiveToolbox, Output};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::rig::{call, failed, limits, live};

const KEY: &str = "Bearer sk-canary-4711";

/// The requests that the server has seen, and its behaviour.
#[derive(Debug, Default)]
struct Seen {
    /// Method of HTTP, and of the protocol.
    requests: Vec<String>,
    session: u64,
    keyless: usize,
}

/// A server, and a client of it.
struct Site {
    seen: Arc<Mutex<Seen>>,
    server: McpServer,
    tools: LiveToolbox,
}

impl Site {
    async fn new(key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/mcp?token=query-canary", listener.local_addr().expect("bound"));
        let seen = Arc::default();
        tokio::spawn(serve(listener, Arc::clone(&seen)));
        let client = HttpClient::new(HttpLimits::standard()).expect("a client");
        let endpoint = McpEndpoint::new(url, &client).header("authorization", Secret::new(key));
        let server = McpServer::endpoint("site", endpoint).limits(limits()).build().expect("well described");
        let tools = live(&server);
        Self { seen, server, tools }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Output {
        call(&self.tools.current_toolbox().await, &format!("site__{tool}"), arguments).await
    }

    fn count(&self, request: &str) -> usize {
        self.seen.lock().expect("whole").requests.iter().filter(|it| *it == request).count()
    }
}

async fn serve(listener: TcpListener, seen: Arc<Mutex<Seen>>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, Arc::clone(&seen)));
    }
}

/// A request of HTTP with a message of the protocol.
pub(crate) struct HttpRequest {
    head: Vec<String>,
    pub(crate) verb: String,
    pub(crate) message: Value,
}

impl HttpRequest {
    /// Reads a request; `None` if the client has closed the connection.
    pub(crate) async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_owned()),
            }
        }
        let verb = head[0].split(' ').next().unwrap_or_default().to_owned();
        let mut request = Self { head, verb, message: Value::Null };
        let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("the whole body");
        request.message = serde_json::from_slice(&body).unwrap_or_default();
        Some(request)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.iter().filter_map(|line| line.split_once(": "));
        fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }
}

/// Answers one request, and closes.
async fn answer(stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let mut stream = BufReader::new(stream);
    let Some(request) = HttpRequest::read(&mut stream).await else { return };
    let text = {
        let mut seen = seen.lock().expect("whole");
        seen.requests.push(format!("{} {}", request.verb, request.method()).trim().to_owned());
        if request.header("authorization") == Some(KEY) {
            let session = request.header("mcp-session-id").map(str::to_owned);
            reply(&mut seen, &request.verb, session, &request.message)
        } else {
            seen.keyless += 1;
            plain("401 Unauthorized", "www-authenticate: Bearer\r\n", "")
        }
    };
    // Closing without a word is one of the answers.
    if let Some(text) = text {
        stream.write_all(text.as_bytes()).await.expect("writes");
    }
}

fn reply(seen: &mut Seen, verb: &str, session: Option<String>, message: &Value) -> Option<String> {
    let id = &message["id"];
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let said = |text: &str| result(json!({"content": [{"type": "text", "text": text}]}));
    let method = message["method"].as_str().unwrap_or_default();
    if method == "initialize" {
        seen.session += 1;
        let greeting = result(json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": "site", "version": "1"},
        }));
        return plain("200 OK", &format!("mcp-session-id: {}\r\n", seen.session), &greeting);
    }
    if session != Some(seen.session.to_string()) {
        return plain("404 Not Found", "", "");
    }
    let arguments = &message["params"]["arguments"];
    match (verb, method, message["params"]["name"].as_str().unwrap_or_default()) {
        ("DELETE", ..) => plain("200 OK", "", ""),
        ("GET", ..) => plain("405 Method Not Allowed", "", ""),
        (_, "tools/list", _) => {
            let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
            let tools = ["echo", "stream", "drop", "large"].map(tool);
            plain("200 OK", "", &result(json!({ "tools": tools })))
        }
        (_, "tools/call", "echo") => {
            plain("200 OK", "", &said(arguments["text"].as_str().unwrap_or_default()))
        }
        (_, "tools/call", "stream") => {
            let events = format!(": hello\n\nevent: message\ndata: {}\n\n", said("streamed"));
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            Some(format!("{head}{events}"))
        }
        (_, "tools/call", "large") => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            Some(format!("{head}data: {}\n\n", said(&"x".repeat(100_001))))
        }
        (_, "tools/call", _) => None,
        (_, "ping", _) => plain("200 OK", "", &result(json!({}))),
        _ => plain("202 Accepted", "", ""),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an answer among those of which one is none")]
pub(crate) fn plain(status: &str, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    let fixed =
        format!("content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n");
    Some(format!("HTTP/1.1 {status}\r\n{fixed}{headers}\r\n{body}"))
}

#[tokio::test]
async fn a_server_elsewhere_is_greeted_listed_and_called() {
    let site = Site::new(KEY).await;
    assert_eq!(site.call("echo", json!({"text": "hello"})).await, Output::text("hello"));
    assert_eq!(site.call("stream", json!({})).await, Output::text("streamed"));
    assert_eq!(site.seen.lock().expect("whole").keyless, 0);
    assert_eq!((site.count("POST initialize"), site.count("POST tools/list")), (1, 1));
    site.server.disconnect().await;
    assert_eq!(site.count("DELETE"), 1);
}

#[tokio::test]
async fn a_server_that_forgot_its_session_is_greeted_again_and_the_call_goes_on() {
    let site = Site::new(KEY).await;
    assert_eq!(site.call("echo", json!({"text": "one"})).await, Output::text("one"));
    // As after a restart: it knows no session of before.
    site.seen.lock().expect("whole").session += 100;
    assert_eq!(site.call("echo", json!({"text": "two"})).await, Output::text("two"));
    assert_eq!(site.count("POST initialize"), 2);
}

// D7
#[tokio::test]
async fn a_call_that_is_dropped_on_the_way_is_in_doubt_and_the_next_connects_again() {
    let site = Site::new(KEY).await;
    let output = site.call("drop", json!({})).await;
    assert_eq!(output.category, Some("tool_interrupted"));
    assert!(output.text.ends_with("; whether it took effect is unknown"), "{}", output.text);
    assert_eq!(site.call("echo", json!({"text": "on"})).await, Output::text("on"));
    assert_eq!(site.server.report_status().await.connections, 2);
}

// INV-12
#[tokio::test]
async fn an_event_that_is_too_large_is_refused_and_the_next_call_works() {
    let site = Site::new(KEY).await;
    let output = site.call("large", json!({})).await;
    assert_eq!(output.category, Some("tool_interrupted"));
    assert_eq!(site.call("echo", json!({"text": "on"})).await, Output::text("on"));
}

// INV-16
#[tokio::test]
async fn what_goes_wrong_names_neither_key_nor_address() {
    let site = Site::new("Bearer wrong-canary").await;
    let error = site.server.connect().await.expect_err("the key is wrong");
    assert_eq!(error.category(), "mcp_connect_failed");
    let wanted = "the MCP server \"site\" cannot be reached: it wants other credentials (HTTP 401 or 403)";
    assert_eq!(error.to_string(), wanted);
    let text = "error: there is no tool \"site__echo\"; the tools are: none; not all tools can be reached now of: site";
    assert_eq!(site.call("echo", json!({})).await, failed("tool_unknown", text));

    let client = HttpClient::new(HttpLimits::standard()).expect("a client");
    // A port on which nobody listens: it was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("bound");
    let endpoint = McpEndpoint::new(format!("http://{free}/?token=query-canary"), &client)
        .header("authorization", Secret::new(KEY));
    assert!(!format!("{endpoint:?}").contains("canary"), "{endpoint:?}");
    let server = McpServer::endpoint("site", endpoint).build().expect("well described");
    assert!(!format!("{server:?}").contains("canary"), "{server:?}");
    let error = server.connect().await.expect_err("nobody is there");
    assert_eq!(error.category(), "mcp_connect_failed");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn an_address_that_is_none_is_refused_without_being_shown() {
    let client = HttpClient::new(HttpLimits::standard()).expect("a client");
    for url in ["", "file:///canary", "canary", "http://"] {
        let error = McpServer::endpoint("site", McpEndpoint::new(url, &client)).build().expect_err(url);
        assert_eq!(
            error.to_string(),
            "the settings of the MCP server \"site\" are malformed: its address is no http or https URL"
        );
    }
    for (name, value) in [("a b", "x"), ("authorization", "x\n")] {
        let endpoint = McpEndpoint::new("https://example.com", &client).header(name, Secret::new(value));
        let error = McpServer::endpoint("site", endpoint).build().expect_err(name);
        assert_eq!(error.category(), "mcp_configuration_invalid");
    }
}
