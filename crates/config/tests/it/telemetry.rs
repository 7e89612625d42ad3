//! Where traces are sent: read whole, and every mistake told with its place and without text that may be a secret.

use std::path::Path;
use std::time::Duration;

use singletree_telemetry::SpanProfile;

use crate::table::{MODEL, check_agents, read_in};

const AGENT: &str = "agents.a = { instructions = \"x\" }\n";

#[test]
fn the_table_is_read_and_its_headers_are_secrets() {
    let text = r#"
[telemetry]
endpoint = "https://collector.example.com"
headers = { x-api-key = { env = "SINGLETREE_NOTIFY_SECRET" }, x-team = "chat" }
profile = "genai"
payloads = true
service = "shop"
share = 0.25
max_age = "2h"
max_bytes = "1MiB"
[telemetry.shares]
a = 1
"#;
    let config = read_in(Path::new("nowhere"), &format!("{MODEL}{AGENT}{text}")).unwrap();
    let settings = config.telemetry_settings().unwrap();
    assert_eq!(settings.endpoint, "https://collector.example.com/v1/traces");
    assert_eq!((settings.profile, settings.service.as_str()), (SpanProfile::GenAi, "shop"));
    assert!(settings.payloads);
    assert_eq!(
        (settings.share, settings.agent_shares.as_slice()),
        (Some(0.25), [("a".to_owned(), 1.0)].as_slice())
    );
    assert_eq!((settings.max_age, settings.max_bytes), (Some(Duration::from_hours(2)), Some(1 << 20)));
    let headers: Vec<_> =
        settings.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("x-api-key", "canary-4711-that-signs-notices"), ("x-team", "chat")]);
    assert!(!format!("{config:?}").contains("canary-4711"));
    assert!(!config.redactor().redact("it has canary-4711-that-signs-notices").contains("canary"));
    let nothing = read_in(Path::new("nowhere"), &format!("{MODEL}{AGENT}")).unwrap();
    assert!(nothing.telemetry_settings().is_none());
}

#[test]
fn an_address_without_a_path_gets_that_of_traces() {
    for (given, expected) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("http://collector:4318/otlp/v1/traces", "http://collector:4318/otlp/v1/traces"),
    ] {
        let text = format!("{MODEL}{AGENT}[telemetry]\nendpoint = \"{given}\"\n");
        let config = read_in(Path::new("nowhere"), &text).unwrap();
        assert_eq!(config.telemetry_settings().unwrap().endpoint, expected);
    }
}

#[test]
fn what_is_wrong_about_traces_is_told() {
    let check = |text: &str, expect: &[&str]| check_agents(&format!("{AGENT}{text}"), expect);
    check(
        "[telemetry]\nprofile = \"genia\"\n",
        &[
            "3:2: `telemetry.endpoint` is missing",
            "hint: an address that takes traces by OTLP over HTTP, as in \"http://127.0.0.1:4318/v1/traces\"",
            "4:11: `telemetry.profile` must be one of \"openarmature\", \"genai\"",
            "hint: did you mean `genai`?",
        ],
    );
    check(
        "[telemetry]\nendpoint = \"http://collector.example.com/v1/traces\"\nheaders = { x-key = { env = \"SINGLETREE_NOTIFY_SECRET\" } }\n",
        &["4:12: `telemetry.endpoint` must begin with https://, since a header holds a secret"],
    );
    check(
        "[telemetry]\nendpoint = \"http://127.0.0.1:4318\"\nshare = 1.5\nshares = { a = -1, b = 0.5 }\n",
        &[
            "5:9: `telemetry.share` must be a number from 0, none, to 1, all",
            "6:16: `telemetry.shares.a` must be a number from 0, none, to 1, all",
            "6:20: `telemetry.shares` names `b`, which is not there",
            "hint: there is `a`",
        ],
    );
}

#[test]
fn metrics_go_beside_the_traces_or_to_an_address_of_their_own() {
    let read = |more: &str| {
        let text = format!("{MODEL}{AGENT}[telemetry]\nendpoint = \"http://127.0.0.1:4318\"\n{more}");
        let config = read_in(Path::new("nowhere"), &text).unwrap();
        let metrics = config.telemetry_settings().unwrap().metrics.clone();
        metrics.map(|metrics| (metrics.endpoint, metrics.every.as_secs()))
    };
    assert_eq!(read(""), None);
    assert_eq!(read("metrics = true\n"), Some(("http://127.0.0.1:4318/v1/metrics".into(), 60)));
    let other = "metrics = true\nmetrics_endpoint = \"http://127.0.0.1:9090/api/v1/otlp/v1/metrics\"\nmetrics_every = \"5s\"\n";
    assert_eq!(read(other), Some(("http://127.0.0.1:9090/api/v1/otlp/v1/metrics".into(), 5)));
}

#[test]
fn mistakes_about_metrics_have_places() {
    let check = |text: &str, expect: &[&str]| check_agents(&format!("{AGENT}{text}"), expect);
    check(
        "[telemetry]\nendpoint = \"http://127.0.0.1:4318\"\nmetrics_every = \"5s\"\n",
        &["5:17: `telemetry.metrics_every` has no meaning without `metrics = true`"],
    );
    check(
        "[telemetry]\nendpoint = \"http://127.0.0.1:4318/otlp\"\nmetrics = true\nmetrics_every = \"10ms\"\n",
        &[
            "3:2: `telemetry.metrics_endpoint` is missing",
            "hint: an address that takes metrics by OTLP over HTTP: it cannot be derived from that of traces",
            "6:17: `telemetry.metrics_every` must be at least a second",
        ],
    );
    check(
        "[telemetry]\nendpoint = \"http://127.0.0.1:4318\"\nmetrics = true\n\
         metrics_endpoint = \"http://collector.example.com/v1/metrics\"\n\
         headers = { x-key = { env = \"SINGLETREE_NOTIFY_SECRET\" } }\n",
        &["6:20: `telemetry.metrics_endpoint` must begin with https://, since a header holds a secret"],
    );
}
