//! Streams of server-sent events: one frame, one write.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::StreamExt;

use crate::shared::Shared;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Frame {
    /// What a reader that comes again names as the last that it saw.
    pub(crate) id: Option<String>,
    /// The event's name; most protocols have none.
    pub(crate) event: Option<&'static str>,
    /// One line, JSON mostly.
    pub(crate) data: String,
    /// After how many milliseconds a reader that lost the stream comes again.
    pub(crate) retry: Option<u64>,
    /// A comment instead of an event: readers skip it.
    pub(crate) comment: Option<&'static str>,
}

impl Frame {
    /// Makes a frame of one line.
    pub(crate) fn data(data: impl Into<String>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// Makes a frame that no reader is told of: it says that the stream lives.
    pub(crate) fn comment(comment: &'static str) -> Self {
        Self { comment: Some(comment), ..Self::default() }
    }

    /// Makes a frame that says after how many milliseconds to come again, and nothing else.
    pub(crate) fn retry(millis: u64) -> Self {
        Self { retry: Some(millis), ..Self::default() }
    }

    /// Writes it out, with the empty line that ends it.
    pub(crate) fn bytes(&self) -> Bytes {
        // Many readers are told the same: no piece of it is formatted.
        let mut text = String::with_capacity(self.data.len() + 96);
        let mut line = |name: &str, value: &str| {
            for part in [name, ": ", value, "\n"] {
                text.push_str(part);
            }
        };
        if let Some(comment) = self.comment {
            line("", comment);
        } else {
            if let Some(id) = &self.id {
                line("id", id);
            }
            if let Some(event) = self.event {
                line("event", event);
            }
            if let Some(retry) = self.retry {
                line("retry", &retry.to_string());
            }
            // A line end within would be two lines: JSON on one line has none. Without data nothing is dispatched: an empty line
            // of data would be an event.
            if !self.data.is_empty() {
                self.data.split('\n').for_each(|part| line("data", part));
            }
        }
        text.push('\n');
        text.into()
    }
}

/// After how many milliseconds a reader comes again whose stream ended with the server's.
const RETRY: u64 = 1000;

/// The end of a stream that the stop of the server cuts off (D33).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndAtStop {
    /// By the failure of its protocol: a clean end would pass for a whole answer.
    Failure,
    /// By a hint when to come again, without an end: its reader goes on behind the last event that it has seen.
    Retry,
}

impl EndAtStop {
    /// Returns the frames of the hint; the words of a failure are the section's.
    pub(crate) fn hint(self) -> Option<Frame> {
        match self {
            Self::Failure => None,
            Self::Retry => Some(Frame::retry(RETRY)),
        }
    }
}

/// Answers with a stream that ends whole or with a failure. While it is silent, comments keep it alive; when the server
/// stops before its end, it ends with the section's `failing_streams`.
pub(crate) fn stream(shared: &Shared, frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    ending(shared, frames, EndAtStop::Failure)
}

/// As [`stream`], for readers that come again with the id of the last event that they have seen: when the server stops,
/// the last frame says when to come again.
pub(crate) fn resumable_stream(
    shared: &Shared,
    frames: impl Stream<Item = Frame> + Send + 'static,
) -> Response {
    ending(shared, frames, EndAtStop::Retry)
}

fn ending(shared: &Shared, frames: impl Stream<Item = Frame> + Send + 'static, end: EndAtStop) -> Response {
    let heartbeat = shared.limits.heartbeat;
    let begin = (Box::pin(frames), shared.telemetry.metrics().stream());
    let beating = futures_util::stream::unfold(begin, move |(mut frames, counted)| async move {
        let frame = match tokio::time::timeout(heartbeat, frames.next()).await {
            Ok(frame) => frame?,
            Err(_) => Frame::comment("ka"),
        };
        Some((frame, (frames, counted)))
    });
    let body = Body::from_stream(beating.map(|frame| Ok::<_, Infallible>(frame.bytes())));
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let mut response = (headers, body).into_response();
    response.extensions_mut().insert(end);
    response
}
