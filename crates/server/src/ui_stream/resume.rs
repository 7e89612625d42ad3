//! Resumes the stream of a running turn: first the whole message again, then the events as they happen.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use singletree_harness::{Error, TurnInfo};

use super::branch::session_of;
use super::messages::before;
use super::post::stream;
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
pub(super) async fn resume(
    telling: HandlerContext,
    Path(chat): Path<String>,
    StrictQuery(query): StrictQuery<ResumeQuery>,
) -> Result<Response, RequestProblem> {
    let session = session_of(&telling, &chat).await?;
    let dialect = UiStreamFeatures::of(&telling, &session).await?;
    let found = match newest(&telling, &session, query.last).await {
        Err(Error::SessionUnknown { .. }) => None,
        found => found.map_err(|error| RequestProblem::of(&error))?,
    };
    let Some(info) = found else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let chat = telling.chat();
    let turn = chat.turn(&info.id).await.map_err(|error| RequestProblem::of(&error))?;
    let before =
        before(&chat, (&session, dialect), turn.id()).await.map_err(|error| RequestProblem::of(&error))?;
    let mut wire = UiStreamEncoder::new(telling.shared.clone(), session, turn.id().clone()).speaking(dialect);
    let first = before.map(|(message, _)| wire.replay(message)).unwrap_or_default();
    Ok(stream(&telling, &turn, wire, (first, None)))
}

async fn newest(telling: &HandlerContext, session: &str, last: bool) -> Result<Option<TurnInfo>, Error> {
    let chat = telling.chat();
    let open = chat.open_turns(session).await?.pop();
    match open {
        None if last => chat.newest_turn(session).await,
        open => Ok(open),
    }
}
