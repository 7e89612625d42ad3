//! A trace that begins in the caller's service goes through the turn, its model, its MCP tool and the webhook, also when
//! another process resumes the turn (W3C Trace Context).

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::{BINARY, Home};
use crate::model_server::{ModelServer, stream_call, stream_text};
use crate::serving::{Serving, ask_with};
use crate::traces::{Collector, hex};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// An MCP server that keeps the calls of its tools.
const SERVER: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
    case "$line" in
        *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
        *'"tools/list"'*) answer '{"tools":[{"name":"drop","description":"x","inputSchema":{"type":"object"}}]}' ;;
        *'"tools/call"'*) printf '%s\n' "$line" >> calls; answer '{"content":[{"type":"text","text":"dropped"}]}' ;;
    esac
done
"#;

/// Starts a model that calls the tool, and then says that it is done.
fn dropping_model() -> ModelServer {
    ModelServer::start(|asked, stream| {
        match asked.body["messages"].as_array().unwrap().iter().any(|it| it["role"] == "tool") {
            true => stream_text(stream, &["Done."]),
            false => stream_call(stream, "files__drop", &json!({})),
        }
    })
}

/// Returns the value of a header of a request in lower case.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).map(str::trim)
}

/// Checks a `traceparent`, and returns the span that it names.
fn parent_in_trace(value: Option<&str>) -> String {
    let value = value.expect("the request is in a trace");
    let parts: Vec<_> = value.split('-').collect();
    assert!(parts.len() == 4 && parts[1] == TRACE && parts[3] == "01", "{value}");
    parts[2].to_owned()
}

#[test]
fn a_callers_trace_reaches_model_tool_and_webhook_also_after_a_kill() {
    let (home, collector, webhook) = (Home::new(), Collector::start(200), Collector::start(200));
    let model = dropping_model();
    fs::write(home.path().join("server.sh"), SERVER).unwrap();
    fs::write(home.path().join("key"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let text = format!(
        "[models.main]\nwire = \"openai\"\nname = \"m\"\nbase_url = \"{}\"\nkey = {{ file = \"key\" }}\n\n\
         [agents.helper]\ninstructions = \"x\"\ntools = [\"files\"]\n\n\
         [mcp.files]\ncommand = \"sh\"\nargs = [\"server.sh\"]\n\n\
         [notify.default]\nurl = \"{}/hook\"\nsecret = {{ file = \"key\" }}\n\n\
         [telemetry]\nendpoint = \"{}\"\n",
        model.url, webhook.url, collector.url
    );
    fs::write(home.path().join("singletree.toml"), text).unwrap();

    let server = Serving::start_in(&home, &[]);
    let headers = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\ntracestate: a=1\r\nbaggage: user=q\r\n");
    let sent = json!({ "content": "drop it" });
    ask_with(&server.url, "POST", "/v1/sessions/s/messages", (&headers, &sent));
    let mut parents =
        BTreeSet::from([parent_in_trace(header(&model.asked().head.to_ascii_lowercase(), "traceparent"))]);
    let told = webhook.next();
    parents.insert(parent_in_trace(header(&told.head, "traceparent")));
    let notice: Value = serde_json::from_slice(&told.body).unwrap();
    server.stop();

    // Another process goes on, and whoever approves is in another trace.
    let server = Serving::start_in(&home, &[]);
    let waiting = server.ask("GET", "/v1/sessions/s/pending", &Value::Null)["items"][0].clone();
    assert_eq!(waiting["signal"], notice["data"]["signal"]);
    let path = format!("/v1/sessions/s/signals/{}", waiting["signal"].as_str().unwrap());
    let approved =
        json!({ "payload": { "approved": true }, "wait": waiting["number"], "action": waiting["action"] });
    let other = "traceparent: 00-11111111111111111111111111111111-2222222222222222-01\r\n";
    let answered = ask_with(&server.url, "POST", &path, (other, &approved));
    assert_eq!(answered["status"], "completed", "{answered}");
    let head = model.asked().head.to_ascii_lowercase();
    parents.insert(parent_in_trace(header(&head, "traceparent")));
    assert_eq!((header(&head, "tracestate"), header(&head, "baggage")), (Some("a=1"), Some("user=q")));
    let told = webhook.next();
    parents.insert(parent_in_trace(header(&told.head, "traceparent")));
    let called: Value =
        serde_json::from_str(fs::read_to_string(home.path().join("calls")).unwrap().trim()).unwrap();
    let meta = &called["params"]["_meta"];
    parents.insert(parent_in_trace(meta["traceparent"].as_str()));
    assert_eq!((&meta["tracestate"], &meta["baggage"]), (&json!("a=1"), &json!("user=q")));

    // The spans around the calls are there, below the caller's.
    let spans = collector.take_spans(|spans| {
        let ids: BTreeSet<String> = spans.values().map(|span| hex(&span.span_id)).collect();
        parents.is_subset(&ids)
    });
    assert!(parents.len() >= 4, "{parents:?}");
    let mut below_the_caller = 0;
    for span in spans.values() {
        assert_eq!(
            (hex(&span.trace_id).as_str(), span.trace_state.as_str()),
            (TRACE, "a=1"),
            "{}",
            span.name
        );
        let is_known = spans.values().any(|other| other.span_id == span.parent_span_id);
        below_the_caller += usize::from(!is_known && hex(&span.parent_span_id) == CALLER);
        assert!(is_known || hex(&span.parent_span_id) == CALLER, "{}", span.name);
    }
    assert_eq!(below_the_caller, 1);
    server.stop();
}

// The caller's own values stay from models and MCP servers that are not to have them; its trace does not.
#[test]
fn baggage_stays_where_the_configuration_says_so() {
    for (setting, expect) in [("", Some("user=q")), ("baggage = false\n", None)] {
        let home = Home::new();
        let model = dropping_model();
        fs::write(home.path().join("server.sh"), SERVER).unwrap();
        let text = format!(
            "[models.main]\nwire = \"openai\"\nname = \"m\"\nbase_url = \"{}\"\n{setting}\n\
             [agents.helper]\ninstructions = \"x\"\ntools = [\"files\"]\n\n\
             [mcp.files]\ncommand = \"sh\"\nargs = [\"server.sh\"]\neffects = {{ drop = \"read\" }}\n{setting}",
            model.url
        );
        fs::write(home.path().join("singletree.toml"), text).unwrap();
        let server = Serving::start_in(&home, &[]);
        let headers = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\nbaggage: user=q\r\n");
        ask_with(
            &server.url,
            "POST",
            "/v1/sessions/s/messages",
            (&headers, &json!({ "content": "drop it" })),
        );
        let head = model.asked().head.to_ascii_lowercase();
        parent_in_trace(header(&head, "traceparent"));
        assert_eq!(header(&head, "baggage"), expect);
        let called: Value =
            serde_json::from_str(fs::read_to_string(home.path().join("calls")).unwrap().trim()).unwrap();
        let meta = &called["params"]["_meta"];
        parent_in_trace(meta["traceparent"].as_str());
        assert_eq!(meta["baggage"].as_str(), expect);
        server.stop();
    }
}

// W3C Trace Context §3.2.2.5: a caller that keeps no trace has none exported, whatever the share.
#[test]
fn a_caller_that_keeps_no_trace_has_none_exported() {
    let (home, collector) = (Home::new(), Collector::start(200));
    crate::traces::write_agent(&home, &collector.url);
    let server = Serving::start_in(&home, &[]);
    for (session, flags) in [("a", "00"), ("b", "01")] {
        let headers = format!("traceparent: 00-{TRACE}-{CALLER}-{flags}\r\n");
        let path = format!("/v1/sessions/{session}/messages");
        ask_with(&server.url, "POST", &path, (&headers, &json!({ "content": "hi" })));
    }
    let spans = collector.take_spans(|spans| !spans.is_empty());
    let is_of = |span: &opentelemetry_proto::tonic::trace::v1::Span, session: &str| {
        let value = |it: &opentelemetry_proto::tonic::common::v1::KeyValue| format!("{:?}", it.value);
        span.attributes.iter().any(|it| value(it).contains(&format!("\"{session}\"")))
    };
    assert!(spans.values().any(|span| is_of(span, "b")) && !spans.values().any(|span| is_of(span, "a")));
    server.stop();
}

/// Sends `hi` with the binary in the trace of a caller, with an invalid one, and in none, and returns the `traceparent`,
/// the `tracestate` and the `baggage` that the model got.
fn traces_of_commands(home: &Home, model: &ModelServer) -> Vec<[Option<String>; 3]> {
    let valid = format!("00-{TRACE}-{CALLER}-01");
    let invalid = format!("00-{TRACE}-0000000000000000-01");
    let send = |traceparent: Option<&str>| {
        let mut command = home.command(BINARY);
        command.current_dir(home.path()).args(["send", "hi", "--session", "s"]);
        command.env("TRACESTATE", "a=1").env("BAGGAGE", "user=q");
        traceparent.map(|value| command.env("TRACEPARENT", value));
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let head = model.asked().head.to_ascii_lowercase();
        ["traceparent", "tracestate", "baggage"].map(|name| header(&head, name).map(str::to_owned))
    };
    vec![send(Some(&valid)), send(Some(&invalid)), send(None)]
}

// OpenTelemetry, environment variables as context propagation carriers.
#[test]
fn a_command_is_in_the_trace_that_its_environment_names_here_and_at_a_server() {
    let home = Home::new();
    let model = ModelServer::start(|_, stream| stream_text(stream, &["Hello."]));
    let text = format!(
        "[models.main]\nwire = \"openai\"\nname = \"m\"\nbase_url = \"{}\"\n\n\
         [agents.helper]\ninstructions = \"x\"\n",
        model.url
    );
    fs::write(home.path().join("singletree.toml"), text).unwrap();
    let check = |seen: Vec<[Option<String>; 3]>| {
        let [parent, state, baggage] = &seen[0];
        parent_in_trace(parent.as_deref());
        assert_eq!((state.as_deref(), baggage.as_deref()), (Some("a=1"), Some("user=q")));
        assert_eq!(seen[1..], [const { [None, None, None] }; 2]);
    };
    check(traces_of_commands(&home, &model));
    // A server is in no trace itself, whatever its own environment has.
    let mut command = home.command(BINARY);
    command.current_dir(home.path()).args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    command.stderr(Stdio::null()).env("TRACEPARENT", format!("00-{TRACE}-{CALLER}-01"));
    let server = Serving::of(command.spawn().unwrap());
    check(traces_of_commands(&home, &model));
    server.stop();
}
