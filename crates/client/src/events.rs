//! Streams of events, as typed as the rest.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use futures_util::StreamExt;
use singletree_http::{BoxStream, EventReader, HttpLimits};
use singletree_protocol::native::{Event, StreamItem};

use crate::connection::{Connection, ServerApiRequest};
use crate::error::{Error, Result, ServerRefusal};

/// A stream of events, in their order.
pub struct EventStream {
    body: BoxStream<'static, singletree_http::Result<Bytes>>,
    reader: EventReader,
    ready: VecDeque<String>,
    last: Option<String>,
}

impl EventStream {
    pub(crate) async fn open_stream(connection: &Connection, asked: ServerApiRequest) -> Result<Self> {
        let response = connection.open_response(asked.with_header("accept", "text/event-stream")).await?;
        let reader = EventReader::new(HttpLimits::standard().line_bytes);
        Ok(Self { body: response.body, reader, ready: VecDeque::new(), last: None })
    }

    /// Waits for the next event; none when the stream has ended.
    ///
    /// # Errors
    /// `http_broken_off` and its kin; `client_answer_invalid`; the error that the server sent as the end of the stream.
    ///
    /// # Cancellation
    /// Dropping the future loses nothing.
    pub async fn next_event(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return self.parse_event(&data).map(Some);
            }
            let Some(piece) = self.body.next().await else { return Ok(None) };
            let mut events = Vec::new();
            self.reader.push_bytes(&piece?, &mut events)?;
            self.ready.extend(events.into_iter().map(|event| event.data));
        }
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
            StreamItem::Failed(failed) => Err(Error::Refused(Box::new(ServerRefusal {
                status: 200,
                category: failed.error.category,
                bucket: Some(failed.error.bucket),
                message: failed.error.message,
                hint: failed.error.hint,
                retry_after: None,
                turn: failed.error.turn,
            }))),
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("last", &self.last).finish_non_exhaustive()
    }
}
