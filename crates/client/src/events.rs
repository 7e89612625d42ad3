//! Streams of the events of sessions, as typed as the rest.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use futures_util::StreamExt;
use singletree_http::{BoxStream, EventReader, HttpLimits};
use singletree_protocol::native::{ApiError, Event, StreamFailed, StreamItem};

use crate::connection::{Connection, ServerApiRequest};
use crate::error::{Error, Result, ServerRefusal};

/// The data of the frames of a stream, in their order.
pub(crate) struct FrameDataStream {
    body: BoxStream<'static, singletree_http::Result<Bytes>>,
    reader: EventReader,
    ready: VecDeque<String>,
}

impl FrameDataStream {
    pub(crate) async fn open_stream(connection: &Connection, asked: ServerApiRequest) -> Result<Self> {
        let response = connection.open_response(asked.with_header("accept", "text/event-stream")).await?;
        let reader = EventReader::new(HttpLimits::standard().line_bytes);
        Ok(Self { body: response.body, reader, ready: VecDeque::new() })
    }

    /// Waits for the data of the next frame; none when the stream has ended.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub(crate) async fn next_data(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Ok(Some(data));
            }
            let Some(piece) = self.body.next().await else { return Ok(None) };
            let mut events = Vec::new();
            self.reader.push_bytes(&piece?, &mut events)?;
            self.ready.extend(events.into_iter().map(|event| event.data));
        }
    }
}

/// Returns the error with which a server ended a stream.
pub(crate) fn stream_failure(failed: StreamFailed) -> Error {
    let ApiError { category, bucket, message, hint, turn, .. } = failed.error;
    let (bucket, retry_after) = (Some(bucket), None);
    Error::Refused(Box::new(ServerRefusal {
        status: 200,
        category,
        bucket,
        message,
        hint,
        retry_after,
        turn,
    }))
}

/// A stream of events, in their order.
pub struct EventStream {
    frames: FrameDataStream,
    last: Option<String>,
}

impl EventStream {
    pub(crate) async fn open_stream(connection: &Connection, asked: ServerApiRequest) -> Result<Self> {
        Ok(Self { frames: FrameDataStream::open_stream(connection, asked).await?, last: None })
    }

    /// Waits for the next event; none when the stream has ended.
    ///
    /// # Errors
    /// `http_broken_off` and its kin; `client_answer_invalid`; the error that the server sent as the end of the stream.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub async fn next_event(&mut self) -> Result<Option<Event>> {
        let data = self.frames.next_data().await?;
        data.map(|data| self.parse_event(&data)).transpose()
    }

    /// Returns the id of the event that was seen last: from behind it a new stream misses nothing.
    #[must_use]
    pub fn last_event_id(&self) -> Option<&str> {
        self.last.as_deref()
    }

    fn parse_event(&mut self, data: &str) -> Result<Event> {
        let item: StreamItem = serde_json::from_str(data)
            .map_err(|error| Error::Answer { what: format!("an event of the stream: {error}") })?;
        match item {
            StreamItem::Event(event) => {
                if let Some(id) = &event.id {
                    self.last = Some(id.clone());
                }
                Ok(*event)
            }
            StreamItem::Failed(failed) => Err(stream_failure(failed)),
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("last", &self.last).finish_non_exhaustive()
    }
}
