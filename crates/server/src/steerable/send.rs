//! Sending a message; the response is the stream of the turn.

use std::collections::VecDeque;

use axum::Json;
use axum::extract::Path;
use axum::http::HeaderMap;
use axum::response::Response;
use futures_core::Stream;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use serde_json::{Map, Value, json};
use singletree_harness::{ChatEvent, Error, SendOptions, Turn};
use singletree_llm::ChatMessage;
use singletree_protocol::native::{SendBlock, SendContent, SendImageSource};
use singletree_protocol::steerable::{SendBody, SentMessage, SentPart, SseEvent};

use super::wire::SteerableEncoder;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::disconnect::guard_stream;
use crate::fold::ChatProjection;
use crate::native::HandlerContext;
use crate::problem::RequestProblem;
use crate::sse::{self, ServerSentEvent};

/// A message of a client, converted for the harness.
struct SteerableInput {
    message: ChatMessage,
    options: SendOptions,
}

/// Accepts a message and streams its turn. `{"content": "", "metadata": {"resume": true}}` sends no message: it
/// streams the newest turn again, from its beginning, and only needs the right to read.
pub(super) async fn send_message(
    telling: HandlerContext,
    Path(chat): Path<String>,
    JsonPayload(body): JsonPayload<SendBody>,
) -> Result<Response, RequestProblem> {
    let resumes =
        body.metadata.as_ref().is_some_and(|metadata| metadata.get("resume") == Some(&Value::Bool(true)));
    if resumes && body.message.is_none() && body.content.as_deref().is_none_or(str::is_empty) {
        telling.caller.require_scope(Scope::Read)?;
        let turn = find_newest_turn(&telling, &chat).await?;
        return Ok(stream_turn(&telling, &turn));
    }
    let SteerableInput { message, options } = read_sent_message(&telling, &chat, body).await?;
    let turn = telling.caller_chat().session(&chat).submit(message, options.listen()).await;
    let turn = turn.map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(telling.mark_if_replayed(&turn, stream_turn(&telling, &turn)))
}

/// Accepts a message for the running turn. If no turn runs, nothing is accepted, and the client has to send the
/// message.
pub(super) async fn steer_running_turn(
    telling: HandlerContext,
    Path(chat): Path<String>,
    JsonPayload(body): JsonPayload<SendBody>,
) -> Result<Json<Value>, RequestProblem> {
    let all = telling.caller_chat();
    let open = match all.session(&chat).open_turns().await {
        Ok(open) => open,
        // A chat without messages has no turn.
        Err(Error::SessionUnknown { .. }) => Vec::new(),
        Err(error) => return Err(RequestProblem::from_chat_error(&error)),
    };
    if open.is_empty() {
        return Ok(Json(json!({ "steered": false })));
    }
    let SteerableInput { message, options } = read_sent_message(&telling, &chat, body).await?;
    let turn = all
        .session(&chat)
        .steer(message, options)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(Json(json!({ "steered": true, "turnId": turn.id().to_string() })))
}

async fn find_newest_turn(telling: &HandlerContext, chat: &str) -> Result<Turn, RequestProblem> {
    let all = telling.caller_chat();
    let newest =
        all.session(chat).newest_turn().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let none = || RequestProblem::not_found("chat_turn_unknown", "there is no turn to resume");
    all.turn(&newest.ok_or_else(none)?.id).await.map_err(|error| RequestProblem::from_chat_error(&error))
}

/// Reads the content to send: only content that a user may send (D16).
async fn read_sent_message(
    telling: &HandlerContext,
    chat: &str,
    body: SendBody,
) -> Result<SteerableInput, RequestProblem> {
    let mut options = read_send_options(&telling.headers)?;
    let content = match body.message {
        Some(SentMessage::Text(text)) => SendContent::Text(text),
        Some(SentMessage::Message { id, role, content, parts }) => {
            if role.as_deref().is_some_and(|role| role != "user") {
                return Err(
                    RequestProblem::invalid_request("clients speak as `user`").with_field("message.role")
                );
            }
            if let Some(id) = id {
                options = options.note("client_id", id);
            }
            match content {
                Some(text) if parts.is_empty() => SendContent::Text(text),
                Some(_) | None => SendContent::Blocks(read_message_blocks(parts)?),
            }
        }
        None => SendContent::Text(body.content.unwrap_or_default()),
    };
    if content == SendContent::Text(String::new()) {
        return Err(RequestProblem::invalid_request("there is nothing said").with_field("content"));
    }
    let metadata = body.metadata.unwrap_or_default();
    if let Some(agent) = metadata.get("agentId").and_then(Value::as_str) {
        options = options.agent(agent);
    }
    let message = telling.build_user_message(chat, content).await?;
    Ok(SteerableInput { message, options: note_metadata(options, metadata) })
}

fn note_metadata(options: SendOptions, metadata: Map<String, Value>) -> SendOptions {
    if metadata.is_empty() { options } else { options.note("metadata", metadata) }
}

/// Reads the header with the idempotency key.
fn read_send_options(headers: &HeaderMap) -> Result<SendOptions, RequestProblem> {
    match headers.get("idempotency-key").map(|header| header.to_str()) {
        None => Ok(SendOptions::new()),
        Some(Ok(key)) => Ok(SendOptions::new().key(key)),
        Some(Err(_)) => Err(RequestProblem::invalid_request("Idempotency-Key has to be plain ASCII")),
    }
}

fn read_message_blocks(parts: Vec<SentPart>) -> Result<Vec<SendBlock>, RequestProblem> {
    let block = |(at, part): (usize, SentPart)| match (part.kind.as_str(), part.text, part.url) {
        ("text", Some(text), _) => Ok(SendBlock::Text { text }),
        ("image", _, Some(url)) => {
            let (source, media_type) = (SendImageSource::Url { url }, part.media_type);
            Ok(SendBlock::Image { source, media_type, detail: None })
        }
        _ => Err(RequestProblem::invalid_request(
            "a part is a `text` with its `text`, or an `image` with its `url`",
        )
        .with_field(format!("message.parts[{at}]"))),
    };
    parts.into_iter().enumerate().map(block).collect()
}

/// Streams a turn up to its end.
fn stream_turn(telling: &HandlerContext, turn: &Turn) -> Response {
    let wire = SteerableEncoder::new(telling.shared.clone(), turn.session());
    let frames = encode_turn_frames(turn.events(), wire)
        .chain(futures_util::stream::iter([ServerSentEvent::from_data("[DONE]")]));
    sse::stream_response(&telling.shared, guard_stream(frames, telling.disconnect_guard(turn)))
}

/// Writes the events of a turn as frames: data only, one line each.
fn encode_turn_frames(
    events: impl Stream<Item = Result<ChatEvent, Error>> + Send + 'static,
    wire: SteerableEncoder,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    let begin = (Box::pin(events), ChatProjection::default(), wire, VecDeque::new());
    unfold(begin, |(mut events, mut fold, mut wire, mut ready)| async move {
        while ready.is_empty() {
            match events.next().await? {
                Ok(event) => {
                    let told =
                        fold.apply_event(&event).into_iter().flat_map(|it| wire.encode_piece(it, event.at));
                    ready.extend(told.collect::<Vec<_>>());
                }
                Err(error) => ready.extend(wire.encode_stream_error(&error)),
            }
        }
        let next = ready.pop_front().map(|it| encode_event_frame(&it))?;
        Some((next, (events, fold, wire, ready)))
    })
}

/// Writes an event on one line.
pub(super) fn encode_event_frame(event: &SseEvent) -> ServerSentEvent {
    ServerSentEvent::from_data(serde_json::to_string(event).expect("an event of strings and JSON is JSON"))
}
