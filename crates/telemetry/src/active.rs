//! Which span was active where code ran, and what the lines of a log say of it (spec: observability §7).

use serde_json::{Map, Value};
use singletree_engine::EventSource;

use crate::attribute::{AttributeValue, Attributes, SetAttribute};
use crate::span::{SpanSubject, TraceSpan};
use crate::unit_spans::{identity_attributes, user_attributes};

/// Returns the attributes that a line of a log carries which was written by code of a node or a middleware: who the
/// invocation is, the caller's metadata as that code saw it, and the ids of the span in which it ran, where there is one.
#[must_use]
pub fn log_attributes(
    spans: &[TraceSpan],
    source: &EventSource,
    metadata: &Map<String, Value>,
) -> Attributes {
    let mut attributes = identity_attributes(&source.identity);
    attributes.extend(user_attributes(metadata));
    if let Some(span) = find_active_span(spans, source) {
        attributes.set("trace_id", span.trace_id.to_string());
        attributes.set("span_id", span.span_id.to_string());
    }
    attributes
}

/// Finds the span in which code of a node or a middleware ran: that of the node's attempt, or, where the node has none, of
/// the innermost inner run around it, in its own trace where it is detached; else that of the invocation.
#[must_use]
pub fn find_active_span<'a>(spans: &'a [TraceSpan], source: &EventSource) -> Option<&'a TraceSpan> {
    let boundaries = source.lineage.boundaries();
    let is_attempt = |span: &&TraceSpan| {
        let number = |name: &str, value: u64| span.attributes.get(name) == Some(&AttributeValue::from(value));
        matches!(span.subject, SpanSubject::Node)
            && span.namespace == source.namespace
            && span.lineage == source.lineage
            && source.step.is_some_and(|step| number("openarmature.node.step", step))
            && number("openarmature.node.attempt_index", source.attempt_index.into())
    };
    let unit_at = |depth: usize| {
        let is_unit = |span: &&TraceSpan| {
            let of_unit =
                matches!(span.subject, SpanSubject::Subgraph | SpanSubject::Instance | SpanSubject::Branch);
            of_unit
                && span.namespace[..] == source.namespace[..depth]
                && span.lineage.boundaries() == &boundaries[..depth]
        };
        // Of a detached subgraph the span in its own trace began last.
        spans.iter().filter(is_unit).max_by_key(|span| span.order)
    };
    let invocation =
        |span: &&TraceSpan| matches!(span.subject, SpanSubject::Invocation { detached: false, .. });
    spans
        .iter()
        .find(is_attempt)
        .or_else(|| (1..=boundaries.len()).rev().find_map(unit_at))
        .or_else(|| spans.iter().find(invocation))
}
