//! The trace of whoever started the program: its variables have the values of the headers of W3C Trace Context and Baggage
//! (OpenTelemetry, environment variables as context propagation carriers).

use std::sync::Arc;

use singletree::env::TraceHeaders;
use singletree::telemetry::TraceContext;

use crate::args::Command;
use crate::who::read_env_variable;

/// Returns the trace in which a command sends messages and answers; none for other commands, and without a valid
/// `TRACEPARENT`. A server's calls are in the traces of its callers, never in that of whoever started it.
pub(crate) fn read_caller_trace(command: &Command) -> Option<Arc<TraceHeaders>> {
    let sends = matches!(
        command,
        Command::Chat(_)
            | Command::Send(_)
            | Command::Answer(_)
            | Command::Retry(_)
            | Command::Fork(_)
            | Command::Campaign(_)
    );
    if !sends {
        return None;
    }
    let value = |name| read_env_variable(name).unwrap_or_default();
    let context = TraceContext::from_header(value("TRACEPARENT").trim())?;
    let trace = TraceHeaders::new(context.to_string());
    Some(Arc::new(trace.with_tracestate(value("TRACESTATE")).with_baggage(value("BAGGAGE"))))
}
