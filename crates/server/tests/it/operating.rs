//! The operator's view: log lines, metrics, readiness; and the HTTP layers around all answers.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::Method;
use serde_json::{Value, json};
use singletree_env::RandomSource;
use singletree_http::{Redactor, Secret};
use singletree_server::{AccessPolicy, LogSink, Telemetry};

use crate::support::agents::CANARY;
use crate::support::rig::within;
use crate::support::{Rig, RigBuilder};

/// Keeps lines.
#[derive(Debug, Default)]
pub(crate) struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn write_line(&self, line: &str) {
        self.0.lock().unwrap().push(line.to_owned());
    }
}

impl Lines {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Returns those of a kind.
    pub(crate) fn of(&self, kind: &str) -> Vec<Value> {
        let lines = self.all().into_iter().map(|it| serde_json::from_str::<Value>(&it).unwrap());
        lines.filter(|it| it["kind"] == kind).collect()
    }
}

/// A rig whose lines are kept.
pub(crate) fn logged() -> (RigBuilder, Arc<Lines>) {
    let lines = Arc::new(Lines::default());
    let telemetry = Telemetry::new(lines.clone(), Redactor::new([Secret::new(CANARY)]));
    (Rig::builder().telemetry(telemetry), lines)
}

#[tokio::test]
async fn each_request_and_each_turn_has_a_line_without_what_was_said() {
    let (rig, lines) = logged();
    let rig = rig.start().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let client = rig
        .client()
        .with("x-request-id", "r-1")
        .with("traceparent", &format!("00-{trace}-b7ad6b7169203331-01"));
    client.post("/v1/sessions/s/messages?", &json!({ "content": "say PRIVATE" })).await;
    client.get("/v1/sessions/unknown").await;
    let mut requests = lines.of("request");
    for line in &mut requests {
        assert!(line.as_object_mut().unwrap().remove("ms").unwrap().as_f64().unwrap() >= 0.0);
        let peer = line.as_object_mut().unwrap().remove("peer").unwrap();
        assert!(peer.as_str().unwrap().parse::<SocketAddr>().unwrap().ip().is_loopback());
    }
    let line = |method: &str, path: &str, status: u16| {
        json!({
            "at": "2026-01-01T00:00:00.000Z", "kind": "request", "request": "r-1", "trace": trace,
            "section": "native", "method": method, "path": path, "status": status,
            "tenant": "default", "who": "local",
        })
    };
    let mut unknown = line("GET", "/v1/sessions/unknown", 404);
    unknown["category"] = json!("chat_session_unknown");
    assert_eq!(requests, [line("POST", "/v1/sessions/s/messages", 200), unknown]);
    let mut turns = lines.of("turn");
    let turn = turns[0]["turn"].as_str().unwrap();
    assert!(turn.starts_with(turns[0]["invocation"].as_str().unwrap()), "{turn}");
    for name in ["turn", "span", "invocation"] {
        let id = turns[0].as_object_mut().unwrap().remove(name).unwrap();
        assert!(id.as_str().is_some_and(|it| !it.is_empty()), "{name}");
    }
    let tokens = turns[0]["models"][0].clone();
    assert_eq!((&tokens["model"], &tokens["calls"]), (&json!("scripted-model"), &json!(1)));
    let expected = json!({
        "at": "2026-01-01T00:00:00.000Z", "kind": "turn", "tenant": "default", "session": "s",
        "trace": trace, "agent": "scripted", "answers": "message", "outcome": "completed", "queue_ms": 0, "run_ms": 0,
        "models": [tokens],
    });
    assert_eq!(turns, [expected]);
    assert!(!lines.all().concat().contains("PRIVATE"), "{:?}", lines.all());
    rig.stop().await;
}

// F11
#[tokio::test]
async fn a_line_has_the_correlation_id_of_the_message_or_of_the_header() {
    let (rig, lines) = logged();
    let rig = rig.start().await;
    let client = rig.client().with("x-correlation-id", "by-header");
    let asked = json!({ "protocol_version": "1.0.0", "correlation_id": "by-message",
        "request": { "context": { "session_id": "s", "user_intent": "say a" } } });
    client.post("/v1/openharness", &asked).await;
    let mut without = asked.clone();
    without["correlation_id"] = CANARY.into();
    client.post("/v1/openharness", &without).await;
    client.get("/v1/sessions").await;
    rig.client().get("/v1/sessions").await;
    let found: Vec<Value> = lines.of("request").iter().map(|line| line["correlation"].clone()).collect();
    assert_eq!([&found[0], &found[2], &found[3]], [&json!("by-message"), &json!("by-header"), &Value::Null]);
    assert!(!lines.all().concat().contains(CANARY), "{:?}", lines.all());
    rig.stop().await;
}

/// Returns the value of a metric.
pub(crate) fn metric(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|it| it.strip_prefix(name).is_some_and(|it| it.starts_with(' ')))?;
    line.rsplit(' ').next().map(ToOwned::to_owned)
}

#[tokio::test]
async fn metrics_count_turns_tokens_requests_commits_and_streams() {
    let (rig, _) = logged();
    let rig = rig.start().await;
    rig.client().post("/v1/sessions/s/messages", &json!({ "content": "say hello" })).await;
    rig.client().post("/v1/sessions/s/messages", &json!({ "content": "fail retryable" })).await;
    let stream = rig.client().events("/v1/sessions/s/events", None).await;
    let answer = rig.client().get("/metrics").await;
    assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = answer.text();
    let check =
        |name: &str, value: &str| assert_eq!(metric(&text, name).as_deref(), Some(value), "{name}\n{text}");
    check("singletree_turns_total{agent=\"scripted\",outcome=\"completed\",category=\"\"}", "1");
    check(
        "singletree_turns_total{agent=\"scripted\",outcome=\"errored\",category=\"provider_unavailable\"}",
        "1",
    );
    check("singletree_requests_total{section=\"native\",status=\"200\"}", "3");
    check("singletree_turn_seconds_count{outcome=\"completed\"}", "1");
    check("singletree_queue_seconds_count", "2");
    check("singletree_streams", "1");
    check("singletree_turns_running", "0");
    check("singletree_turns_waiting", "0");
    check("singletree_sessions", "1");
    let commits: u64 = metric(&text, "singletree_commit_seconds_count").unwrap().parse().unwrap();
    assert!(commits >= 4, "two turns are accepted and ended: {commits}");
    for kind in ["prompt", "completion"] {
        let name =
            format!("singletree_tokens_total{{model=\"scripted-model\",tenant=\"default\",kind=\"{kind}\"}}");
        assert!(metric(&text, &name).is_some_and(|it| it.parse::<u64>().unwrap() > 0), "{name}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    drop(stream);
    within(async {
        while metric(&rig.client().get("/metrics").await.text(), "singletree_streams").as_deref() != Some("0")
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.stop().await;
}

#[tokio::test]
async fn where_keys_are_asked_for_metrics_are_not_beside_everything_else() {
    let rig = Rig::asking().await;
    let refused = rig.client().get("/metrics").await;
    assert_eq!((refused.status, &refused.json()["error"]["category"]), (403, &json!("server_forbidden")));
    assert_eq!(rig.client().get("/healthz").await.text(), "ok");
    let version = rig.client().get("/version").await.json();
    assert_eq!(version, json!({ "name": "singletree", "version": env!("CARGO_PKG_VERSION") }));
    within(async {
        while rig.client().get("/readyz").await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    rig.stop().await;
}

#[tokio::test]
async fn whole_answers_are_compressed_for_who_takes_that_and_streams_never() {
    let rig = Rig::start().await;
    let text = "x".repeat(4000);
    rig.client().post("/v1/sessions/s/messages", &json!({ "content": format!("say {text}") })).await;
    let zipping = rig.client().with("accept-encoding", "gzip, br");
    let history = zipping.get("/v1/sessions/s/messages").await;
    assert_eq!(history.header("content-encoding"), "gzip");
    assert!(history.body.starts_with(&[0x1f, 0x8b]) && history.body.len() < 1000, "{}", history.body.len());
    let plain = rig.client().get("/v1/sessions/s/messages").await;
    assert!(plain.headers.get("content-encoding").is_none() && plain.body.len() > 8000);
    let small = zipping.get("/version").await;
    assert!(small.headers.get("content-encoding").is_none());
    let mut events = zipping.events("/v1/sessions/s/events", None).await;
    assert!(events.headers.get("content-encoding").is_none());
    assert_eq!(events.headers["content-type"], "text/event-stream");
    within(events.next()).await.unwrap();
    drop(events);
    rig.stop().await;
}

#[tokio::test]
async fn pages_of_elsewhere_may_ask_where_they_are_named() {
    let origins = vec!["https://chat.example.com".to_owned()];
    let policy = AccessPolicy { required: true, origins, ..AccessPolicy::default() };
    let rig = Rig::builder().server(move |it| it.access_policy(policy)).start().await;
    let asks = |origin: &str| {
        rig.client()
            .with("origin", origin)
            .with("access-control-request-method", "POST")
            .with("access-control-request-headers", "authorization,content-type,last-event-id")
    };
    let path = "/v1/sessions/s/messages";
    let named = asks("https://chat.example.com").send(Method::OPTIONS, path, None).await;
    assert_eq!(named.header("access-control-allow-origin"), "https://chat.example.com");
    for sent in ["last-event-id", "x-session-id", "x-stainless-retry-count", "x-stainless-package-version"] {
        assert!(named.header("access-control-allow-headers").contains(sent), "{sent}");
    }
    let other = asks("https://elsewhere.example.com").send(Method::OPTIONS, path, None).await;
    assert!(other.headers.get("access-control-allow-origin").is_none());
    let silent = Rig::start().await;
    let off = silent.client().with("origin", "https://chat.example.com").get("/healthz").await;
    assert!(off.headers.get("access-control-allow-origin").is_none());
    silent.stop().await;
    rig.stop().await;
}

/// Entropy that is not there.
#[derive(Debug)]
struct Dry;

impl RandomSource for Dry {
    fn fill_bytes(&self, bytes: &mut [u8]) {
        // The operator's key is drawn while the server is built: 32 bytes; an id has 8.
        assert!(bytes.len() == 32, "there is none, says {CANARY}");
    }
}

#[tokio::test]
async fn what_breaks_is_told_by_category_and_logged_by_name() {
    let (rig, lines) = logged();
    let rig = rig.server(|it| it.entropy(Arc::new(Dry))).start().await;
    let client = rig.operator().with("x-request-id", "r-2");
    let answer = client.post("/v1/keys", &json!({})).await;
    let expected = json!({ "error": {
        "category": "server_failed", "bucket": "retryable_transient", "message": "something broke in the server",
        "hint": "the server's log says more, under the id r-2", "request_id": "r-2" } });
    assert_eq!((answer.status, answer.json()), (500, expected));
    assert_eq!(lines.of("request")[0]["panic"], "there is none, says [redacted]");
    assert_eq!(rig.client().get("/healthz").await.status, 200);
    rig.stop().await;
}
