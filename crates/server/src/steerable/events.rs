//! Streams the events of a chat: of all its turns, as they happen, also of those of other clients.

use std::collections::VecDeque;

use axum::extract::Path;
use axum::response::Response;
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use serde::Deserialize;
use singletree_harness::{ChatEvent, Error};
use singletree_protocol::steerable::{EventType, SseEvent};

use super::resume_id::{ResumeId, ResumeOffset};
use super::send::encode_event_frame;
use super::wire::SteerableEncoder;
use crate::fold::{ChatProjection, MessageStreamPosition};
use crate::forward::follow_owner;
use crate::native::{HandlerContext, StrictQuery};
use crate::problem::RequestProblem;
use crate::sse::{self, ServerSentEvent};

/// The start of the stream. Unknown parameters are ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct SteerableEventQuery {
    /// Starts after the event of this id, as `Last-Event-ID`, which has precedence.
    after: Option<String>,
}

/// Streams the events of a chat: after the last event that the reader has received; otherwise from the beginning of
/// the turn that has not ended, or from now on.
pub(super) async fn follow_events(
    telling: HandlerContext,
    Path(chat): Path<String>,
    StrictQuery(query): StrictQuery<SteerableEventQuery>,
) -> Result<Response, RequestProblem> {
    let all = telling.caller_chat();
    let seen = telling
        .headers
        .get("last-event-id")
        .map(|header| String::from_utf8_lossy(header.as_bytes()).into_owned());
    let from = match seen.or(query.after).filter(|seen| !seen.is_empty()) {
        Some(seen) => ResumeId::decode_event_id(&seen)?,
        None => {
            let now = all
                .session(&chat)
                .transcript(0, 0)
                .await
                .map_err(|error| RequestProblem::from_chat_error(&error))?;
            ResumeId { event: now.last_event, within: ResumeOffset::default() }
        }
    };
    // A stream of events of a chat that does not exist would wait for ever.
    all.session(&chat).info().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let events = all
        .session(&chat)
        .events()
        .after(from.event.clone())
        .stream()
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let mut wire =
        SteerableEncoder::new(telling.shared.clone(), chat.clone()).with_speaker(from.within.speaker.clone());
    wire.echo = true;
    let reader = SteerableEventReader {
        fold: ChatProjection::resume_from_positions(from.within.marks.clone()),
        wire,
        at: from,
    };
    let open = futures_util::stream::once(std::future::ready(ServerSentEvent::from_comment("open")));
    let frames = open.chain(encode_session_frames(events, reader));
    let frames = follow_owner(&telling.shared, (&telling.caller.tenant, &chat), frames).await;
    Ok(sse::resumable_stream_response(&telling.shared, frames))
}

/// One reader, and its position.
struct SteerableEventReader {
    fold: ChatProjection,
    wire: SteerableEncoder,
    at: ResumeId,
}

impl SteerableEventReader {
    /// Returns the frames of an event that the reader has not received, each with the id from which the reader goes
    /// on.
    fn encode_event(&mut self, event: &ChatEvent) -> Vec<ServerSentEvent> {
        let before = self.stream_positions();
        let told: Vec<_> = self.fold.apply_event(event).into_iter().collect();
        let told: Vec<SseEvent> =
            told.into_iter().flat_map(|item| self.wire.encode_piece(item, event.at)).collect();
        let count = told.len();
        let mut frames: Vec<ServerSentEvent> = told.iter().map(encode_event_frame).collect();
        let Some(id) = &event.id else {
            // Provisional events are sent completely, or again.
            if let Some(last) = frames.last_mut() {
                self.at.within.marks = self.stream_positions();
                self.at.within.speaker = self.wire.announced_agent().map(str::to_owned);
                last.id = self.at.encode_event_id();
            }
            return frames;
        };
        let skipped = std::mem::take(&mut self.at.within.told).min(count);
        for (at, frame) in frames.iter_mut().enumerate() {
            let within = ResumeOffset { told: at + 1, marks: before.clone(), ..self.at.within.clone() };
            frame.id = ResumeId { within, ..self.at.clone() }.encode_event_id();
        }
        let speaker = self.wire.announced_agent().map(str::to_owned);
        self.at = ResumeId {
            event: Some(id.clone()),
            within: ResumeOffset { told: 0, marks: self.stream_positions(), speaker },
        };
        if frames.is_empty() {
            // An id needs a frame that carries it.
            frames.push(encode_event_frame(&SseEvent::new(EventType::Keepalive)));
        }
        if let Some(last) = frames.last_mut() {
            last.id = self.at.encode_event_id();
        }
        frames.split_off(skipped)
    }

    fn stream_positions(&self) -> Vec<MessageStreamPosition> {
        self.fold.stream_positions()
    }
}

fn encode_session_frames(
    events: impl Stream<Item = Result<ChatEvent, Error>> + Send + 'static,
    reader: SteerableEventReader,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    unfold((Box::pin(events), reader, VecDeque::new()), |(mut events, mut reader, mut ready)| async move {
        while ready.is_empty() {
            match events.next().await? {
                Ok(event) => ready.extend(reader.encode_event(&event)),
                Err(error) => {
                    ready.extend(reader.wire.encode_stream_error(&error).iter().map(encode_event_frame))
                }
            }
        }
        ready.pop_front().map(|it| (it, (events, reader, ready)))
    })
}
