//! Traces of Langfuse, by a client of credentials and by a caller's own.

use std::sync::{Arc, Mutex};

use singletree_env::{BoxFuture, RandomSource, Timer, Timestamp};
use singletree_http::Secret;
use singletree_otlp::{LangfuseClient, LangfuseCredentials, LangfuseExporter, Result};
use singletree_telemetry::{LangfuseObservation, LangfuseSettings, LangfuseTrace, ObservationLevel, SpanId};

use crate::rig::{HighestNumbers, NotingTimer, ReceiverAnswer, ScriptedReceiver};

fn observation(number: u8, kind: &'static str, children: Vec<LangfuseObservation>) -> LangfuseObservation {
    LangfuseObservation {
        id: SpanId([number; 8]),
        observation_type: kind,
        name: format!("o{number}"),
        started_at: Timestamp::from_millis(1),
        ended_at: Timestamp::from_millis(2),
        level: ObservationLevel::Error,
        status_message: Some("boom".into()),
        metadata: serde_json::Map::from_iter([
            ("tenant".into(), "t".into()),
            ("deep".into(), serde_json::json!({"a": 1})),
        ]),
        model: Some("m".into()),
        model_parameters: serde_json::Map::new(),
        usage: serde_json::Map::from_iter([("input".into(), 3.into())]),
        input: None,
        output: Some("said".into()),
        prompt_entity: None,
        children,
    }
}

fn trace() -> LangfuseTrace {
    LangfuseTrace {
        id: "0102030405060708090a0b0c0d0e0f10".into(),
        name: "turn".into(),
        session_id: Some("s".into()),
        user_id: Some("u".into()),
        metadata: serde_json::Map::from_iter([("entry_node".into(), "a".into())]),
        input: None,
        output: None,
        started_at: Timestamp::from_millis(1),
        observations: vec![observation(1, "span", vec![observation(2, "generation", Vec::new())])],
    }
}

fn credentials(host: &str, secret: &str) -> LangfuseCredentials {
    LangfuseCredentials { host: host.into(), public_key: "pk".into(), secret_key: Secret::new(secret) }
}

fn exporter(receiver: &Arc<ScriptedReceiver>, credentials: &LangfuseCredentials) -> Result<LangfuseExporter> {
    let time_and_chance: (Arc<dyn Timer>, Arc<dyn RandomSource>) =
        (Arc::new(NotingTimer::default()), Arc::new(HighestNumbers));
    LangfuseExporter::from_credentials(
        credentials,
        receiver.clone(),
        time_and_chance,
        LangfuseSettings::new(),
    )
}

// spec: observability §8.9, a client of credentials
#[tokio::test]
async fn a_client_of_credentials_sends_observations_to_langfuse_alone() {
    let receiver = ScriptedReceiver::answering([ReceiverAnswer::Status(503, Vec::new())]);
    let exporter = exporter(&receiver, &credentials("https://lf.example/", "canary")).unwrap();
    exporter.export_traces(&[trace()]).await.unwrap();
    let requests = receiver.requests.lock().unwrap().clone();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].url, "https://lf.example/api/public/otel/v1/traces");
    let authorization = requests[1].headers.iter().find(|(name, _)| name == "authorization").unwrap();
    assert_eq!(authorization.1, "Basic cGs6Y2FuYXJ5");
    let spans = receiver.spans().remove(1);
    let shape: Vec<_> =
        spans.iter().map(|span| (span.span_id[0], span.parent_span_id.first().copied())).collect();
    assert_eq!(shape, [(1, None), (2, Some(1))]);
    assert_eq!(spans[0].trace_id, (1..=16).collect::<Vec<u8>>());
    let names = |at: usize| spans[at].attributes.iter().map(|it| it.key.as_str()).collect::<Vec<_>>();
    for name in
        ["langfuse.observation.type", "langfuse.observation.output", "langfuse.observation.usage_details"]
    {
        assert!(names(1).contains(&name), "{name}");
    }
    assert!(names(0).contains(&"session.id") && names(0).contains(&"langfuse.trace.metadata.entry_node"));
    assert!(!names(1).contains(&"session.id"), "said once, at the top");
    assert!(!format!("{exporter:?}").contains("canary"));
}

#[test]
fn credentials_that_lead_nowhere_are_refused() {
    let receiver = ScriptedReceiver::answering([]);
    for refused in [credentials("lf.example", "s"), credentials("https://lf.example", "")] {
        let error = exporter(&receiver, &refused).unwrap_err();
        assert_eq!(error.category(), "telemetry_destination_invalid");
    }
}

/// A client of the caller's.
#[derive(Default)]
struct OwnClient(Mutex<Vec<String>>);

impl LangfuseClient for OwnClient {
    fn record_trace<'a>(&'a self, trace: &'a LangfuseTrace) -> BoxFuture<'a, Result<()>> {
        self.0.lock().unwrap().push(trace.id.clone());
        Box::pin(async { Ok(()) })
    }
}

// spec: observability §8.9, a client of the caller's
#[tokio::test]
async fn a_callers_own_client_is_used_as_it_is() {
    let client = Arc::new(OwnClient::default());
    let exporter = LangfuseExporter::with_client(client.clone(), LangfuseSettings::new());
    exporter.export_traces(&[trace(), trace()]).await.unwrap();
    assert_eq!(client.0.lock().unwrap().len(), 2);
}
