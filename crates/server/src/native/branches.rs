//! Forks: a new session with the same beginning (D12). The forked session does not change.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use singletree_harness::{ForkOptions, MessageAddress, MessageId};
use singletree_protocol::native;

use super::answering::HandlerContext;
use super::convert;
use super::messages::turn_starting_operation;
use super::place::session_location;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "forks";

/// Advice for clients that send an idempotency key with a fork.
const NAME_IT: &str = "name the new session by `id`: asked again, it is 409 `chat_session_exists`";

/// Returns the routes about forks.
pub(super) fn fork_routes() -> Vec<ApiRoute> {
    let fork = ApiOperation::new("forkSession", "Forks a session")
        .with_description(
            "A new session with the beginning of this one; this one stays as it is. Messages keep their places and their ids. \
             Waits and events are not inherited; calls that are open at the cut are closed there. Name the new session to be \
             able to ask again: doing it twice is 409.",
        )
        .with_tag(TAG)
        .with_json_body::<native::ForkSession>()
        .refuse_idempotency_key(NAME_IT)
        .with_json_response::<native::Session>(201, "The new session; `Location` says where it is.")
        .with_error_statuses(&[409]);
    let edit = turn_starting_operation("editMessage", "Says a message otherwise")
        .with_description(
            "Forks the session before one of the user's messages and sends another one there, in one commit. The answer is that \
             of the message; it names the new session. Name that to be able to ask again: doing it twice is 409.",
        )
        .with_tag(TAG)
        .refuse_idempotency_key(NAME_IT)
        .with_json_body::<native::EditMessage>()
        .with_error_statuses(&[409]);
    let regenerate = turn_starting_operation("regenerateReply", "Asks for another reply")
        .with_description(
            "Forks the session before the user's message that was answered and sends that same message there again, in one \
             commit. The answer is that of the message; it names the new session. Needs `read`, too. Name that to be able to ask again: doing \
             it twice is 409.",
        )
        .with_tag(TAG)
        .refuse_idempotency_key(NAME_IT)
        .with_json_body::<native::RegenerateReply>()
        .with_error_statuses(&[409]);
    vec![
        ApiRoute::post("/v1/sessions/{session}/fork", fork_session)
            .with_required_scope(Scope::Write)
            .with_operation(fork),
        ApiRoute::post("/v1/sessions/{session}/edit", edit_message)
            .with_required_scope(Scope::Write)
            .with_operation(edit),
        ApiRoute::post("/v1/sessions/{session}/regenerate", regenerate_reply)
            .with_required_scope(Scope::Write)
            .with_operation(regenerate),
    ]
}

async fn fork_session(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(wanted): JsonPayload<native::ForkSession>,
) -> Result<Response, RequestProblem> {
    let mut options = ForkOptions::new();
    if let Some(at) = wanted.at {
        options = options.at(at);
    }
    if let Some(id) = wanted.id {
        options = options.session(id);
    }
    let made = telling
        .caller_chat()
        .session(&session)
        .fork(options)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let made = made.info().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let place = [(LOCATION, session_location(&made.session))];
    Ok((StatusCode::CREATED, place, Json(convert::convert_session(&made))).into_response())
}

async fn edit_message(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(wanted): JsonPayload<native::EditMessage>,
) -> Result<Response, RequestProblem> {
    let at = parse_message_address(wanted.message).map_err(|error| error.with_field("message"))?;
    let message = telling.build_user_message(&session, wanted.content).await?;
    let source = telling.caller_chat().session(&session);
    let turn = match wanted.id {
        Some(id) => source.edit_into(id, at, message).await,
        None => source.edit(at, message).await,
    };
    telling.respond_with_turn(&turn.map_err(|error| RequestProblem::from_chat_error(&error))?).await
}

async fn regenerate_reply(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(wanted): JsonPayload<native::RegenerateReply>,
) -> Result<Response, RequestProblem> {
    // The reply may belong to a message of another caller.
    telling.caller.require_scope(Scope::Read)?;
    let reply =
        wanted.reply.map(parse_message_address).transpose().map_err(|error| error.with_field("reply"))?;
    let source = telling.caller_chat().session(&session);
    let turn = match wanted.id {
        Some(id) => source.regenerate_into(id, reply).await,
        None => source.regenerate(reply).await,
    };
    telling.respond_with_turn(&turn.map_err(|error| RequestProblem::from_chat_error(&error))?).await
}

/// Reads the position of a message.
fn parse_message_address(at: native::MessageAt) -> Result<MessageAddress, RequestProblem> {
    match at {
        native::MessageAt::Seq(seq) => Ok(MessageAddress::Place(seq)),
        native::MessageAt::Id(id) => {
            let unknown =
                || RequestProblem::not_found("chat_message_unknown", "the history has no such message");
            let (turn, k) = id.rsplit_once('/').ok_or_else(unknown)?;
            let turn = turn.parse().map_err(|_| unknown())?;
            Ok(MessageAddress::Id(MessageId { turn, k: k.parse().map_err(|_| unknown())? }))
        }
    }
}
