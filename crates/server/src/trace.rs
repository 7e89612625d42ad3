//! The trace to which a request belongs (W3C Trace Context).

use std::sync::Arc;

use axum::http::HeaderMap;
use singletree_env::TraceHeaders;
use singletree_telemetry::{TraceContext, TraceId};

/// The header with the trace.
const HEADER: &str = "traceparent";

/// Returns the trace of a request; `None` without a valid header.
pub(crate) fn read_trace_id(headers: &HeaderMap) -> Option<TraceId> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    TraceContext::from_header(text).map(|context| context.trace_id)
}

/// Returns the trace of a request, as its calls pass it on; `None` without a valid `traceparent`. A header that stands there
/// several times is one list (RFC 9110 §5.3).
pub(crate) fn read_trace_headers(headers: &HeaderMap) -> Option<Arc<TraceHeaders>> {
    let context = TraceContext::from_header(headers.get(HEADER)?.to_str().ok()?)?;
    let joined = |name: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(",")
    };
    let trace = TraceHeaders::new(context.to_string());
    Some(Arc::new(trace.with_tracestate(joined("tracestate")).with_baggage(joined("baggage"))))
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
