//! The Stop button of a page: it cancels the running turn.

use axum::extract::Path;
use axum::http::StatusCode;

use super::branch::find_current_session;
use crate::native::HandlerContext;
use crate::problem::RequestProblem;
use crate::running;

/// Cancels the running turn of a chat, if there is one. The shown part of its answer is kept.
pub(super) async fn cancel_running_turn(
    telling: HandlerContext,
    Path(chat): Path<String>,
) -> Result<StatusCode, RequestProblem> {
    let session = find_current_session(&telling, &chat).await?;
    running::cancel_running_turn(&telling.caller_chat(), &session).await?;
    Ok(StatusCode::NO_CONTENT)
}
