//! The trace to which a request belongs (W3C Trace Context).

use axum::http::HeaderMap;

/// The header with the trace.
const HEADER: &str = "traceparent";

/// Returns the trace id of a request: 32 hexadecimal digits; `None` without a valid header.
pub(crate) fn read_trace_id(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(HEADER)?.to_str().ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Later versions may have more fields.
    let whole = version != "00" || parts.next().is_none();
    let fit = |it: &str, len: usize| {
        it.len() == len && it.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let set = |it: &str| it.bytes().any(|byte| byte != b'0');
    let good = fit(version, 2) && version != "ff" && fit(trace, 32) && fit(parent, 16) && fit(flags, 2);
    (whole && good && set(trace) && set(parent)).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: W3C Trace Context §3.2.2
    #[test]
    fn a_trace_is_taken_over_when_it_is_one() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let check = |text: &str, known: bool| {
            let headers: HeaderMap = [(HEADER.parse().unwrap(), text.parse().unwrap())].into_iter().collect();
            assert_eq!(read_trace_id(&headers), known.then_some(trace), "{text}");
        };
        check(&format!("00-{trace}-b7ad6b7169203331-01"), true);
        check(&format!("00-{trace}-b7ad6b7169203331-01-more"), false);
        check(&format!("01-{trace}-b7ad6b7169203331-01-more"), true);
        check(&format!("ff-{trace}-b7ad6b7169203331-01"), false);
        check(&format!("00-{trace}-0000000000000000-01"), false);
        check("00-00000000000000000000000000000000-b7ad6b7169203331-01", false);
        check(&format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()), false);
        check("nonsense", false);
        assert_eq!(read_trace_id(&HeaderMap::new()), None);
    }
}
