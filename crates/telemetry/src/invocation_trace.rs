//! The trace of an invocation while it runs: what its calls send on to other services.

use std::sync::Arc;

use singletree_engine::{CallTracing, EventSource, TraceHeaders, TracedCall};

use crate::ids::{IdParts, SpanId, TraceId};
use crate::trace_context::TraceContext;

/// The trace of an invocation that runs. Its calls go out below the spans that [`render_spans`](crate::render_spans) makes
/// of them later, from the same seed; so the spans of the services that are called have a parent.
///
/// A call within a detached unit goes out in the trace of the invocation: which units are detached is known when spans
/// are rendered.
#[derive(Debug, Clone)]
pub struct InvocationTrace {
    seed: Vec<u8>,
    context: TraceContext,
    caller: Option<Arc<TraceHeaders>>,
}

impl InvocationTrace {
    /// Makes the trace of an invocation whose spans have ids of this seed
    /// ([`SpanSettings::id_seed`](crate::SpanSettings::id_seed)).
    #[must_use]
    pub fn new(trace_id: TraceId, seed: Vec<u8>, is_sampled: bool) -> Self {
        let parent_id = SpanId::of_invocation(&seed);
        Self { seed, context: TraceContext { trace_id, parent_id, is_sampled }, caller: None }
    }

    /// Sets the headers with which the invocation was called, whose `tracestate` and `baggage` go on.
    #[must_use]
    pub fn called_with(mut self, caller: Option<Arc<TraceHeaders>>) -> Self {
        self.caller = caller;
        self
    }

    /// Returns the headers below the span of the invocation.
    #[must_use]
    pub fn headers(&self) -> TraceHeaders {
        self.headers_below(self.context.parent_id)
    }

    fn headers_below(&self, span: SpanId) -> TraceHeaders {
        let traceparent = TraceContext { parent_id: span, ..self.context }.to_string();
        match &self.caller {
            Some(caller) => caller.below(traceparent),
            None => TraceHeaders::new(traceparent),
        }
    }
}

impl CallTracing for InvocationTrace {
    fn trace_of_call(&self, call: TracedCall<'_>) -> Option<Arc<TraceHeaders>> {
        let of = |source: &EventSource, id: &str, attempt: u32, kind: &str| {
            IdParts::of_call(source, (id, attempt)).span_id(&self.seed, kind)
        };
        let span = match call {
            TracedCall::Node(source) => IdParts::of_node(source).span_id(&self.seed, "node"),
            TracedCall::Model(call, attempt) => of(&call.source, &call.call_id, attempt, "llm"),
            TracedCall::Tool(execution) => of(&execution.source, &execution.call_id, 0, "tool"),
        };
        Some(Arc::new(self.headers_below(span)))
    }
}
