//! The trace to which a request belongs (W3C Trace Context).

use axum::http::HeaderMap;
use singletree_telemetry::{TraceContext, TraceId};

/// The header with the trace.
const HEADER: &str = "traceparent";

/// Returns the trace of a request; `None` without a valid header.
pub(crate) fn read_trace_id(headers: &HeaderMap) -> Option<TraceId> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    TraceContext::from_header(text).map(|context| context.trace_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: W3C Trace Context §3.2.2; what is valid is tested where it is read.
    #[test]
    fn a_trace_is_taken_over_when_it_is_one() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let read = |text: &str| {
            let headers: HeaderMap = [(HEADER.parse().unwrap(), text.parse().unwrap())].into_iter().collect();
            read_trace_id(&headers).map(|id| id.to_string())
        };
        assert_eq!(read(&format!("00-{trace}-b7ad6b7169203331-01")).as_deref(), Some(trace));
        assert_eq!(read(&format!("00-{trace}-0000000000000000-01")), None);
        assert_eq!(read_trace_id(&HeaderMap::new()), None);
    }
}
