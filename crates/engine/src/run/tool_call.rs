//! The instrumentation of one execution of a tool (graph-engine §6).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use singletree_durable::Timestamp;
use singletree_env::TraceHeaders;
use tracing::{Instrument as _, Span};

use super::call_event::{ToolCallEvent, ToolCallFailedEvent, ToolExecution};
use super::call_tracing::TracedCall;
use super::calls::{ObservedCalls, ToolRun};
use super::event::GraphEvent;
use super::log_span::tool_span;

/// One execution of a tool that is reported to the observers of a run.
///
/// It ends with [`complete`](Self::complete) or [`fail`](Self::fail), when the outcome is known; that may be long after
/// the node that began it. Dropped without an end, it reports nothing.
#[derive(Debug)]
#[must_use = "without an end nothing is reported"]
pub struct ToolCallScope(Option<ToolCallReport>);

#[derive(Debug)]
struct ToolCallReport {
    calls: ObservedCalls,
    execution: Arc<ToolExecution>,
    started_at: Timestamp,
    started: Duration,
}

impl ToolCallScope {
    pub(crate) fn begin(calls: ObservedCalls, tool: ToolRun<'_>) -> Self {
        let parts = calls.event_source().zip(calls.take_tool_call_id(tool.tool_call_id));
        let report = parts.zip(calls.run().cloned()).map(|((source, call_id), run)| ToolCallReport {
            calls,
            execution: Arc::new(tool.describe(source, call_id)),
            started_at: run.core.env.clock.now(),
            started: run.core.env.monotonic.elapsed_since_origin(),
        });
        Self(report)
    }

    /// Runs the tool's work in the trace below the span of its execution, where the run has one; else in that of its caller.
    pub async fn run_in_trace<T>(&self, work: impl Future<Output = T>) -> T {
        let own = self.0.as_ref().and_then(|it| it.calls.trace_of_call(TracedCall::Tool(&it.execution)));
        let span = self.0.as_ref().map_or_else(Span::none, |it| tool_span(&it.execution, own.as_deref()));
        TraceHeaders::scope(own.or_else(TraceHeaders::current), work).instrument(span).await
    }

    /// Reports that the tool returned. The result is taken as it is; it is made only where somebody observes.
    pub fn complete(self, result: impl FnOnce() -> Value) {
        let Some(report) = self.0 else { return };
        let (at, latency_ms) = report.end_time();
        let ToolCallReport { calls, execution, started_at, .. } = report;
        calls.dispatch(GraphEvent::ToolCall(ToolCallEvent {
            execution,
            started_at,
            at,
            latency_ms,
            caller_invocation_metadata: calls.observed_metadata(),
            result: result(),
        }));
    }

    /// Reports that the tool failed, with the type or code of the error where it has one.
    pub fn fail(self, error_type: Option<&str>, message: impl FnOnce() -> String) {
        let Some(report) = self.0 else { return };
        let (at, latency_ms) = report.end_time();
        let ToolCallReport { calls, execution, started_at, .. } = report;
        calls.dispatch(GraphEvent::ToolCallFailed(ToolCallFailedEvent {
            execution,
            started_at,
            at,
            latency_ms,
            caller_invocation_metadata: calls.observed_metadata(),
            error_type: error_type.map(str::to_owned),
            error_message: message(),
        }));
    }
}

impl ToolCallReport {
    fn end_time(&self) -> (Timestamp, Option<f64>) {
        let Some(run) = self.calls.run() else { return (self.started_at, None) };
        let took = run.core.env.monotonic.elapsed_since_origin().saturating_sub(self.started);
        (run.core.env.clock.now(), Some(took.as_secs_f64() * 1000.0))
    }
}
