//! Servers of every revision over streamable HTTP: with `initialize`, without it, of both, and silent ones.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use singletree_http::{HttpClient, HttpLimits};
use singletree_mcp::{McpEndpoint, McpLimits, McpServer};
use singletree_tools::{LiveToolbox, Output};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::remote::{HttpRequest, plain};
use crate::rig::{call, limits, live};

const MODERN: &str = "2026-07-28";
const SESSION: &str = "session-1";

/// The way in which a server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    /// It has no `initialize`, and refuses requests that do not name its revision.
    Modern,
    /// It has no `server/discover`, which it refuses by an error of the protocol.
    Legacy,
    /// As `Legacy`, but refuses by a status of HTTP.
    LegacyByStatus(&'static str),
    Both,
    /// As `Legacy`, but never answers a request that it does not know.
    LegacyAndIgnores,
    /// It accepts connections and answers nothing.
    Nothing,
}

/// A server and a client of it.
struct Site {
    /// The methods of all requests, in order.
    seen: Arc<Mutex<Vec<String>>>,
    server: McpServer,
    tools: LiveToolbox,
}

impl Site {
    async fn new(speaks: Speaks, limits: McpLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let requests = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_one(stream, speaks, Arc::clone(&requests)));
            }
        });
        let client = HttpClient::new(HttpLimits::standard()).expect("a client");
        let server = McpServer::endpoint("site", McpEndpoint::new(url, &client)).limits(limits).build();
        let server = server.expect("well described");
        let tools = live(&server);
        Self { seen, server, tools }
    }

    async fn echo(&self) -> Output {
        call(&self.tools.current_toolbox().await, "site__echo", json!({"text": "hello"})).await
    }

    /// Returns the methods of the requests so far.
    fn methods(&self) -> Vec<String> {
        self.seen.lock().expect("whole").clone()
    }
}

async fn serve_one(stream: TcpStream, speaks: Speaks, seen: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    let Some(request) = HttpRequest::read(&mut stream).await else { return };
    // A ping may come at any time.
    if !request.message["id"].is_null() && request.method() != "ping" {
        seen.lock().expect("whole").push(request.method().to_owned());
    }
    match reply(speaks, &request) {
        Some(text) => stream.write_all(text.as_bytes()).await.expect("writes"),
        // The connection stays open until the client closes it.
        None => drop(HttpRequest::read(&mut stream).await),
    }
}

fn reply(speaks: Speaks, request: &HttpRequest) -> Option<String> {
    let (id, method) = (&request.message["id"], request.method());
    let result = |result: Value| {
        plain("200 OK", "", &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
    };
    let refuse = |code: i64| {
        let error = json!({"code": code, "message": "not with me"});
        plain("200 OK", "", &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
    };
    if speaks == Speaks::Nothing {
        return None;
    }
    let is_modern = request.header("mcp-protocol-version") == Some(MODERN);
    match (request.verb.as_str(), method, speaks) {
        ("GET", ..) => return plain("405 Method Not Allowed", "", ""),
        ("DELETE", ..) => return plain("200 OK", "", ""),
        (_, "server/discover", Speaks::Modern | Speaks::Both) => {
            return result(json!({
                "resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "site", "version": "1"}},
            }));
        }
        (_, "server/discover", Speaks::LegacyAndIgnores) => return None,
        (_, "server/discover", Speaks::LegacyByStatus(status)) => return plain(status, "", ""),
        (_, "server/discover", _) | (_, "initialize", Speaks::Modern) => return refuse(-32601),
        (_, "initialize", _) => {
            let greeting = json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": request.message["params"]["protocolVersion"],
                "capabilities": {"tools": {}}, "serverInfo": {"name": "site", "version": "1"},
            }});
            return plain("200 OK", &format!("mcp-session-id: {SESSION}\r\n"), &greeting.to_string());
        }
        _ => {}
    }
    // Each revision has its own mark: one without the other is a mistake of the client.
    let has_session = request.header("mcp-session-id") == Some(SESSION);
    let is_right = match speaks {
        Speaks::Modern | Speaks::Both => is_modern && !has_session,
        _ => has_session && !is_modern,
    };
    if !is_right {
        return plain("400 Bad Request", "", "");
    }
    match method {
        "tools/list" => result(json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})),
        "tools/call" => {
            let text = &request.message["params"]["arguments"]["text"];
            result(json!({"content": [{"type": "text", "text": text}]}))
        }
        "ping" => result(json!({})),
        _ => plain("202 Accepted", "", ""),
    }
}

// spec: MCP 2026-07-28, server/discover
#[tokio::test]
async fn an_endpoint_without_initialize_is_asked_and_called_in_its_own_revision() {
    for speaks in [Speaks::Modern, Speaks::Both] {
        let site = Site::new(speaks, limits()).await;
        assert_eq!(site.echo().await, Output::text("hello"), "{speaks:?}");
        assert_eq!(site.methods(), ["server/discover", "tools/list", "tools/call"], "{speaks:?}");
        assert_eq!(site.server.report_status().await.connections, 1);
    }
}

#[tokio::test]
async fn an_endpoint_that_refuses_the_question_is_greeted_in_the_older_way() {
    let statuses = ["400 Bad Request", "404 Not Found", "405 Method Not Allowed"];
    for speaks in [Speaks::Legacy].into_iter().chain(statuses.map(Speaks::LegacyByStatus)) {
        let site = Site::new(speaks, limits()).await;
        assert_eq!(site.echo().await, Output::text("hello"), "{speaks:?}");
        let expected = ["server/discover", "initialize", "tools/list", "tools/call"];
        assert_eq!(site.methods(), expected, "{speaks:?}");
        assert_eq!(site.server.report_status().await.connections, 1);
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_the_question_is_greeted_in_the_older_way() {
    let brief = McpLimits { endpoint_probe: Duration::from_millis(50), ..limits() };
    let site = Site::new(Speaks::LegacyAndIgnores, brief).await;
    assert_eq!(site.echo().await, Output::text("hello"));
    assert_eq!(site.methods(), ["server/discover", "initialize", "tools/list", "tools/call"]);
}

// D20
#[tokio::test]
async fn an_endpoint_that_answers_nothing_is_given_up_in_time() {
    let brief = McpLimits {
        endpoint_probe: Duration::from_millis(50),
        connect: Duration::from_millis(300),
        ..limits()
    };
    let site = Site::new(Speaks::Nothing, brief).await;
    let error = site.server.connect().await.expect_err("nothing is answered");
    assert_eq!(error.category(), "mcp_timeout");
    assert_eq!(site.methods(), ["server/discover", "initialize"]);
    // Until its rest is over, nobody waits for it again: a turn goes on without its tools.
    assert_eq!(site.echo().await.category, Some("tool_unknown"));
    assert_eq!(site.methods().len(), 2);
}
