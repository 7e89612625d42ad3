//! Langfuse traces (spec: observability §8.4.1).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use singletree_engine::{GraphEvent, Snapshot};
use singletree_env::Timestamp;

use super::observation::{LangfuseObservation, is_user_attribute};
use super::settings::{LangfuseSettings, StateView};
use crate::attribute::Attributes;
use crate::ids::{SpanId, TraceId};
use crate::payload::to_canonical_json;
use crate::render::render_spans;
use crate::span::{InvocationEnding, SpanSubject, TraceSpan};

/// A trace, as Langfuse has it.
#[derive(Debug, Clone, PartialEq)]
pub struct LangfuseTrace {
    /// Its id: 32 hexadecimal digits.
    pub id: String,
    /// Its name: the caller's label, or the entry node.
    pub name: String,
    /// The session that it is grouped under.
    pub session_id: Option<String>,
    /// The user that it is grouped under.
    pub user_id: Option<Value>,
    /// What it can be found by.
    pub metadata: Map<String, Value>,
    /// What it began with.
    pub input: Option<Value>,
    /// What it ended with; nothing while it waits or runs.
    pub output: Option<Value>,
    /// When it began.
    pub started_at: Timestamp,
    /// Its observations, in the order in which they began.
    pub observations: Vec<LangfuseObservation>,
}

/// Renders the events of one invocation as Langfuse traces: its own first, then those of its detached units in the order
/// in which they began.
#[must_use]
pub fn render_langfuse_traces(events: &[GraphEvent], settings: &LangfuseSettings) -> Vec<LangfuseTrace> {
    let mut spans = render_spans(events, &settings.spans);
    spans.sort_by_key(|span| span.order);
    let mut roots: Vec<&TraceSpan> = Vec::new();
    for span in spans.iter().filter(|span| matches!(span.subject, SpanSubject::Invocation { .. })) {
        // An invocation that was resumed is one trace.
        if !roots.iter().any(|root| root.trace_id == span.trace_id) {
            roots.push(span);
        }
    }
    let children = group_children(&spans);
    roots.into_iter().filter_map(|root| make_trace(root, &spans, &children, settings)).collect()
}

/// The spans below each span; those below an invocation are at the top of its trace.
struct SpanChildren<'a> {
    top: BTreeMap<TraceId, Vec<&'a TraceSpan>>,
    below: BTreeMap<(TraceId, SpanId), Vec<&'a TraceSpan>>,
}

fn group_children(spans: &[TraceSpan]) -> SpanChildren<'_> {
    let is_invocation = |span: &TraceSpan| matches!(span.subject, SpanSubject::Invocation { .. });
    let invocations: Vec<_> =
        spans.iter().filter(|span| is_invocation(span)).map(|span| (span.trace_id, span.span_id)).collect();
    let mut children = SpanChildren { top: BTreeMap::new(), below: BTreeMap::new() };
    for span in spans.iter().filter(|span| !is_invocation(span)) {
        match span.parent_id.map(|parent| (span.trace_id, parent)) {
            Some(parent) if !invocations.contains(&parent) => {
                children.below.entry(parent).or_default().push(span)
            }
            _ => children.top.entry(span.trace_id).or_default().push(span),
        }
    }
    children
}

impl SpanChildren<'_> {
    fn observe(&self, span: &TraceSpan) -> LangfuseObservation {
        let below = self.below.get(&(span.trace_id, span.span_id)).into_iter().flatten();
        LangfuseObservation::from_span(span, below.map(|child| self.observe(child)).collect())
    }
}

fn make_trace(
    root: &TraceSpan,
    spans: &[TraceSpan],
    children: &SpanChildren<'_>,
    settings: &LangfuseSettings,
) -> Option<LangfuseTrace> {
    let SpanSubject::Invocation { identity, entry_node, label, detached, initial_state, .. } = &root.subject
    else {
        return None;
    };
    // The run that came last says how the trace ended.
    let last = spans
        .iter()
        .rev()
        .find(|span| span.trace_id == root.trace_id && matches!(span.subject, SpanSubject::Invocation { .. }))
        .unwrap_or(root);
    let mut metadata = trace_metadata(&last.attributes);
    let invocation_id = identity.invocation_id.as_str();
    if *detached {
        metadata.insert("detached_from_invocation_id".into(), invocation_id.into());
    } else if !TraceId::is_uuid(invocation_id) {
        metadata.insert("invocation_id".into(), invocation_id.into());
    }
    let top = children.top.get(&root.trace_id).into_iter().flatten();
    let stub = json!({ "entry_node": entry_node.as_ref(), "correlation_id": identity.correlation_id });
    let id = if *detached { root.trace_id } else { TraceId::of_invocation(identity) };
    let input = settings.input_from_state.as_ref();
    Some(LangfuseTrace {
        id: id.to_string(),
        name: label.as_ref().unwrap_or(entry_node).to_string(),
        session_id: identity.session_id.as_ref().map(ToString::to_string),
        user_id: metadata.get("userId").cloned(),
        metadata,
        input: Some(show_state(initial_state.as_ref(), input, settings).unwrap_or(stub)),
        output: trace_output(last, settings),
        started_at: root.started_at,
        observations: top.map(|span| children.observe(span)).collect(),
    })
}

fn trace_metadata(attributes: &Attributes) -> Map<String, Value> {
    let keys = [
        ("openarmature.correlation_id", "correlation_id"),
        ("openarmature.graph.entry_node", "entry_node"),
        ("openarmature.graph.spec_version", "spec_version"),
        ("openarmature.implementation.name", "implementation_name"),
        ("openarmature.implementation.version", "implementation_version"),
    ];
    let mut metadata = Map::new();
    for (name, value) in attributes {
        let known = keys.iter().find(|(attribute, _)| attribute == name).map(|(_, key)| *key);
        if let Some(key) = known.or_else(|| is_user_attribute(name)) {
            metadata.insert(key.to_owned(), value.to_json());
        }
    }
    metadata
}

/// Shows a state by the caller's view, or as it is where that is permitted; else nothing.
fn show_state(
    state: Option<&Snapshot>,
    view: Option<&StateView>,
    settings: &LangfuseSettings,
) -> Option<Value> {
    let state = state?;
    let shown = view.and_then(|view| view.show(state)).or_else(|| {
        (!settings.disable_state_payload).then(|| state.to_json().ok().map(Value::Object)).flatten()
    })?;
    let text = to_canonical_json(&shown);
    let cut = settings.payload_cap.apply(text.clone());
    Some(if cut == text { shown } else { cut.into() })
}

fn trace_output(last: &TraceSpan, settings: &LangfuseSettings) -> Option<Value> {
    let SpanSubject::Invocation { ending, final_node, .. } = &last.subject else { return None };
    let (state, status) = match ending.as_ref()? {
        InvocationEnding::Completed(state) => (state, "completed"),
        InvocationEnding::Failed(state) => (state, "failed"),
        InvocationEnding::Suspended => return None,
    };
    let stub = json!({ "final_node": final_node.as_deref(), "status": status });
    Some(show_state(state.as_ref(), settings.output_from_state.as_ref(), settings).unwrap_or(stub))
}
