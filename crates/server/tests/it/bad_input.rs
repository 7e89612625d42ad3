//! Whatever is sent: a category each, nothing lost, no secret echoed.

use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use singletree_server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::agents::CANARY;
use crate::support::rig::within;
use crate::support::{Client, Rig};

const MESSAGES: &str = "/v1/sessions/s/messages";

/// Sends a message that is right, and looks that it is the only one there.
async fn still_answers(rig: &Rig) {
    let answer = rig.client().post(MESSAGES, &json!({ "content": "say hello" })).await;
    assert_eq!((answer.status, &answer.json()["status"]), (200, &json!("completed")), "{}", answer.text());
    let history = rig.client().get(MESSAGES).await.json();
    let said: Vec<_> = history["items"].as_array().unwrap().iter().map(|it| &it["content"]).collect();
    assert_eq!(said, ["say hello", "You said: hello"], "{history}");
}

/// Asserts status and category, and that the answer echoes no possible secret of the request.
async fn refused(
    client: &Client,
    (method, path, body): (Method, &str, &[u8]),
    status: u16,
    category: &str,
) -> Value {
    let answer = client.send_bytes(method, path, Bytes::copy_from_slice(body)).await;
    let shown: String = String::from_utf8_lossy(body).chars().take(80).collect();
    assert_eq!(answer.status, status, "{path} {shown}: {}", answer.text());
    let error = answer.json()["error"].clone();
    assert_eq!(error["category"], category, "{path} {shown}: {error}");
    assert!(!answer.text().contains(CANARY), "{}", answer.text());
    assert_eq!(error["request_id"], answer.header("x-request-id"));
    error
}

#[tokio::test]
async fn bodies_that_are_not_right_are_told_so() {
    let rig = Rig::start().await;
    let json_client = rig.client().with("content-type", "application/json");
    let invalid = "server_request_invalid";
    let deep = format!("{{\"content\":{}1{}}}", "[".repeat(1000), "]".repeat(1000));
    let unclosed = "[".repeat(100_000);
    for (body, field) in [
        (&b"{\"content\": \"say he"[..], Some("content")),
        (b"{\"content\": \"a\"} more", None),
        (b"nonsense", None),
        (b"\xff\xfe", None),
        (b"[]", None),
        (b"{\"content\": \"\xff\"}", Some("content")),
        (b"{\"content\": 7}", Some("content")),
        (b"{\"content\": \"a\", \"agent\": []}", Some("agent")),
        (b"{\"content\": \"a\", \"contents\": 1}", Some("contents")),
        (b"{\"content\": \"a\", \"content\": \"b\"}", None),
        (b"{\"content\": \"a\", \"role\": \"system\"}", Some("role")),
        (
            b"{\"content\": \"a\", \"agent\": \"canary-secret-4711\", \"x\": \"canary-secret-4711\"}",
            Some("x"),
        ),
        (b"{}", None),
        (deep.as_bytes(), None),
        (unclosed.as_bytes(), None),
    ] {
        let error = refused(&json_client, (Method::POST, MESSAGES, body), 400, invalid).await;
        assert_eq!(error["field"].as_str(), field, "{error}");
    }
    let media = "server_media_type_unsupported";
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let client = rig.client().with("content-type", kind);
        refused(&client, (Method::POST, MESSAGES, b"{\"content\": \"a\"}"), 415, media).await;
    }
    refused(&rig.client(), (Method::POST, MESSAGES, b"{\"content\": \"a\"}"), 415, media).await;
    let large = format!("{{\"content\": \"{}\"}}", "x".repeat(1 << 20));
    let too_large = "server_body_too_large";
    refused(&json_client, (Method::POST, MESSAGES, large.as_bytes()), 413, too_large).await;
    still_answers(&rig).await;
    rig.stop().await;
}

#[tokio::test]
async fn paths_lead_nowhere_but_where_they_say() {
    let rig = Rig::start().await;
    let (route, invalid) = ("server_route_unknown", "server_request_invalid");
    for (path, status, category) in [
        ("/v1", 404, route),
        ("/v1/", 404, route),
        ("/v1/sessions/", 404, route),
        ("//v1/sessions", 404, route),
        ("/v1//sessions", 404, route),
        ("/v1/../healthz", 404, route),
        ("/v1/%2e%2e/healthz", 404, route),
        ("/v1/sessions/..%2f..%2fetc%2fpasswd", 404, "chat_session_unknown"),
        ("/v1/sessions/%2e%2e", 404, "chat_session_unknown"),
        ("/.env", 404, route),
        ("/docs/../../Cargo.toml", 404, route),
        ("/v1/sessions/s/messages/extra", 404, route),
        ("/v1/sessions/%ff/messages", 400, invalid),
        ("/v1/sessions?limit=0", 400, invalid),
        ("/v1/sessions?limit=many", 400, invalid),
        ("/v1/sessions?nobody=knows", 400, invalid),
        ("/v1/sessions?limit=1&limit=2", 400, invalid),
    ] {
        refused(&rig.client(), (Method::GET, path, b""), status, category).await;
    }
    let control = "/v1/sessions/a%00b/messages";
    refused(&rig.client(), (Method::GET, control, b""), 400, "harness_session_id_unresolved").await;
    let method = "server_method_not_allowed";
    refused(&rig.client(), (Method::PATCH, "/v1/sessions", b""), 405, method).await;
    refused(&rig.client(), (Method::TRACE, "/v1/sessions", b""), 405, method).await;
    still_answers(&rig).await;
    rig.stop().await;
}

/// Writes bytes and reads the status of the answer; none when the connection ends without.
async fn raw(rig: &Rig, bytes: &[u8]) -> Option<u16> {
    let answer = within(rig.client().raw(bytes)).await;
    answer.strip_prefix("HTTP/1.1 ").or_else(|| answer.strip_prefix("HTTP/1.0 "))?.get(..3)?.parse().ok()
}

#[tokio::test]
async fn what_is_hardly_http_is_refused_by_the_connection() {
    let rig = Rig::start().await;
    let get = |headers: &str| {
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n")
    };
    let post = |headers: &str, body: &str| {
        format!(
            "POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}\r\n{body}"
        )
    };
    let many: String = (0..200).map(|it| format!("x-{it}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "x".repeat(64 << 10));
    let smuggled = "GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for (name, bytes, status) in [
        ("as it should be", get(""), Some(200)),
        ("no HTTP", "hello there\r\n\r\n".to_owned(), Some(400)),
        ("a TLS hello", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned() + "\r\n\r\n", Some(400)),
        ("another version", "GET / HTTP/3.0\r\n\r\n".to_owned(), Some(400)),
        ("a long header", get(&long), Some(431)),
        ("many headers", get(&many), Some(431)),
        ("a header without a name", get(": nothing\r\n"), Some(400)),
        ("a header with a line end", get("x: a\u{0}b\r\n"), Some(400)),
        ("two lengths", post("content-length: 2\r\ncontent-length: 3\r\n", "{}"), Some(400)),
        ("no length", post("content-length: -1\r\n", "{}"), Some(400)),
        ("a length that is none", post("content-length: two\r\n", "{}"), Some(400)),
        (
            "a length beside chunks",
            post("content-length: 4\r\ntransfer-encoding: chunked\r\n", &format!("0\r\n\r\n{smuggled}")),
            Some(400),
        ),
        ("chunks that are none", post("transfer-encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"), Some(400)),
        ("a body that breaks off", post("content-length: 100\r\n", "{\"content\": \"a"), None),
    ] {
        if name == "a body that breaks off" {
            // The other end goes away in the middle: there is nobody to tell.
            let mut stream = rig.client().open().await;
            stream.write_all(bytes.as_bytes()).await.unwrap();
            drop(stream);
            continue;
        }
        assert_eq!(raw(&rig, bytes.as_bytes()).await, status, "{name}");
    }
    still_answers(&rig).await;
    rig.stop().await;
}

/// Reads until the other end closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    drop(within(stream.read_to_end(&mut answer)).await);
    String::from_utf8_lossy(&answer).into_owned()
}

fn hasty() -> ServerLimits {
    ServerLimits { request_time: Duration::from_millis(150), ..ServerLimits::default() }
}

#[tokio::test]
async fn who_sends_slowly_is_let_go() {
    let rig = Rig::builder().limits(hasty()).start().await;
    // Headers that never end.
    let mut headers = rig.client().open().await;
    headers.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ").await.unwrap();
    assert_eq!(rest(headers).await, "");
    // A connection on which nothing is said.
    assert_eq!(rest(rig.client().open().await).await, "");
    // A body that never comes, and one that comes byte by byte, for ever.
    let head = format!(
        "POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    );
    let mut silent = rig.client().open().await;
    silent.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(silent).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("server_request_timeout"), "{answer}");
    let (mut reading, mut writing) = rig.client().open().await.into_split();
    writing.write_all(head.as_bytes()).await.unwrap();
    let dripping = async {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let mut answer = Vec::new();
    let read = async { drop(within(reading.read_to_end(&mut answer)).await) };
    tokio::select! { () = read => {}, () = dripping => {} }
    // Where the end of the connection is seen while writing, the answer is read after it.
    drop(within(reading.read_to_end(&mut answer)).await);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    still_answers(&rig).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_large_body_may_take_its_time_as_long_as_it_comes() {
    let rig = Rig::builder().limits(hasty()).start().await;
    let text = "x".repeat(200 << 10);
    let body = json!({ "content": format!("say {text}") }).to_string();
    let head = format!(
        "POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = rig.client().open().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    // 200 KiB have three seconds more than the 150 ms that a small body has.
    for piece in body.as_bytes().chunks(32 << 10) {
        stream.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = rest(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{}", answer.chars().take(300).collect::<String>());
    rig.stop().await;
}

#[tokio::test]
async fn one_connection_too_many_waits_until_there_is_room() {
    let limits = ServerLimits { connections: 2, ..ServerLimits::default() };
    let rig = Rig::builder().limits(limits).start().await;
    let held = [rig.client().open().await, rig.client().open().await];
    let waiting = tokio::spawn({
        let client = rig.client();
        async move { client.get("/healthz").await.status }
    });
    // It is connected, and nobody answers.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    drop(held);
    assert_eq!(within(waiting).await.unwrap(), 200);
    rig.stop().await;
}
