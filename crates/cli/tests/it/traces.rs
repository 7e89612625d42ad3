//! Traces of turns, sent to a receiver that is away, by a server that is killed.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;

use crate::home::{BINARY, Home};
use crate::model_server::read_bytes;
use crate::serving::{Serving, exchange};

/// A request that came to the receiver.
pub(crate) struct Sent {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    is_taken: bool,
}

impl Sent {
    /// Returns the spans, where it is a request with some.
    pub(crate) fn spans(&self) -> Vec<Span> {
        if !self.head.starts_with("post /v1/traces ") {
            return Vec::new();
        }
        let request = ExportTraceServiceRequest::decode(self.body.as_slice()).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|it| it.scope_spans);
        scopes.flat_map(|it| it.spans).collect()
    }
}

/// A receiver of OTLP on this machine, which answers with a status.
pub(crate) struct Collector {
    pub(crate) url: String,
    status: Arc<AtomicU16>,
    sent: Receiver<Sent>,
}

pub(crate) type Spans = BTreeMap<(Vec<u8>, Vec<u8>), Span>;

impl Collector {
    pub(crate) fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, sent) = channel();
        let status = Arc::new(AtomicU16::new(status));
        let answering = status.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, tell, answering) = (stream.unwrap(), tell.clone(), answering.clone());
                std::thread::spawn(move || {
                    while let Some((head, body)) = read_bytes(&stream) {
                        let status = answering.load(Ordering::Acquire);
                        let answer = format!("HTTP/1.1 {status} Told\r\ncontent-length: 0\r\n\r\n");
                        // A client that was killed hears nothing.
                        drop((&stream).write_all(answer.as_bytes()));
                        let head = head.to_ascii_lowercase();
                        if tell.send(Sent { head, body, is_taken: status == 200 }).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, status, sent }
    }

    pub(crate) fn next(&self) -> Sent {
        self.sent.recv_timeout(Duration::from_secs(30)).unwrap()
    }

    /// Returns a request that came already.
    pub(crate) fn try_next(&self) -> Option<Sent> {
        self.sent.try_recv().ok()
    }

    /// Waits until the spans of so many turns were taken.
    fn take_turns(&self, turns: usize) -> Spans {
        let roots = |spans: &Spans| spans.values().filter(|span| span.parent_span_id.is_empty()).count();
        self.take_spans(|spans| roots(spans) >= turns)
    }

    /// Waits until the spans that are wanted were taken. Two deliveries of one id must be the same.
    pub(crate) fn take_spans(&self, are_all: impl Fn(&Spans) -> bool) -> Spans {
        let mut spans = Spans::new();
        while !are_all(&spans) {
            let sent = self.next();
            if !sent.is_taken {
                continue;
            }
            for span in sent.spans() {
                let before = spans.insert((span.trace_id.clone(), span.span_id.clone()), span.clone());
                assert!(before.is_none_or(|before| before == span), "{span:?}");
            }
        }
        spans
    }
}

/// Writes the file of an agent whose traces go to a receiver.
pub(crate) fn write_agent(home: &Home, url: &str) {
    let script = r#"{ "model": "script", "rules": [{ "when": { "user": ["*"] }, "then": { "reply": "I hear you." } }] }"#;
    std::fs::write(home.path().join("script.json"), script).unwrap();
    let text = format!(
        "[models.main]\nwire = \"script\"\nfile = \"script.json\"\n\n[agents.helper]\ninstructions = \"Be brief.\"\n\n\
         [telemetry]\nendpoint = \"{url}\"\nprofile = \"genai\"\nheaders = {{ x-api-key = {{ file = \"key\" }} }}\n"
    );
    std::fs::write(home.path().join("key"), "canary-4711").unwrap();
    std::fs::write(home.path().join("singletree.toml"), text).unwrap();
}

pub(crate) fn run_here(home: &Home, args: &[&str]) -> String {
    let ran = home.command(BINARY).current_dir(home.path()).args(args).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn no_trace_is_lost_by_a_kill_while_the_receiver_is_away() {
    let (home, collector) = (Home::new(), Collector::start(503));
    write_agent(&home, &collector.url);
    let server = Serving::start_in(&home, &[]);
    let path = "/v1/sessions/s/messages";
    server.ask("POST", path, &json!({ "content": "canary-text one" }));
    assert!(!collector.next().is_taken);
    server.stop();
    assert!(run_here(&home, &["telemetry", "status"]).starts_with("default  1 turn waits, "));

    collector.status.store(200, Ordering::Release);
    let server = Serving::start_in(&home, &[]);
    server.ask("POST", path, &json!({ "content": "canary-text two" }));
    let spans = collector.take_turns(2);
    let names: Vec<_> = spans.values().map(|span| span.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "chat script").count(), 2, "{names:?}");
    server.stop();

    // Earlier turns can be sent again: the spans are the same.
    let other = Collector::start(200);
    let told = run_here(&home, &["telemetry", "backfill", "--since", "1h", "--to", &other.url]);
    assert_eq!(told, format!("2 turns with {} spans were sent\n", spans.len()));
    let sent = other.next();
    assert!(sent.head.starts_with("post /v1/traces ") && !sent.head.contains("canary"), "{}", sent.head);
    let again = run_here(&home, &["telemetry", "backfill", "--since", "1h", "--to", &other.url]);
    assert_eq!((again, other.take_turns(2)), (told, spans));
    let later = run_here(&home, &["telemetry", "backfill", "--since", "0s", "--to", &other.url]);
    assert_eq!(later, "0 turns with 0 spans were sent\n");
}

// A command exports its own turns, and those that earlier ones could not send; a receiver that is away delays nothing.
/// Returns the metrics of the last request for them that came, and whether any text holds a canary.
fn last_metrics(collector: &Collector) -> BTreeMap<String, Metric> {
    let sent = std::iter::from_fn(|| collector.try_next());
    let sent: Vec<_> = sent.filter(|sent| sent.head.starts_with("post /v1/metrics ")).collect();
    assert!(sent.iter().all(|sent| !String::from_utf8_lossy(&sent.body).contains("canary")));
    let request = ExportMetricsServiceRequest::decode(sent.last().unwrap().body.as_slice()).unwrap();
    // Several servers send metrics of one service.
    let resource = request.resource_metrics[0].resource.as_ref().unwrap();
    assert!(resource.attributes.iter().any(|it| it.key == "service.instance.id"), "{resource:?}");
    let scopes = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
    scopes.flat_map(|it| it.metrics).map(|metric| (metric.name.clone(), metric)).collect()
}

#[test]
fn a_server_sends_the_metrics_that_it_shows_and_once_more_at_its_end() {
    let (home, collector) = (Home::new(), Collector::start(200));
    write_agent(&home, &collector.url);
    let path = home.path().join("singletree.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}metrics = true\nmetrics_every = \"1h\"\n")).unwrap();
    let server = Serving::start_in(&home, &[]);
    server.ask("POST", "/v1/sessions/s/messages", &json!({ "content": "canary-text one" }));
    let shown = exchange(&server.url, "GET", "/metrics", ("", &json!(null))).unwrap();
    server.terminate();

    let metrics = last_metrics(&collector);
    let points = |name: &str| match metrics[name].data.as_ref().unwrap() {
        Data::Histogram(it) => it.data_points.clone(),
        other => panic!("{other:?}"),
    };
    let duration = points("openarmature.gen_ai.client.operation.duration");
    assert_eq!((duration.len(), duration[0].count), (1, 1));
    let dimensions: Vec<_> = duration[0].attributes.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(dimensions, ["gen_ai.request.model", "gen_ai.system", "openarmature.gen_ai.operation"]);
    assert_eq!(duration[0].explicit_bounds.len() + 1, duration[0].bucket_counts.len());
    let tokens = points("openarmature.gen_ai.client.token.usage");
    assert!(tokens.len() == 2 && tokens.iter().all(|it| it.sum > Some(0.0)), "{tokens:?}");
    // All that `/metrics` shows is sent.
    let kinds = shown.lines().filter_map(|line| line.strip_prefix("# TYPE ")).count();
    assert!(kinds > 20 && kinds == metrics.len(), "{kinds} {}", metrics.len());
    let Data::Sum(turns) = metrics["singletree_turns"].data.as_ref().unwrap() else { panic!() };
    assert!(turns.is_monotonic && turns.data_points.len() == 1, "{turns:?}");
}

#[test]
fn a_command_exports_the_turns_of_its_chat() {
    let (home, away) = (Home::new(), Collector::start(503));
    write_agent(&home, &away.url);
    assert_eq!(run_here(&home, &["send", "one"]), "I hear you.\n");
    assert!(run_here(&home, &["telemetry", "status"]).starts_with("default  1 turn waits, "));
    away.status.store(200, Ordering::Release);
    assert_eq!(run_here(&home, &["send", "two"]), "I hear you.\n");
    assert_eq!(run_here(&home, &["telemetry", "status"]), "no turn waits to be exported\n");
    away.take_turns(2);
}

// A key is in the headers alone, and no text of a conversation is sent.
#[test]
fn keys_and_texts_are_in_no_body_that_is_sent() {
    let (home, collector) = (Home::new(), Collector::start(200));
    write_agent(&home, &collector.url);
    let server = Serving::start_in(&home, &[]);
    server.ask("POST", "/v1/sessions/s/messages", &json!({ "content": "canary-text" }));
    let sent = collector.next();
    assert!(sent.head.contains("x-api-key: canary-4711"), "{}", sent.head);
    let body = String::from_utf8_lossy(&sent.body);
    assert!(!body.contains("canary") && !body.contains("I hear you"), "{body}");
    server.stop();
}

#[test]
fn a_backfill_that_leads_nowhere_is_refused_before_anything_is_read() {
    let home = Home::new();
    for args in
        [["--since", "yesterday", "--to", "http://127.0.0.1:1"], ["--since", "1h", "--to", "not an address"]]
    {
        let ran = home.run(&[["telemetry", "backfill"].as_slice(), &args].concat());
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{}", ran.err);
    }
    let ran = home.run(&["telemetry", "backfill", "--since", "1h"]);
    assert!(ran.code == 2 && ran.err.contains("say with --to where traces go"), "{}", ran.err);
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns all texts of spans that have a name, put together.
fn texts_of(spans: &Spans, name: &str) -> String {
    spans.values().filter(|span| span.name == name).map(|span| format!("{span:?}\n")).collect()
}

// INV-16, D25: texts only where the file asks for them, secrets never, and no text of a session that was deleted meanwhile.
#[test]
fn texts_are_sent_only_where_they_are_wanted_and_still_there() {
    for payloads in [false, true] {
        let (home, collector) = (Home::new(), Collector::start(503));
        write_agent(&home, &collector.url);
        let file = home.path().join("singletree.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}payloads = {payloads}\n")).unwrap();
        let server = Serving::start_in(&home, &[]);
        let said = json!({ "content": "canary-text one, and the key canary-4711" });
        server.ask("POST", "/v1/sessions/kept/messages", &said);
        server.ask("POST", "/v1/sessions/gone/messages", &json!({ "content": "canary-erased" }));
        assert_eq!(server.ask("DELETE", "/v1/sessions/gone", &json!({})), serde_json::Value::Null);
        collector.status.store(200, Ordering::Release);
        let spans = collector.take_turns(1);
        let (all, model) = (format!("{spans:?}"), texts_of(&spans, "chat script"));
        assert_eq!((all.contains("canary-text one"), all.contains("I hear you.")), (payloads, payloads));
        let turn = texts_of(&spans, "invoke_workflow helper");
        assert_eq!((turn.contains("canary-text one"), turn.contains("I hear you.")), (payloads, payloads));
        assert_eq!(
            model.contains("gen_ai.input.messages") && model.contains("gen_ai.output.messages"),
            payloads
        );
        assert!(!all.contains("canary-4711") && !all.contains("canary-erased"), "{all}");
        server.stop();
        let other = Collector::start(200);
        run_here(&home, &["telemetry", "backfill", "--since", "1h", "--to", &other.url]);
        let again = format!("{:?}", other.take_turns(1));
        assert_eq!(again.contains("canary-text one"), payloads);
        assert!(!again.contains("canary-4711") && !again.contains("canary-erased"), "{again}");
    }
}
