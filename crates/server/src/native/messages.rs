//! Sending messages, and reading the history.

use axum::Json;
use axum::extract::Path;
use axum::response::Response;
use singletree_harness::SendOptions;
use singletree_llm::ChatMessage;
use singletree_protocol::native;

use super::answering::{HandlerContext, IDEMPOTENCY_KEY};
use super::ask::{StrictQuery, TurnResponseMode, resolve_page_limit};
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "messages";

/// The description that all operations share that start a turn.
pub(super) const TOLD: &str = "\
The answer is how the turn ended, however it did: `completed`, `suspended` or `errored` are all 200. A status of 4xx or 5xx says \
that nothing was accepted, unless the error names a `turn`. With `Accept: text/event-stream` the answer is what happens in the \
turn, as it happens, up to its end. With `Prefer: respond-async` it is 202 and the turn as soon as that is accepted; with \
`Prefer: respond-async, wait=10` only if it has not ended within so many seconds. Closing the connection cancels nothing.";

/// Returns an operation that starts a turn, with the possible forms of its response.
pub(super) fn turn_starting_operation(id: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new(id, summary)
        .with_header(
            "Prefer",
            "`respond-async`, also with `wait=SECONDS`: an answer as soon as the turn is accepted.",
        )
        .with_header(
            "Last-Event-ID",
            "The id of the last event of the turn that was seen, where it is asked for again.",
        )
        .with_header_values(
            "X-On-Disconnect",
            "Whether the turn is cancelled when its client has been gone for ten seconds; as the agent is configured otherwise.",
            &["cancel", "continue"],
        )
        .with_json_response::<native::Outcome>(200, "How the turn ended.")
        .with_event_response::<native::StreamItem>(200, "What happens in the turn, as it happens.")
        .with_json_response::<native::Turn>(202, "The turn was accepted; `Location` says where it is.")
}

/// Returns the routes about messages.
pub(super) fn message_routes() -> Vec<ApiRoute> {
    let key = "Sends once: the same key with the same message again is answered by the same turn, with another message it is 409.";
    let send = turn_starting_operation("sendMessage", "Sends a message")
        .with_description(TOLD)
        .with_tag(TAG)
        .with_header("Idempotency-Key", key)
        .with_json_body::<native::SendMessage>()
        .with_error_statuses(&[404, 409])
        .without_not_found();
    let steer = turn_starting_operation("steer", "Says something to the turn that runs")
        .with_description(
            "The turn that runs takes the message before it asks its model the next time, and the answer tells what was said \
             after it. If the turn ends before, or none runs, the message has its own turn, as one that was sent. Messages \
             are taken in the order in which they were accepted.",
        )
        .with_tag("turns")
        .with_header("Idempotency-Key", key)
        .with_json_body::<native::SendMessage>()
        .with_error_statuses(&[404, 409])
        .without_not_found();
    let history = ApiOperation::new("listMessages", "Reads the history")
        .with_description(
            "The messages that models are shown, in their order, with what is known beside them; and apart from them, in \
             `failed`, the turns that failed, which people are shown at their `place`.",
        )
        .with_tag(TAG)
        .with_query_type::<native::MessageQuery>()
        .with_json_response::<native::MessageList>(200, "A page of the history.");
    vec![
        ApiRoute::post("/v1/sessions/{session}/messages", send_message)
            .with_required_scope(Scope::Write)
            .with_operation(send),
        ApiRoute::get("/v1/sessions/{session}/messages", list_messages)
            .with_required_scope(Scope::Read)
            .with_operation(history),
        ApiRoute::post("/v1/sessions/{session}/steer", steer_running_turn)
            .with_required_scope(Scope::Write)
            .with_operation(steer),
    ]
}

async fn send_message(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(sent): JsonPayload<native::SendMessage>,
) -> Result<Response, RequestProblem> {
    let (message, options) = read_sent_message(&telling, &session, sent).await?;
    let turn = telling.caller_chat().session(&session).submit(message, options).await;
    telling.respond_with_turn(&turn.map_err(|error| RequestProblem::from_chat_error(&error))?).await
}

async fn steer_running_turn(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(sent): JsonPayload<native::SendMessage>,
) -> Result<Response, RequestProblem> {
    let (message, options) = read_sent_message(&telling, &session, sent).await?;
    let turn = telling.caller_chat().session(&session).steer(message, options).await;
    telling.respond_with_turn(&turn.map_err(|error| RequestProblem::from_chat_error(&error))?).await
}

/// The maximum number of failed turns on a page.
const FAILED_TURNS: usize = 100;

/// Reads a message to send, and its options.
async fn read_sent_message(
    telling: &HandlerContext,
    session: &str,
    sent: native::SendMessage,
) -> Result<(ChatMessage, SendOptions), RequestProblem> {
    let message = telling.build_user_message(session, sent.content).await?;
    let mut options = apply_send_headers(telling, SendOptions::new())?;
    if let Some(agent) = sent.agent {
        options = options.agent(agent);
    }
    if let Some(policy) = sent.prompt_policy {
        options = options.policy(super::convert::convert_prompt_policy(policy));
    }
    Ok((message, options))
}

/// Adds the idempotency key of a request; subscribes to the events if the answer is a stream.
pub(super) fn apply_send_headers(
    telling: &HandlerContext,
    mut options: SendOptions,
) -> Result<SendOptions, RequestProblem> {
    if let Some(key) = telling.headers.get(IDEMPOTENCY_KEY) {
        let key = key
            .to_str()
            .map_err(|_| RequestProblem::invalid_request("Idempotency-Key has to be plain ASCII"))?;
        options = options.key(key);
    }
    if telling.response_mode() == TurnResponseMode::Events {
        options = options.listen();
    }
    Ok(options)
}

async fn list_messages(
    telling: HandlerContext,
    Path(session): Path<String>,
    StrictQuery(query): StrictQuery<native::MessageQuery>,
) -> Result<Json<native::MessageList>, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?;
    let (chat, from) = (telling.caller_chat(), query.from.unwrap_or_default());
    let part = chat
        .session(&session)
        .transcript(from, limit)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let failed = chat.session(&session).failed_turns(from..part.next.unwrap_or(u64::MAX), FAILED_TURNS).await;
    let failed = failed.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let view = telling.load_visibility(&session).await?;
    Ok(Json(native::MessageList {
        items: part.items.iter().map(|item| view.convert_transcript_entry(item)).collect(),
        next: part.next,
        last_event: part.last_event.as_ref().map(ToString::to_string),
        failed: failed.iter().map(|turn| view.convert_failed_turn(turn)).collect(),
    }))
}
