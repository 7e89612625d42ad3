//! Spans as requests of OTLP.

use std::borrow::Cow;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as WireValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use singletree_env::Timestamp;
use singletree_telemetry::{AttributeValue, Attributes, SpanException, SpanStatus, SpanSubject, TraceSpan};

/// The name of the instrumentation that makes spans and metrics.
const SCOPE: &str = "singletree";

/// The process that spans are said to come from: attributes of OpenTelemetry's resource.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportResource {
    attributes: Attributes,
}

impl ExportResource {
    /// Makes the resource of a service.
    #[must_use]
    pub fn new(service_name: impl Into<String>) -> Self {
        let name = AttributeValue::Text(service_name.into());
        Self { attributes: Attributes::from([("service.name".into(), name)]) }
    }

    /// Sets an attribute, in place of an earlier one of the name.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        self.attributes.insert(Cow::Owned(name.into()), value.into());
        self
    }
}

/// Writes spans as the body of one request (`ExportTraceServiceRequest`). The same spans are the same bytes, in every
/// process.
#[must_use]
pub fn encode_spans(spans: &[TraceSpan], resource: &ExportResource) -> Vec<u8> {
    wrap_spans(spans.iter().map(span_to_wire).collect(), resource).encode_to_vec()
}

/// Puts spans into a request.
pub(crate) fn wrap_spans(spans: Vec<Span>, resource: &ExportResource) -> ExportTraceServiceRequest {
    let scoped = ScopeSpans { scope: Some(build_scope()), spans, ..ScopeSpans::default() };
    let resource = Some(resource_to_wire(resource));
    let all = ResourceSpans { resource, scope_spans: vec![scoped], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![all] }
}

/// Names the instrumentation that makes spans and metrics.
pub(crate) fn build_scope() -> InstrumentationScope {
    InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

pub(crate) fn resource_to_wire(resource: &ExportResource) -> Resource {
    Resource { attributes: attributes_to_wire(&resource.attributes), ..Resource::default() }
}

/// Writes one span.
pub(crate) fn span_to_wire(span: &TraceSpan) -> Span {
    let kind = match span.subject {
        SpanSubject::Llm(_) => SpanKind::Client,
        _ => SpanKind::Internal,
    };
    let links = span.links.iter().map(|link| Link {
        trace_id: link.trace_id.0.to_vec(),
        span_id: link.span_id.0.to_vec(),
        ..Link::default()
    });
    Span {
        trace_id: span.trace_id.0.to_vec(),
        span_id: span.span_id.0.to_vec(),
        parent_span_id: span.parent_id.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        trace_state: span.trace_state.as_deref().unwrap_or_default().to_owned(),
        name: span.name.to_string(),
        kind: kind.into(),
        start_time_unix_nano: to_nanoseconds(span.started_at),
        end_time_unix_nano: to_nanoseconds(span.ended_at),
        attributes: attributes_to_wire(&span.attributes),
        events: span.exception.iter().map(|exception| exception_to_wire(exception, span.ended_at)).collect(),
        links: links.collect(),
        status: Some(status_to_wire(&span.status)),
        ..Span::default()
    }
}

/// Converts a time to nanoseconds since 1970; times before that are 0.
pub(crate) fn to_nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(0).saturating_mul(1_000_000)
}

fn status_to_wire(status: &SpanStatus) -> Status {
    let (code, message) = match status {
        SpanStatus::Unset => (StatusCode::Unset, None),
        SpanStatus::Ok => (StatusCode::Ok, None),
        SpanStatus::Error { description } => (StatusCode::Error, description.clone()),
    };
    Status { code: code.into(), message: message.unwrap_or_default() }
}

fn exception_to_wire(exception: &SpanException, at: Timestamp) -> Event {
    let attributes =
        [("exception.type", &exception.exception_type), ("exception.message", &exception.message)];
    Event {
        time_unix_nano: to_nanoseconds(at),
        name: "exception".to_owned(),
        attributes: attributes.map(|(name, text)| text_to_wire(name, text)).into(),
        ..Event::default()
    }
}

/// Writes an attribute that is a text.
pub(crate) fn text_to_wire(name: &str, text: &str) -> KeyValue {
    value_to_wire(name, &AttributeValue::Text(text.to_owned()))
}

/// Writes an attribute.
pub(crate) fn value_to_wire(name: &str, value: &AttributeValue) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(any_to_wire(value)), ..KeyValue::default() }
}

fn attributes_to_wire(attributes: &Attributes) -> Vec<KeyValue> {
    attributes.iter().map(|(name, value)| value_to_wire(name, value)).collect()
}

fn any_to_wire(value: &AttributeValue) -> AnyValue {
    let value = match value {
        AttributeValue::Text(text) => WireValue::StringValue(text.clone()),
        AttributeValue::Int(whole) => WireValue::IntValue(*whole),
        AttributeValue::Double(fraction) => WireValue::DoubleValue(*fraction),
        AttributeValue::Bool(truth) => WireValue::BoolValue(*truth),
        AttributeValue::List(items) => {
            WireValue::ArrayValue(ArrayValue { values: items.iter().map(any_to_wire).collect() })
        }
    };
    AnyValue { value: Some(value) }
}
