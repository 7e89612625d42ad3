//! Resumes the stream of a running turn: first the whole message again, then the events as they happen.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use singletree_harness::{Error, TurnInfo};

use super::branch::find_current_session;
use super::messages::read_message_beginning;
use super::post::stream_turn;
use super::sdk::UiStreamFeatures;
use super::wire::UiStreamEncoder;
use crate::native::{HandlerContext, StrictQuery};
use crate::problem::RequestProblem;

/// The turn to resume. Unknown parameters are ignored.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ResumeQuery {
    /// The newest turn, also if it is over.
    #[serde(default)]
    last: bool,
}

/// Streams the message of the turn that was accepted last and has not ended; 204 if there is none, or no such chat: a
/// page asks when it loads, before it has sent anything.
pub(super) async fn resume_stream(
    telling: HandlerContext,
    Path(chat): Path<String>,
    StrictQuery(query): StrictQuery<ResumeQuery>,
) -> Result<Response, RequestProblem> {
    let session = find_current_session(&telling, &chat).await?;
    let dialect = UiStreamFeatures::read_for_session(&telling, &session).await?;
    let found = match find_turn_to_resume(&telling, &session, query.last).await {
        Err(Error::SessionUnknown { .. }) => None,
        found => found.map_err(|error| RequestProblem::from_chat_error(&error))?,
    };
    let Some(info) = found else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let chat = telling.caller_chat();
    let turn = chat.turn(&info.id).await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let before = read_message_beginning(&chat, (&session, dialect), turn.id())
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let mut wire =
        UiStreamEncoder::new(telling.shared.clone(), session, turn.id().clone()).with_features(dialect);
    let first = before.map(|(message, _)| wire.replay_message(message)).unwrap_or_default();
    Ok(stream_turn(&telling, &turn, wire, (first, None)))
}

async fn find_turn_to_resume(
    telling: &HandlerContext,
    session: &str,
    last: bool,
) -> Result<Option<TurnInfo>, Error> {
    let chat = telling.caller_chat();
    let open = chat.session(session).open_turns().await?.pop();
    match open {
        None if last => chat.session(session).newest_turn().await,
        open => Ok(open),
    }
}
