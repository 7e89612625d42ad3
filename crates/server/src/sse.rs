//! Streams of server-sent events: one frame, one write.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use futures_util::StreamExt;

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

    /// Writes it out, with the empty line that ends it.
    pub(crate) fn bytes(&self) -> Bytes {
        let mut text = String::with_capacity(self.data.len() + 32);
        if let Some(comment) = self.comment {
            text += &format!(": {comment}\n\n");
            return text.into();
        }
        if let Some(id) = &self.id {
            text += &format!("id: {id}\n");
        }
        if let Some(event) = self.event {
            text += &format!("event: {event}\n");
        }
        if let Some(retry) = self.retry {
            text += &format!("retry: {retry}\n");
        }
        // A line end within would be two lines: JSON on one line has none.
        for line in self.data.split('\n') {
            text += &format!("data: {line}\n");
        }
        text.push('\n');
        text.into()
    }
}

/// Answers with a stream of frames; while it is silent, a comment every so often says that it lives.
pub(crate) fn stream(frames: impl Stream<Item = Frame> + Send + 'static, heartbeat: Duration) -> Response {
    let frames = Box::pin(frames);
    let beating = futures_util::stream::unfold(frames, move |mut frames| async move {
        match tokio::time::timeout(heartbeat, frames.next()).await {
            Ok(frame) => frame.map(|it| (it, frames)),
            Err(_) => Some((Frame { comment: Some("ka"), ..Frame::default() }, frames)),
        }
    });
    let body = Body::from_stream(beating.map(|it| Ok::<_, Infallible>(it.bytes())));
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
