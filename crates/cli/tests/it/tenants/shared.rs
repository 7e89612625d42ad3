//! Tenants of one server share MCP servers, notice endpoints, pairing and limits; none of these reveals one tenant to
//! another (INV-14).

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{SAID, SENT, Tenant, check_clean};
use crate::home::{BINARY, Home};
use crate::serving::Serving;

/// An MCP server in the language of every shell, which answers with the arguments that it got.
const MCP: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    text=$(printf '%s' "$line" | sed -n 's/.*"text":"\([a-z0-9-]*\)".*/\1/p')
    answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    case "$line" in
        *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
        *'"tools/list"'*) answer '{"tools":[{"name":"look","description":"x","inputSchema":{"type":"object"}}]}' ;;
        *'"tools/call"'*) answer "{\"content\":[{\"type\":\"text\",\"text\":\"seen $text\"}]}" ;;
    esac
done
"#;

fn agents(hooks: &[(&str, String)]) -> String {
    let notify = hooks.iter().map(|(tenant, url)| {
        format!("[notify.{tenant}]\nurl = \"{url}\"\nsecret = {{ env = \"NOTIFY_SECRET\" }}\nprivate_network = true\n")
    });
    let notify: String = notify.collect();
    format!(
        "models.script = {{ wire = \"script\", file = \"script.json\" }}\n\
         [agents.keeper]\ninstructions = \"Keep what you are told.\"\ntools = [\"clock\", \"outbox\", \"shared\"]\n\
         [mcp.shared]\ncommand = \"sh\"\nargs = [\"mcp.sh\"]\ntools = [\"look\"]\neffects = {{ look = \"read\" }}\n\
         {notify}"
    )
}

fn script() -> Value {
    let call = |user: &str, tool: &str, arguments: Value| {
        let then = json!({ "calls": [{ "tool": tool, "arguments": arguments }] });
        json!({ "when": { "user": [user] }, "then": then })
    };
    let told = |user: &str| {
        let when = json!({ "user": [user], "results": "any" });
        json!({ "when": when, "then": { "reply": "Done." } })
    };
    json!({ "model": "x", "rules": [
        call("look {text}", "shared__look", json!({ "text": "{text}" })), told("look {text}"),
        call("time", "clock", json!({})), told("time"),
        call("send {text}", "send_message", json!({ "to": "Bob", "body": "{text}" })), told("send {text}"),
    ]})
}

/// An endpoint of notices: answers each request, and hands over all that came.
fn endpoint() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (mut text, mut bytes) = (String::new(), [0; 4096]);
            let whole = |text: &str| {
                let (head, body) = text.split_once("\r\n\r\n")?;
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
                });
                (body.len() >= length.unwrap_or(0usize)).then_some(())
            };
            while whole(&text).is_none() {
                match stream.read(&mut bytes) {
                    Ok(count) if count > 0 => text.push_str(&String::from_utf8_lossy(&bytes[..count])),
                    _ => break,
                }
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap_or_default();
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    (url, received)
}

/// How long a notice may take.
const SOON: Duration = Duration::from_secs(60);

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

// INV-14
#[cfg(unix)]
#[test]
fn what_tenants_share_tells_neither_of_the_other() {
    let home = Home::new();
    let ((hook_a, told_a), (hook_b, told_b)) = (endpoint(), endpoint());
    fs::write(home.path().join("script.json"), script().to_string()).unwrap();
    fs::write(home.path().join("mcp.sh"), MCP).unwrap();
    fs::write(home.path().join("singletree.toml"), agents(&[("a", hook_a), ("b", hook_b)])).unwrap();
    let log = home.path().join("log.jsonl");
    let mut command = home.command(BINARY);
    command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0", "--auth"]);
    command.env("NOTIFY_SECRET", "0123456789abcdef0123456789abcdef");
    command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
    let server = Serving::of(command.spawn().unwrap());
    let (a, b) = (Tenant::new(&home, &server, "a"), Tenant::new(&home, &server, "b"));

    // The server of tools is one process for both.
    let looked = a.say("mine", &format!("look {SAID}"));
    assert!(looked.contains("\"completed\""), "{looked}");
    let messages = "/v1/sessions/mine/messages";
    assert!(a.ask("GET", messages, &Value::Null).contains(&format!("seen {SAID}")));
    assert!(
        b.say("mine", "look nothing").contains("\"completed\"")
            && b.say("mine", "time").contains("\"completed\"")
    );
    check_clean("the tools of b", &b.ask("GET", messages, &Value::Null));

    // Each is told of its own.
    assert!(a.say("mine", &format!("send {SENT}")).contains("\"suspended\""));
    assert!(b.say("other", "send of-b").contains("\"suspended\""));
    let first_of_a = told_a.recv_timeout(SOON).expect("a is told");
    assert!(first_of_a.contains("\"mine\"") && !first_of_a.contains("\"other\""), "{first_of_a}");
    let first_of_b = told_b.recv_timeout(SOON).expect("b is told");
    assert!(first_of_b.contains("\"other\"") && !first_of_b.contains("\"mine\""), "{first_of_b}");
    check_clean("the notice of b", &first_of_b);

    // A device of a: b neither sees it nor revokes it.
    let device = json!({ "device_name": SAID, "device_fingerprint": "f" });
    let asked = body(&a.ask("POST", "/v1/openharness/pair/create", &device));
    let confirmed = a.ask("POST", "/v1/openharness/pair/confirm", &json!({ "code": asked["code"] }));
    assert!(confirmed.contains(" 200 "), "{confirmed}");
    let claim = json!({ "pairing_id": asked["pairing_id"], "device_fingerprint": "f" });
    let claimed = body(&a.ask("POST", "/v1/openharness/pair/claim", &claim));
    assert!(claimed["access_token"].is_string(), "{claimed}");
    assert!(a.ask("GET", "/v1/keys", &Value::Null).contains(SAID), "the canary is worth something");
    for path in ["/v1/keys", "/v1/audit", "/v1/pending", "/v1/sessions"] {
        check_clean(path, &b.ask("GET", path, &Value::Null));
    }
    let revoke = json!({ "device_id": claimed["device_id"] });
    let unknown = b.ask("POST", "/v1/openharness/pair/revoke", &json!({ "device_id": "st_none" }));
    let status = |answer: &str| answer.lines().next().unwrap_or_default().to_owned();
    let refused = b.ask("POST", "/v1/openharness/pair/revoke", &revoke);
    assert_eq!(status(&refused), status(&unknown), "b does not learn that there is such a device");
    let keys = body(&a.ask("GET", "/v1/keys", &Value::Null));
    let keys = keys["keys"].as_array().or(keys["items"].as_array()).unwrap();
    let kept = keys.iter().find(|key| key["name"].as_str().is_some_and(|name| name.contains(SAID))).unwrap();
    assert_eq!(kept["state"], "active", "{kept}");

    // Tenant a uses up only its own quota.
    let made = (0..40).map(|n| a.ask("POST", "/v1/sessions", &json!({ "id": format!("many-{n}") })));
    let refused = made.filter(|answer| status(answer).contains("429")).count();
    assert!(refused >= 20, "20 new sessions a minute for one key: {refused}");
    let made = b.ask("POST", "/v1/sessions", &json!({ "id": "one" }));
    assert!(status(&made).contains("201"), "{made}");
    server.stop();
    check_clean("the log", &fs::read_to_string(log).unwrap());
}
