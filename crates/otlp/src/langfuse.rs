//! Clients of Langfuse, and what they send (spec: observability §8.9).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Map, Value};
use singletree_env::{BoxFuture, RandomSource, Timer};
use singletree_http::{Secret, Transport};
use singletree_telemetry::{AttributeValue, LangfuseObservation, LangfuseTrace};

use crate::client::OtlpClient;
use crate::encode::{ExportResource, text_to_wire, to_nanoseconds, value_to_wire};
use crate::error::{Error, Result};
use crate::limits::ExportLimits;

/// Takes rendered traces: a client of Langfuse's that the caller made, or ours ([`LangfuseHttpClient`]).
///
/// A caller's own client is used as it is: where it hands its observations to a tracer provider that others share, all
/// exporters of that provider get them, with their texts where
/// [`disable_provider_payload`](singletree_telemetry::LangfuseSettings::disable_provider_payload) is off. Whoever makes
/// such a client isolates it.
pub trait LangfuseClient: Send + Sync {
    /// Takes a trace. The same trace may come again.
    ///
    /// # Errors
    /// Why it could not be taken.
    ///
    /// # Cancellation
    /// Dropping the future may leave a trace that was taken in part.
    fn record_trace<'a>(&'a self, trace: &'a LangfuseTrace) -> BoxFuture<'a, Result<()>>;
}

/// Where a project of Langfuse is, and its keys.
#[derive(Debug, Clone)]
pub struct LangfuseCredentials {
    /// The address of the server, as `https://cloud.langfuse.com`.
    pub host: String,
    /// The public key.
    pub public_key: String,
    /// The secret key.
    pub secret_key: Secret,
}

/// Sends traces to Langfuse by OTLP. It has no tracer provider, so its observations reach Langfuse and nobody else.
#[derive(Debug)]
pub struct LangfuseHttpClient(OtlpClient);

impl LangfuseHttpClient {
    /// Makes a client of credentials.
    ///
    /// # Errors
    /// `telemetry_destination_invalid` for a host without `http://` or `https://`, and for empty keys.
    pub fn new(
        credentials: &LangfuseCredentials,
        transport: Arc<dyn Transport>,
        time_and_chance: (Arc<dyn Timer>, Arc<dyn RandomSource>),
    ) -> Result<Self> {
        let host = credentials.host.trim_end_matches('/');
        let invalid = |problem: &str| Err(Error::Destination { problem: problem.to_owned() });
        if !(host.starts_with("https://") || host.starts_with("http://")) {
            return invalid("the host of Langfuse is no address");
        }
        if credentials.public_key.is_empty() || credentials.secret_key.expose().is_empty() {
            return invalid("a key of Langfuse is empty");
        }
        let keys = format!("{}:{}", credentials.public_key, credentials.secret_key.expose());
        let authorization = Secret::new(format!("Basic {}", STANDARD.encode(keys)));
        let endpoint = format!("{host}/api/public/otel/v1/traces");
        let resource = ExportResource::new("singletree");
        let client = OtlpClient::new(transport, endpoint, resource, time_and_chance);
        Ok(Self(client.header("authorization", authorization)))
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: ExportLimits) -> Self {
        Self(self.0.with_limits(limits))
    }
}

impl LangfuseClient for LangfuseHttpClient {
    fn record_trace<'a>(&'a self, trace: &'a LangfuseTrace) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.0.send_wire_spans(trace_to_wire(trace)).await.map(drop) })
    }
}

/// Writes the observations of a trace as spans with the attributes by which Langfuse knows them. What is said of the
/// trace itself stands on each observation at its top.
fn trace_to_wire(trace: &LangfuseTrace) -> Vec<Span> {
    let mut writer = TraceWriter { trace_id: hex_to_bytes(&trace.id), spans: Vec::new() };
    let of_trace = trace_attributes(trace);
    for observation in &trace.observations {
        writer.add_observation(observation, Vec::new(), &of_trace);
    }
    writer.spans
}

struct TraceWriter {
    trace_id: Vec<u8>,
    spans: Vec<Span>,
}

impl TraceWriter {
    fn add_observation(&mut self, observation: &LangfuseObservation, parent: Vec<u8>, more: &[KeyValue]) {
        let span_id = observation.id.0.to_vec();
        let mut attributes = observation_attributes(observation);
        attributes.extend_from_slice(more);
        self.spans.push(Span {
            trace_id: self.trace_id.clone(),
            span_id: span_id.clone(),
            parent_span_id: parent,
            name: observation.name.clone(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: to_nanoseconds(observation.started_at),
            end_time_unix_nano: to_nanoseconds(observation.ended_at),
            attributes,
            ..Span::default()
        });
        for child in &observation.children {
            self.add_observation(child, span_id.clone(), &[]);
        }
    }
}

fn trace_attributes(trace: &LangfuseTrace) -> Vec<KeyValue> {
    let mut attributes = vec![text_to_wire("langfuse.trace.name", &trace.name)];
    let session = trace.session_id.as_deref().map(|id| text_to_wire("session.id", id));
    attributes.extend(session);
    attributes.extend(trace.user_id.as_ref().map(|id| json_to_wire("user.id", id)));
    add_metadata(&mut attributes, "langfuse.trace.metadata", &trace.metadata);
    attributes.extend(trace.input.as_ref().map(|input| json_to_wire("langfuse.trace.input", input)));
    attributes.extend(trace.output.as_ref().map(|output| json_to_wire("langfuse.trace.output", output)));
    attributes
}

fn observation_attributes(observation: &LangfuseObservation) -> Vec<KeyValue> {
    let mut attributes = vec![
        text_to_wire("langfuse.observation.type", observation.observation_type),
        text_to_wire("langfuse.observation.level", observation.level.as_str()),
    ];
    let mut add = |name: &str, value: Option<Value>| {
        attributes.extend(value.map(|value| json_to_wire(&format!("langfuse.observation.{name}"), &value)));
    };
    let filled = |map: &Map<String, Value>| (!map.is_empty()).then(|| Value::Object(map.clone()));
    add("status_message", observation.status_message.clone().map(Value::from));
    add("model.name", observation.model.clone().map(Value::from));
    add("model.parameters", filled(&observation.model_parameters));
    add("usage_details", filled(&observation.usage));
    add("input", observation.input.clone());
    add("output", observation.output.clone());
    add("prompt.reference", observation.prompt_entity.clone());
    add_metadata(&mut attributes, "langfuse.observation.metadata", &observation.metadata);
    attributes
}

fn add_metadata(attributes: &mut Vec<KeyValue>, prefix: &str, metadata: &Map<String, Value>) {
    attributes.extend(metadata.iter().map(|(key, value)| json_to_wire(&format!("{prefix}.{key}"), value)));
}

/// Writes a value: scalars and lists of them as they are, others as JSON in a text.
fn json_to_wire(name: &str, value: &Value) -> KeyValue {
    let attribute = match value {
        Value::Array(_) => None,
        _ => AttributeValue::from_json(value),
    };
    value_to_wire(name, &attribute.unwrap_or_else(|| AttributeValue::Text(value.to_string())))
}

fn hex_to_bytes(text: &str) -> Vec<u8> {
    let digit = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..text.len()).step_by(2).filter_map(digit).collect()
}
