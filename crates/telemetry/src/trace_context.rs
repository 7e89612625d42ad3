//! The trace that a caller is in, as the header `traceparent` says it (W3C Trace Context).

use std::fmt;

use crate::ids::{SpanId, TraceId};
use crate::span::TraceSpan;

/// The trace and the span that something is called from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The span that the call is made in.
    pub parent_id: SpanId,
    /// Whether the caller keeps the trace.
    pub is_sampled: bool,
}

impl TraceContext {
    /// Reads the value of a header `traceparent`; nothing of one that is not valid, as the recommendation demands:
    /// whoever gets it begins a trace of their own. Later versions may have more fields, which are not read.
    #[must_use]
    pub fn from_header(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let [version] = parse_hex(parts.next()?)?;
        let trace_id = TraceId(parse_hex(parts.next()?)?);
        let parent_id = SpanId(parse_hex(parts.next()?)?);
        let [flags] = parse_hex(parts.next()?)?;
        let has_right_length = version != 0 || parts.next().is_none();
        let is_valid = version != 0xff && has_right_length && trace_id.0 != [0; 16] && parent_id.0 != [0; 8];
        is_valid.then_some(Self { trace_id, parent_id, is_sampled: flags & 1 == 1 })
    }

    /// Returns the context of what is called from within a span.
    #[must_use]
    pub fn of_span(span: &TraceSpan, is_sampled: bool) -> Self {
        Self { trace_id: span.trace_id, parent_id: span.span_id, is_sampled }
    }
}

/// Writes the value of a header `traceparent`, of version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.parent_id, u8::from(self.is_sampled))
    }
}

/// Reads this many bytes in lower-case hexadecimal digits.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.bytes().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    // spec: W3C Trace Context §3.2.2
    #[test]
    fn a_header_is_read_when_it_is_valid() {
        let check = |text: &str, is_valid: bool| {
            assert_eq!(TraceContext::from_header(text).is_some(), is_valid, "{text}");
        };
        check(&format!("00-{TRACE}-b7ad6b7169203331-01"), true);
        check(&format!("00-{TRACE}-b7ad6b7169203331-01-more"), false);
        check(&format!("01-{TRACE}-b7ad6b7169203331-01-more"), true);
        check(&format!("ff-{TRACE}-b7ad6b7169203331-01"), false);
        check(&format!("00-{TRACE}-0000000000000000-01"), false);
        check("00-00000000000000000000000000000000-b7ad6b7169203331-01", false);
        check(&format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()), false);
        check(&format!("00-{TRACE}-b7ad6b7169203331-1"), false);
        check(&format!("00-{TRACE}-b7ad6b7169203331"), false);
        check("nonsense", false);
        check("", false);
    }

    // spec: W3C Trace Context §3.2.2.5: bits that nobody has defined are not sent on.
    #[test]
    fn a_context_is_written_as_it_was_read() {
        for (flags, written) in [("00", "00"), ("01", "01"), ("02", "00"), ("ff", "01")] {
            let context = TraceContext::from_header(&format!("00-{TRACE}-b7ad6b7169203331-{flags}")).unwrap();
            assert_eq!(context.to_string(), format!("00-{TRACE}-b7ad6b7169203331-{written}"));
        }
    }
}
