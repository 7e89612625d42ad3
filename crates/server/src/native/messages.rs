//! Sending messages, and reading the history.

use axum::Json;
use axum::extract::Path;
use axum::response::Response;
use singletree_harness::SendOptions;
use singletree_llm::ChatMessage;
use singletree_protocol::native;

use super::answering::{HandlerContext, IDEMPOTENCY_KEY};
use super::ask::{StrictQuery, TurnResponseMode, limit};
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
pub(super) fn starts_turn(id: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new(id, summary)
        .header(
            "Prefer",
            "`respond-async`, also with `wait=SECONDS`: an answer as soon as the turn is accepted.",
        )
        .header(
            "Last-Event-ID",
            "The id of the last event of the turn that was seen, where it is asked for again.",
        )
        .header_of(
            "X-On-Disconnect",
            "Whether the turn is cancelled when its client has been gone for ten seconds; as the agent is configured otherwise.",
            &["cancel", "continue"],
        )
        .answers::<native::Outcome>(200, "How the turn ended.")
        .streams::<native::StreamItem>(200, "What happens in the turn, as it happens.")
        .answers::<native::Turn>(202, "The turn was accepted; `Location` says where it is.")
}

/// Returns the routes about messages.
pub(super) fn routes() -> Vec<ApiRoute> {
    let key = "Sends once: the same key with the same message again is answered by the same turn, with another message it is 409.";
    let send = starts_turn("sendMessage", "Sends a message")
        .about(TOLD)
        .tag(TAG)
        .header("Idempotency-Key", key)
        .body::<native::SendMessage>()
        .fails(&[404, 409])
        .found_or_not();
    let steer = starts_turn("steer", "Says something to the turn that runs")
        .about(
            "The turn that runs takes the message before it asks its model the next time, and the answer tells what was said \
             after it. If the turn ends before, or none runs, the message has its own turn, as one that was sent. Messages \
             are taken in the order in which they were accepted.",
        )
        .tag("turns")
        .header("Idempotency-Key", key)
        .body::<native::SendMessage>()
        .fails(&[404, 409])
        .found_or_not();
    let history = ApiOperation::new("listMessages", "Reads the history")
        .about(
            "The messages that models are shown, in their order, with what is known beside them; and apart from them, in \
             `failed`, the turns that failed, which people are shown at their `place`.",
        )
        .tag(TAG)
        .query::<native::MessageQuery>()
        .answers::<native::MessageList>(200, "A page of the history.");
    vec![
        ApiRoute::post("/v1/sessions/{session}/messages", send_one).needs(Scope::Write).documented(send),
        ApiRoute::get("/v1/sessions/{session}/messages", page).needs(Scope::Read).documented(history),
        ApiRoute::post("/v1/sessions/{session}/steer", steer_one).needs(Scope::Write).documented(steer),
    ]
}

async fn send_one(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(sent): JsonPayload<native::SendMessage>,
) -> Result<Response, RequestProblem> {
    let (message, options) = said(&telling, &session, sent).await?;
    let turn = telling.chat().submit(&session, message, options).await;
    telling.tell(&turn.map_err(|error| RequestProblem::of_turn(&error))?).await
}

async fn steer_one(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(sent): JsonPayload<native::SendMessage>,
) -> Result<Response, RequestProblem> {
    let (message, options) = said(&telling, &session, sent).await?;
    let turn = telling.chat().steer(&session, message, options).await;
    telling.tell(&turn.map_err(|error| RequestProblem::of_turn(&error))?).await
}

/// The maximum number of failed turns on a page.
const FAILED_TURNS: usize = 100;

/// Reads a message to send, and its options.
async fn said(
    telling: &HandlerContext,
    session: &str,
    sent: native::SendMessage,
) -> Result<(ChatMessage, SendOptions), RequestProblem> {
    let message = telling.said(session, sent.content).await?;
    let mut options = keyed(telling, SendOptions::new())?;
    if let Some(agent) = sent.agent {
        options = options.agent(agent);
    }
    if let Some(policy) = sent.prompt_policy {
        options = options.policy(super::convert::policy(policy));
    }
    Ok((message, options))
}

/// Adds the idempotency key of a request; subscribes to the events if the answer is a stream.
pub(super) fn keyed(
    telling: &HandlerContext,
    mut options: SendOptions,
) -> Result<SendOptions, RequestProblem> {
    if let Some(key) = telling.headers.get(IDEMPOTENCY_KEY) {
        let key =
            key.to_str().map_err(|_| RequestProblem::invalid("Idempotency-Key has to be plain ASCII"))?;
        options = options.key(key);
    }
    if telling.manner() == TurnResponseMode::Events {
        options = options.listen();
    }
    Ok(options)
}

async fn page(
    telling: HandlerContext,
    Path(session): Path<String>,
    StrictQuery(query): StrictQuery<native::MessageQuery>,
) -> Result<Json<native::MessageList>, RequestProblem> {
    let limit = limit(query.limit)?;
    let (chat, from) = (telling.chat(), query.from.unwrap_or_default());
    let part = chat.transcript(&session, from, limit).await.map_err(|error| RequestProblem::of(&error))?;
    let failed = chat.failed_turns(&session, from..part.next.unwrap_or(u64::MAX), FAILED_TURNS).await;
    let failed = failed.map_err(|error| RequestProblem::of(&error))?;
    let view = telling.view(&session).await?;
    Ok(Json(native::MessageList {
        items: part.items.iter().map(|item| view.history(item)).collect(),
        next: part.next,
        last_event: part.last_event.as_ref().map(ToString::to_string),
        failed: failed.iter().map(|turn| view.failed(turn)).collect(),
    }))
}
