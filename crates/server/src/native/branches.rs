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
use super::messages::starts_turn;
use super::place::session_place;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "forks";

/// Advice for clients that send an idempotency key with a fork.
const NAME_IT: &str = "name the new session by `id`: asked again, it is 409 `chat_session_exists`";

/// Returns the routes about forks.
pub(super) fn routes() -> Vec<ApiRoute> {
    let fork = ApiOperation::new("forkSession", "Forks a session")
        .about(
            "A new session with the beginning of this one; this one stays as it is. Messages keep their places and their ids. \
             Waits and events are not inherited; calls that are open at the cut are closed there. Name the new session to be \
             able to ask again: doing it twice is 409.",
        )
        .tag(TAG)
        .body::<native::ForkSession>()
        .without_key(NAME_IT)
        .answers::<native::Session>(201, "The new session; `Location` says where it is.")
        .fails(&[409]);
    let edit = starts_turn("editMessage", "Says a message otherwise")
        .about(
            "Forks the session before one of the user's messages and sends another one there, in one commit. The answer is that \
             of the message; it names the new session. Name that to be able to ask again: doing it twice is 409.",
        )
        .tag(TAG)
        .without_key(NAME_IT)
        .body::<native::EditMessage>()
        .fails(&[409]);
    let regenerate = starts_turn("regenerateReply", "Asks for another reply")
        .about(
            "Forks the session before the user's message that was answered and sends that same message there again, in one \
             commit. The answer is that of the message; it names the new session. Needs `read`, too. Name that to be able to ask again: doing \
             it twice is 409.",
        )
        .tag(TAG)
        .without_key(NAME_IT)
        .body::<native::RegenerateReply>()
        .fails(&[409]);
    vec![
        ApiRoute::post("/v1/sessions/{session}/fork", fork_one).needs(Scope::Write).documented(fork),
        ApiRoute::post("/v1/sessions/{session}/edit", edit_one).needs(Scope::Write).documented(edit),
        ApiRoute::post("/v1/sessions/{session}/regenerate", regenerate_one)
            .needs(Scope::Write)
            .documented(regenerate),
    ]
}

async fn fork_one(
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
    let made = telling.chat().fork(&session, options).await.map_err(|error| RequestProblem::of(&error))?;
    let place = [(LOCATION, session_place(&made.session))];
    Ok((StatusCode::CREATED, place, Json(convert::session(&made))).into_response())
}

async fn edit_one(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(wanted): JsonPayload<native::EditMessage>,
) -> Result<Response, RequestProblem> {
    let at = place(wanted.message).map_err(|error| error.field("message"))?;
    let message = telling.said(&session, wanted.content).await?;
    let turn = telling.chat().edit(&session, at, message, wanted.id.as_deref()).await;
    telling.tell(&turn.map_err(|error| RequestProblem::of_turn(&error))?).await
}

async fn regenerate_one(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(wanted): JsonPayload<native::RegenerateReply>,
) -> Result<Response, RequestProblem> {
    // The reply may belong to a message of another caller.
    telling.caller.may(Scope::Read)?;
    let reply = wanted.reply.map(place).transpose().map_err(|error| error.field("reply"))?;
    let turn = telling.chat().regenerate(&session, reply, wanted.id.as_deref()).await;
    telling.tell(&turn.map_err(|error| RequestProblem::of_turn(&error))?).await
}

/// Reads the position of a message.
fn place(at: native::MessageAt) -> Result<MessageAddress, RequestProblem> {
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
