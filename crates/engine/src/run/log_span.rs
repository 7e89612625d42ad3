//! The spans of the crate `tracing` in which work runs, so that the lines that it logs say which invocation they belong to
//! (spec: observability §7); and the line that the engine logs itself.
//!
//! They carry ids and names, and never the contents of a state or a message. Without a subscriber none is made; none
//! is installed here. A span of the trace export is another thing: that is made of stored records.

use serde_json::{Map, Value};
use singletree_env::TraceHeaders;
use tracing::Span;
use tracing::field::{Empty, display};

use super::ambient::CurrentInvocation;
use super::call_event::ToolExecution;
use super::event::GraphEvent;
use super::scope::{NodeAttempt, RunContext};

/// Returns the span of an invocation.
pub(crate) fn invocation_span(run: &RunContext) -> Span {
    let span = identity_span(&run.who);
    if !span.is_disabled() {
        let trace = run.tracing.as_ref().and_then(|tracing| tracing.trace_of_invocation());
        record_trace(&span, trace.as_deref());
    }
    span
}

/// Returns the span in which observers of an invocation run.
pub(crate) fn identity_span(who: &CurrentInvocation) -> Span {
    let identity = &who.identity;
    let span = tracing::info_span!(
        target: "singletree",
        "invocation",
        openarmature.invocation_id = %identity.invocation_id,
        openarmature.correlation_id = %identity.correlation_id,
        openarmature.session_id = Empty,
        openarmature.user = Empty,
        trace_id = Empty,
        span_id = Empty,
    );
    if !span.is_disabled() {
        if let Some(session_id) = &identity.session_id {
            span.record("openarmature.session_id", display(session_id));
        }
        record_user(&span, &who.metadata);
    }
    span
}

/// Returns the span of an attempt of a node.
pub(crate) fn node_span(attempt: &NodeAttempt, trace: Option<&TraceHeaders>) -> Span {
    let span = tracing::info_span!(
        target: "singletree",
        "node",
        openarmature.node.name = %attempt.place.node,
        openarmature.node.step = attempt.step,
        openarmature.node.attempt_index = attempt.attempt,
        openarmature.user = Empty,
        trace_id = Empty,
        span_id = Empty,
    );
    if !span.is_disabled() {
        record_user(&span, &attempt.level.metadata.entries());
        record_trace(&span, trace);
    }
    span
}

/// Returns the span of an execution of a tool.
pub(crate) fn tool_span(execution: &ToolExecution, trace: Option<&TraceHeaders>) -> Span {
    let span = tracing::info_span!(
        target: "singletree",
        "tool",
        openarmature.tool.name = %execution.tool_name,
        trace_id = Empty,
        span_id = Empty,
    );
    record_trace(&span, trace);
    span
}

/// Logs that a call exceeded bounds of its prompt's token budget (observability §7).
pub(crate) fn warn_of_budget(event: &GraphEvent) {
    let (call, output) = match event {
        GraphEvent::LlmCompletion(event) => (&event.call, Some(event.output.as_ref())),
        GraphEvent::LlmFailed(event) => (&event.call, event.failure.output.as_ref()),
        _ => return,
    };
    let Some((prompt, output)) = call.request().active_prompt().zip(output) else { return };
    for exceeded in call.request().exceeded_bounds(&output.usage) {
        tracing::warn!(
            target: "singletree",
            {
                openarmature.prompt.name = %prompt.name,
                openarmature.prompt.version = %prompt.version,
                openarmature.prompt.label = %prompt.label,
                kind = exceeded.kind,
                budget = exceeded.bound,
                used = exceeded.used,
            },
            "a model call exceeded the token budget of its prompt"
        );
    }
}

/// The caller's metadata have any names, and fields of a span are fixed: they are one field.
pub(crate) fn record_user(span: &Span, metadata: &Map<String, Value>) {
    if !metadata.is_empty() {
        span.record("openarmature.user", display(Value::Object(metadata.clone())));
    }
}

/// Records the ids of the span of the export that has the same work.
fn record_trace(span: &Span, trace: Option<&TraceHeaders>) {
    if let Some((trace_id, span_id)) = trace.and_then(|trace| read_ids(trace.traceparent())) {
        span.record("trace_id", trace_id);
        span.record("span_id", span_id);
    }
}

/// Returns the ids of a trace and of a span from a `traceparent`.
fn read_ids(traceparent: &str) -> Option<(&str, &str)> {
    let mut parts = traceparent.split('-').skip(1);
    parts.next().zip(parts.next())
}
