//! The trace that code works in, as the headers say it by which it is passed on (W3C Trace Context, W3C Baggage).

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use serde::{Deserialize, Serialize};

/// The longest `tracestate` that is passed on, in bytes (W3C Trace Context §3.3.1.5); a longer one is left out.
const TRACESTATE_BYTES: usize = 512;
/// The longest `baggage` that is passed on, in bytes (W3C Baggage §3.3.2); a longer one is left out.
const BAGGAGE_BYTES: usize = 8192;

/// The trace that code works in, as headers.
///
/// Whoever calls another service sends these on, so that its spans are in the same trace. Work in a trace is a future
/// that runs in [`scope`](Self::scope); code in it reads the headers by [`current`](Self::current).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHeaders {
    /// `traceparent`: the trace, the span in it that the work is below, and whether the trace is kept.
    traceparent: String,
    /// `tracestate`: values of tracing systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tracestate: Option<String>,
    /// `baggage`: values of the caller's own, which are passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    baggage: Option<String>,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<TraceHeaders>>> = const { RefCell::new(None) };
}

impl TraceHeaders {
    /// Makes the headers of a trace. The value of `traceparent` is not checked here.
    #[must_use]
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self { traceparent: traceparent.into(), tracestate: None, baggage: None }
    }

    /// Sets the `tracestate`. One that is empty, has more than 512 bytes, or bytes that a header may not have is left
    /// out: the recommendation lets a service drop it, and never the `traceparent` with it.
    #[must_use]
    pub fn with_tracestate(self, value: impl Into<String>) -> Self {
        Self { tracestate: Some(value.into()).filter(|it| is_header_value(it, TRACESTATE_BYTES)), ..self }
    }

    /// Sets the `baggage`. One that is empty, has more than 8,192 bytes, or bytes that a header may not have is left out.
    #[must_use]
    pub fn with_baggage(self, value: impl Into<String>) -> Self {
        Self { baggage: Some(value.into()).filter(|it| is_header_value(it, BAGGAGE_BYTES)), ..self }
    }

    /// Returns the same trace below another span.
    #[must_use]
    pub fn below(&self, traceparent: impl Into<String>) -> Self {
        Self { traceparent: traceparent.into(), ..self.clone() }
    }

    /// Returns the value of `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> &str {
        &self.traceparent
    }

    /// Returns the value of `tracestate`.
    #[must_use]
    pub fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref()
    }

    /// Returns the value of `baggage`.
    #[must_use]
    pub fn baggage(&self) -> Option<&str> {
        self.baggage.as_deref()
    }

    /// Returns names and values, those that there are: `traceparent`, `tracestate`, and `baggage` if it is to go on.
    pub fn entries_for(&self, passes_baggage: bool) -> impl Iterator<Item = (&'static str, &str)> {
        let parent = std::iter::once(("traceparent", self.traceparent.as_str()));
        let state = self.tracestate().map(|value| ("tracestate", value));
        let baggage = self.baggage().filter(|_| passes_baggage).map(|value| ("baggage", value));
        parent.chain(state).chain(baggage)
    }

    /// Returns the trace that this code works in. It does not cross a spawned task: see [`scope`](Self::scope).
    #[must_use]
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Runs work in a trace; in none where there is none. A task that the work spawns is in no trace, unless it runs its
    /// own work in a scope with [`current`](Self::current).
    ///
    /// # Cancellation
    /// As the work.
    pub fn scope<F: Future>(trace: Option<Arc<Self>>, work: F) -> InTrace<F> {
        InTrace { work, trace }
    }
}

/// Shows neither `tracestate` nor `baggage`: their content is the caller's.
impl fmt::Debug for TraceHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceHeaders").field("traceparent", &self.traceparent).finish_non_exhaustive()
    }
}

fn is_header_value(text: &str, most: usize) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
    !text.is_empty() && text.len() <= most && text.bytes().all(is_allowed)
}

pin_project! {
    /// Work in a trace ([`TraceHeaders::scope`]).
    #[derive(Debug)]
    #[must_use = "it does nothing until it is awaited"]
    pub struct InTrace<F> {
        #[pin]
        work: F,
        trace: Option<Arc<TraceHeaders>>,
    }
}

impl<F: Future> Future for InTrace<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _outer = OuterTrace(CURRENT.replace(this.trace.clone()));
        this.work.poll(cx)
    }
}

/// Restores the trace around, also when the work panics.
struct OuterTrace(Option<Arc<TraceHeaders>>);

impl Drop for OuterTrace {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::join;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    async fn current_parent() -> Option<String> {
        TraceHeaders::current().map(|trace| trace.traceparent().to_owned())
    }

    #[test]
    fn work_is_in_its_own_trace_and_not_in_its_neighbours() {
        let scope = |name: &str| {
            let inner = TraceHeaders::scope(Some(Arc::new(TraceHeaders::new("inner"))), current_parent());
            let work = async {
                let before = current_parent().await;
                tokio::task::yield_now().await;
                (before, inner.await, current_parent().await)
            };
            TraceHeaders::scope(Some(Arc::new(TraceHeaders::new(name))), work)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (a, b) = runtime.block_on(async { join(scope("a"), scope("b")).await });
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(a, (some("a"), some("inner"), some("a")));
        assert_eq!(b, (some("b"), some("inner"), some("b")));
        assert_eq!(current_parent().now_or_never(), Some(None));
    }

    #[test]
    fn a_panic_leaves_no_trace_behind() {
        let work = TraceHeaders::scope(Some(Arc::new(TraceHeaders::new("a"))), async { panic!("expected") });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            work.now_or_never();
        }));
        assert!(caught.is_err());
        assert_eq!(TraceHeaders::current(), None);
    }

    // spec: W3C Trace Context §3.3.1.5, W3C Baggage §3.3.2
    #[test]
    fn values_that_cannot_be_passed_on_are_left_out() {
        let check = |value: &str, is_kept: bool| {
            let headers = TraceHeaders::new(PARENT).with_tracestate(value).with_baggage(value);
            assert_eq!(headers.tracestate().is_some(), is_kept && value.len() <= 512, "{value:?}");
            assert_eq!(headers.baggage().is_some(), is_kept, "{value:?}");
            assert_eq!(headers.traceparent(), PARENT);
        };
        check("a=1,b=2", true);
        check(&"x".repeat(512), true);
        check(&"x".repeat(513), true);
        check(&"x".repeat(8192), true);
        check(&"x".repeat(8193), false);
        check("", false);
        check("a=1\r\nauthorization: none", false);
        check("a=\u{e9}", false);
    }

    #[test]
    fn headers_are_read_back_as_they_were_stored() {
        for headers in [
            TraceHeaders::new(PARENT),
            TraceHeaders::new(PARENT).with_tracestate("a=1").with_baggage("user=\"q\";p=2"),
        ] {
            let stored = serde_json::to_string(&headers).unwrap();
            assert_eq!(serde_json::from_str::<TraceHeaders>(&stored).unwrap(), headers);
        }
    }
}
