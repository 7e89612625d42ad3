//! The body of a streamed answer, as deltas.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use singletree_http::{BoxStream, EventReader, ReceivedEvent, Redactor, Result as HttpResult};
use singletree_llm::{ContentBlock, Error, Response, ResponseDelta, Result, canonical_json};

use super::failure::from_http_error;
use super::redact_error;
use crate::mapping::{StreamDecoder, StreamProgress};

/// Reads events off a body and decodes them. Dropping it closes the connection.
pub(super) struct DeltaStream<'a> {
    body: Option<BoxStream<'static, HttpResult<Bytes>>>,
    reader: EventReader,
    decoder: Box<dyn StreamDecoder>,
    redactor: &'a Redactor,
    events: Vec<ReceivedEvent>,
    decoded: VecDeque<ResponseDelta>,
    failure: Option<Error>,
}

impl<'a> DeltaStream<'a> {
    pub(super) fn new(
        body: BoxStream<'static, HttpResult<Bytes>>,
        decoder: Box<dyn StreamDecoder>,
        line_bytes: usize,
        redactor: &'a Redactor,
    ) -> Self {
        Self {
            body: Some(body),
            reader: EventReader::new(line_bytes),
            decoder,
            redactor,
            events: Vec::new(),
            decoded: VecDeque::new(),
            failure: None,
        }
    }

    /// Takes a piece of the body. Deltas that are complete before a mistake in the piece are handed out before the
    /// error.
    fn decode_piece(&mut self, piece: &[u8]) -> Result<StreamProgress> {
        let mut events = std::mem::take(&mut self.events);
        let read = self.reader.push_bytes(piece, &mut events);
        let mut out = Vec::new();
        let decoded = self.decode_events(&events, &mut out);
        self.decoded.extend(out);
        events.clear();
        self.events = events;
        match decoded? {
            StreamProgress::Done => Ok(StreamProgress::Done),
            StreamProgress::More => read.map(|()| StreamProgress::More).map_err(from_http_error),
        }
    }

    fn decode_events(
        &mut self,
        events: &[ReceivedEvent],
        out: &mut Vec<ResponseDelta>,
    ) -> Result<StreamProgress> {
        for event in events {
            if self.decoder.decode_event(event.name.as_deref(), &event.data, out)? == StreamProgress::Done {
                return Ok(StreamProgress::Done);
            }
        }
        Ok(StreamProgress::More)
    }

    fn finish_stream(&mut self) -> Result<()> {
        let mut out = Vec::new();
        let ended = self.decoder.finish_stream(&mut out);
        self.decoded.extend(out);
        ended
    }

    /// Lets go of a body that has said everything. Its last, empty piece is usually there already: taken, it leaves the
    /// connection to the next call.
    fn drain_body(&mut self, cx: &mut Context<'_>) {
        const RESTS: usize = 4;
        let Some(mut body) = self.body.take() else { return };
        for _ in 0..RESTS {
            if !matches!(body.as_mut().poll_next(cx), Poll::Ready(Some(Ok(_)))) {
                return;
            }
        }
    }
}

impl Stream for DeltaStream<'_> {
    type Item = Result<ResponseDelta>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(delta) = self.decoded.pop_front() {
                return Poll::Ready(Some(Ok(delta)));
            }
            if let Some(error) = self.failure.take() {
                return Poll::Ready(Some(Err(redact_error(error, self.redactor))));
            }
            let Some(body) = self.body.as_mut() else {
                return Poll::Ready(None);
            };
            let step = match ready!(body.as_mut().poll_next(cx)) {
                Some(Ok(piece)) => self.decode_piece(&piece),
                Some(Err(error)) => Err(from_http_error(error)),
                None => {
                    // Over: a stream is not asked again after its end.
                    self.body = None;
                    self.finish_stream().map(|()| StreamProgress::Done)
                }
            };
            match step {
                Ok(StreamProgress::More) => {}
                Ok(StreamProgress::Done) => self.drain_body(cx),
                Err(error) => {
                    self.body = None;
                    self.failure = Some(error);
                }
            }
        }
    }
}

impl fmt::Debug for DeltaStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deltas").field("reading", &self.body.is_some()).finish_non_exhaustive()
    }
}

/// Takes an answer that came whole apart again, for who asked for a stream.
pub(super) fn response_to_deltas(response: Response) -> Vec<ResponseDelta> {
    let mut deltas = Vec::new();
    let text = response.message.text().into_owned();
    match response.message.content.blocks() {
        [] if text.is_empty() => {}
        [] => deltas.push(ResponseDelta::from_text(text)),
        blocks => deltas.extend(blocks.iter().cloned().filter_map(block_to_delta)),
    }
    for (index, call) in (0..).zip(response.message.tool_calls) {
        deltas.push(ResponseDelta::ToolCall {
            index,
            id: Some(call.id),
            name: Some(call.name),
            // Arguments that could not be read stay unreadable.
            arguments: Some(
                call.arguments
                    .map_or_else(|| "null".to_owned(), |arguments| canonical_json(&arguments.into())),
            ),
            signature: call.signature,
        });
    }
    deltas.push(ResponseDelta::Finish {
        reason: response.finish_reason,
        usage: response.usage,
        raw: response.raw,
    });
    deltas
}

fn block_to_delta(block: ContentBlock) -> Option<ResponseDelta> {
    match block {
        ContentBlock::Text { text, signature } => Some(ResponseDelta::Text { text, signature }),
        ContentBlock::Thinking { text, signature } => Some(ResponseDelta::Thinking { text, signature }),
        ContentBlock::RedactedThinking { data } => Some(ResponseDelta::RedactedThinking { data }),
        // A model's message has none; the message is checked when it is whole.
        ContentBlock::Image { .. } => None,
    }
}
