//! The trace of an invocation while it runs, which its calls send on to other services.

use std::sync::Arc;

use singletree_engine::{CallTracing, EventSource, TraceHeaders, TracedCall};

use crate::ids::{IdParts, SpanId, TraceId};
use crate::trace_context::TraceContext;

/// The trace of an invocation that runs.
///
/// Where its spans are exported, its calls go out below the spans that [`render_spans`](crate::render_spans) makes of them
/// later, from the same seed; so the spans of the services that are called have a parent. Where they are not, the calls
/// go out below the caller's span, as the invocation came.
///
/// A call within a detached unit goes out in the trace of the invocation: which units are detached is known when spans
/// are rendered.
#[derive(Debug, Clone)]
pub struct InvocationTrace(OutgoingTrace);

#[derive(Debug, Clone)]
enum OutgoingTrace {
    Exported { seed: Vec<u8>, context: TraceContext, caller: Option<Arc<TraceHeaders>> },
    PassedOn(Arc<TraceHeaders>),
}

impl InvocationTrace {
    /// Makes the trace of an invocation whose spans are exported with ids of this seed
    /// ([`SpanSettings::id_seed`](crate::SpanSettings::id_seed)). The `tracestate` and the `baggage` of the caller go on.
    #[must_use]
    pub fn exported(
        (trace_id, is_sampled): (TraceId, bool),
        seed: Vec<u8>,
        caller: Option<Arc<TraceHeaders>>,
    ) -> Self {
        let parent_id = SpanId::of_invocation(&seed);
        Self(OutgoingTrace::Exported {
            seed,
            context: TraceContext { trace_id, parent_id, is_sampled },
            caller,
        })
    }

    /// Makes the trace of an invocation whose spans nobody exports.
    #[must_use]
    pub fn passed_on(caller: Arc<TraceHeaders>) -> Self {
        Self(OutgoingTrace::PassedOn(caller))
    }

    /// Returns the headers below the span of the invocation.
    #[must_use]
    pub fn headers(&self) -> Arc<TraceHeaders> {
        self.headers_below(SpanId::of_invocation)
    }

    fn headers_below(&self, span: impl FnOnce(&[u8]) -> SpanId) -> Arc<TraceHeaders> {
        let (seed, context, caller) = match &self.0 {
            OutgoingTrace::PassedOn(caller) => return caller.clone(),
            OutgoingTrace::Exported { seed, context, caller } => (seed, *context, caller),
        };
        let traceparent = TraceContext { parent_id: span(seed), ..context }.to_string();
        Arc::new(match caller {
            Some(caller) => caller.below(traceparent),
            None => TraceHeaders::new(traceparent),
        })
    }
}

impl CallTracing for InvocationTrace {
    fn trace_of_invocation(&self) -> Option<Arc<TraceHeaders>> {
        Some(self.headers())
    }

    fn trace_of_call(&self, call: TracedCall<'_>) -> Option<Arc<TraceHeaders>> {
        let of = |seed: &[u8], source: &EventSource, (id, attempt): (&str, u32), kind: &str| {
            IdParts::of_call(source, (id, attempt)).span_id(seed, kind)
        };
        Some(self.headers_below(|seed| match call {
            TracedCall::Node(source) => IdParts::of_node(source).span_id(seed, "node"),
            TracedCall::Model(call, attempt) => of(seed, &call.source, (&call.call_id, attempt), "llm"),
            TracedCall::Tool(execution) => of(seed, &execution.source, (&execution.call_id, 0), "tool"),
        }))
    }
}
