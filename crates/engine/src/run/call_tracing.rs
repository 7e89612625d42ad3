//! The trace in which the calls of a run go out to other services.

use std::fmt;
use std::sync::Arc;

use singletree_env::TraceHeaders;

use super::call_event::{EventSource, LlmCall, ToolExecution};
use super::calls::ObservedCalls;

/// A call that begins, and of which a span is made.
#[derive(Debug, Clone, Copy)]
pub enum TracedCall<'a> {
    /// An attempt of a model call, with its number from 0.
    Model(&'a LlmCall, u32),
    /// The execution of a tool.
    Tool(&'a ToolExecution),
    /// An attempt of a node: for calls that it makes and does not report.
    Node(&'a EventSource),
}

/// Says in which trace the calls of a run go out ([`InvokeOptions::call_tracing`](crate::InvokeOptions::call_tracing)).
pub trait CallTracing: fmt::Debug + Send + Sync {
    /// Returns the headers of the trace below the span of a call. Must be quick: the call waits.
    fn trace_of_call(&self, call: TracedCall<'_>) -> Option<Arc<TraceHeaders>>;

    /// Returns the headers of the trace below the span of the invocation, for the lines that are logged outside of nodes.
    fn trace_of_invocation(&self) -> Option<Arc<TraceHeaders>>;
}

impl ObservedCalls {
    pub(crate) fn trace_of_call(&self, call: TracedCall<'_>) -> Option<Arc<TraceHeaders>> {
        self.run()?.tracing.as_ref()?.trace_of_call(call)
    }
}
