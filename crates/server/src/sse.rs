//! Streams of server-sent events: each frame is one write.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::StreamExt;

use crate::shared::ServerState;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ServerSentEvent {
    /// The id that a reader sends as its last event id when it reconnects.
    pub(crate) id: Option<String>,
    /// The event's name; most protocols have none.
    pub(crate) event: Option<&'static str>,
    /// The data: one line, mostly JSON.
    pub(crate) data: String,
    /// The number of milliseconds after which a reader that lost the stream reconnects.
    pub(crate) retry: Option<u64>,
    /// A comment instead of an event: readers skip it.
    pub(crate) comment: Option<&'static str>,
}

impl ServerSentEvent {
    /// Makes a frame of one line.
    pub(crate) fn from_data(data: impl Into<String>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    /// Makes a frame that readers ignore: it keeps the stream alive.
    pub(crate) fn from_comment(comment: &'static str) -> Self {
        Self { comment: Some(comment), ..Self::default() }
    }

    /// Makes a frame that only sets the number of milliseconds until a reader reconnects.
    pub(crate) fn from_retry_millis(millis: u64) -> Self {
        Self { retry: Some(millis), ..Self::default() }
    }

    /// Returns the bytes of the frame, with the empty line at its end.
    pub(crate) fn encode_frame(&self) -> Bytes {
        // Avoids the formatting machinery, since a frame is written for each of many readers.
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
            // Each line of data needs a field of its own; JSON on one line has only one. A frame without data has no
            // field, since an empty one would dispatch an event.
            if !self.data.is_empty() {
                self.data.split('\n').for_each(|part| line("data", part));
            }
        }
        text.push('\n');
        text.into()
    }
}

/// The number of milliseconds after which a reader reconnects whose stream ended with the server.
const RETRY: u64 = 1000;

/// The end of a stream that the stop of the server cuts off (D33).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamShutdownMode {
    /// With the failure of its protocol: a clean end would look like a complete answer.
    Failure,
    /// With a hint to reconnect, without an end: the reader continues after the last event that it received.
    Retry,
}

impl StreamShutdownMode {
    /// Returns the frame of the hint; the section makes the frames of a failure.
    pub(crate) fn reconnect_hint(self) -> Option<ServerSentEvent> {
        match self {
            Self::Failure => None,
            Self::Retry => Some(ServerSentEvent::from_retry_millis(RETRY)),
        }
    }
}

/// Answers with a stream that ends completely or with a failure. While it is silent, comments keep it alive; when the
/// server stops before its end, it ends with the failure frames of its section (`stream_failure`).
pub(crate) fn stream_response(
    shared: &ServerState,
    frames: impl Stream<Item = ServerSentEvent> + Send + 'static,
) -> Response {
    build_stream_response(shared, frames, StreamShutdownMode::Failure)
}

/// As [`stream`], for readers that reconnect with the id of the last event that they received: when the server stops,
/// the last frame tells when to reconnect.
pub(crate) fn resumable_stream_response(
    shared: &ServerState,
    frames: impl Stream<Item = ServerSentEvent> + Send + 'static,
) -> Response {
    build_stream_response(shared, frames, StreamShutdownMode::Retry)
}

fn build_stream_response(
    shared: &ServerState,
    frames: impl Stream<Item = ServerSentEvent> + Send + 'static,
    end: StreamShutdownMode,
) -> Response {
    let heartbeat = shared.limits.heartbeat;
    let begin = (Box::pin(frames), shared.telemetry.metrics().count_stream());
    let beating = futures_util::stream::unfold(begin, move |(mut frames, counted)| async move {
        let frame = match tokio::time::timeout(heartbeat, frames.next()).await {
            Ok(frame) => frame?,
            Err(_) => ServerSentEvent::from_comment("ka"),
        };
        Some((frame, (frames, counted)))
    });
    let body = Body::from_stream(beating.map(|frame| Ok::<_, Infallible>(frame.encode_frame())));
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let mut response = (headers, body).into_response();
    response.extensions_mut().insert(end);
    response
}
