//! An MCP server on standard streams that does as its tests say, by files in the folder that is its first argument.
//!
//! It records its events: a line in `starts` for each start, in `effects` for each effect, in `cancelled` for each
//! cancelled call. If `lifeline` holds an address, it stays connected there while it lives.

use std::fs::OpenOptions;
use std::io::{self, BufRead, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::exit;

use serde_json::{Value, json};

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let Some(folder) = folder else {
        exit(2);
    };
    Script { folder }.run();
}

/// The server.
struct Script {
    folder: PathBuf,
}

impl Script {
    fn run(&self) {
        self.note("starts", &std::process::id().to_string());
        let lifeline = std::fs::read_to_string(self.folder.join("lifeline"));
        let held = lifeline.ok().and_then(|it| TcpStream::connect(it.trim()).ok());
        if self.has("refuse-start") {
            let key = std::env::vars().find(|(name, _)| name == "SCRIPT_KEY").map(|(_, value)| value);
            let key = key.unwrap_or_default();
            complain(&format!("the key {key} is \u{1b}[31mno good\u{1b}[0m"));
            exit(3);
        }
        // A line that is no JSON must be skipped by the client.
        say_text("welcome to the script");
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if let Ok(message) = serde_json::from_str::<Value>(&line) {
                self.hear(&message);
            }
        }
        if self.has("stubborn") {
            loop {
                std::thread::park();
            }
        }
        drop(held);
    }

    fn hear(&self, message: &Value) {
        let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
        match method {
            "initialize" | "server/discover" if self.has("hang-start") => {}
            "server/discover" => self.discovered(id),
            "initialize" if self.has("modern-only") => refuse(id, -32601, "there is no such method"),
            // The revision says so; one that asks for it and does not get it must not go on.
            _ if self.has("modern-only") && !id.is_null() && !speaks_modern(message) => {
                refuse(id, -32600, "the request does not name its revision");
            }
            "subscriptions/listen" => self.subscribe(id),
            "initialize" => say(&json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "script", "version": "1"},
            }})),
            "tools/list" => {
                let page = message["params"]["cursor"].as_str().unwrap_or_default();
                say(&json!({"jsonrpc": "2.0", "id": id, "result": self.page(page)}));
            }
            "tools/call" => self.call(id, &message["params"]),
            "ping" => say(&json!({"jsonrpc": "2.0", "id": id, "result": {}})),
            "notifications/cancelled" => self.note("cancelled", &message["params"]["requestId"].to_string()),
            _ if !id.is_null() => refuse(id, -32601, "there is no such method"),
            _ => {}
        }
    }

    /// Answers the question after the revision without `initialize`.
    fn discovered(&self, id: &Value) {
        self.note("asked", "server/discover");
        if self.has("dies-when-asked") {
            exit(9);
        }
        if self.has("silent") {
            return;
        }
        if !self.has("modern-only") && !self.has("both") {
            return refuse(id, -32601, "there is no such method");
        }
        say(&json!({"jsonrpc": "2.0", "id": id, "result": {
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "script", "version": "1"}},
        }}));
    }

    /// Acknowledges a subscription, and keeps its id for later notifications.
    fn subscribe(&self, id: &Value) {
        self.note("subscribed", &id.to_string());
        say(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": {"toolsListChanged": true},
            "_meta": {"io.modelcontextprotocol/subscriptionId": id},
        }}));
    }

    /// Lists the tools in two pages.
    fn page(&self, cursor: &str) -> Value {
        let schema = |properties: Value| json!({"type": "object", "properties": properties});
        let text = schema(json!({"text": {"type": "string"}}));
        let read = json!({"readOnlyHint": true});
        let save = json!({"readOnlyHint": self.has("flipped")});
        if cursor.is_empty() {
            return json!({"nextCursor": "second", "tools": [
                {"name": "echo", "description": "Says it again.", "annotations": read,
                 "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                                 "properties": {"text": {"type": "string"}}, "required": ["text"]}},
                {"name": "save", "inputSchema": text, "annotations": save},
                {"name": "save.and die", "inputSchema": text, "annotations": {"destructiveHint": false}},
                {"name": "look-and-die", "inputSchema": text, "annotations": read},
            ]});
        }
        let bytes = schema(json!({"bytes": {"type": "integer"}}));
        let empty = schema(json!({}));
        let mut tools = vec![
            json!({"name": "fail", "inputSchema": empty, "annotations": read}),
            json!({"name": "refuse", "inputSchema": empty, "annotations": read}),
            json!({"name": "hang", "inputSchema": empty, "annotations": {"idempotentHint": true}}),
            json!({"name": "huge", "inputSchema": bytes, "annotations": read}),
            json!({"name": "env", "inputSchema": empty, "annotations": read}),
            json!({"name": "grow", "inputSchema": empty, "annotations": read}),
            json!({"name": "crooked", "inputSchema": schema(json!({"a": {"type": "nonsense"}}))}),
        ];
        if self.has("grown") {
            tools.push(json!({"name": "new", "inputSchema": empty, "annotations": read}));
        }
        json!({ "tools": tools })
    }

    fn call(&self, id: &Value, params: &Value) {
        let arguments = &params["arguments"];
        let text = arguments["text"].as_str().unwrap_or_default();
        match params["name"].as_str().unwrap_or_default() {
            "echo" => answer(id, text),
            "save" => {
                let meta = &params["_meta"];
                let origin = json!([meta["dev.singletree/conversation"], meta["dev.singletree/fence"]]);
                self.note("origins", &origin.to_string());
                self.note("effects", text);
                answer(id, "saved");
            }
            "save.and die" => {
                self.note("effects", &params["_meta"]["dev.singletree/idempotency-key"].to_string());
                complain("I die");
                exit(7);
            }
            "look-and-die" => {
                self.note("effects", &params["_meta"]["dev.singletree/idempotency-key"].to_string());
                if !self.has("died") || self.has("dies-always") {
                    self.note("died", "");
                    exit(7);
                }
                answer(id, "seen");
            }
            "fail" => say(&json!({"jsonrpc": "2.0", "id": id, "result": {
                "content": [{"type": "text", "text": "no luck"}], "isError": true,
            }})),
            "hang" => self.note("hanging", ""),
            "huge" => {
                let bytes = arguments["bytes"].as_u64().and_then(|it| usize::try_from(it).ok());
                answer(id, &"x".repeat(bytes.unwrap_or_default()));
            }
            "env" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                answer(id, &names.join(" "));
            }
            "grow" => {
                self.note("grown", "");
                let subscribed = std::fs::read_to_string(self.folder.join("subscribed")).unwrap_or_default();
                let params = match serde_json::from_str::<Value>(subscribed.trim()) {
                    Ok(subscription) => {
                        json!({"_meta": {"io.modelcontextprotocol/subscriptionId": subscription}})
                    }
                    Err(_) => json!({}),
                };
                let method = "notifications/tools/list_changed";
                say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
                answer(id, "grown");
            }
            "new" => answer(id, "new"),
            _ => refuse(id, -32602, "not with me"),
        }
    }

    fn has(&self, file: &str) -> bool {
        self.folder.join(file).exists()
    }

    fn note(&self, file: &str, line: &str) {
        let file = OpenOptions::new().create(true).append(true).open(self.folder.join(file));
        if let Ok(mut file) = file {
            drop(writeln!(file, "{line}"));
        }
    }
}

/// Tells whether a request names the revision that it is written in.
fn speaks_modern(message: &Value) -> bool {
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
}

fn answer(id: &Value, text: &str) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}}));
}

fn refuse(id: &Value, code: i64, message: &str) {
    say(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
}

fn say(message: &Value) {
    say_text(&message.to_string());
}

fn say_text(text: &str) {
    let mut out = io::stdout().lock();
    // Nobody listens any more: the end of the input says so soon.
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

fn complain(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}
