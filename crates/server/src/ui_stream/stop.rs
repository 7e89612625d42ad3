//! The Stop button of a page: it cancels the running turn.

use axum::extract::Path;
use axum::http::StatusCode;

use super::branch::session_of;
use crate::native::HandlerContext;
use crate::problem::RequestProblem;
use crate::running;

/// Cancels the running turn of a chat, if there is one. The shown part of its answer is kept.
pub(super) async fn stop(
    telling: HandlerContext,
    Path(chat): Path<String>,
) -> Result<StatusCode, RequestProblem> {
    let session = session_of(&telling, &chat).await?;
    running::cancel(&telling.chat(), &session).await?;
    Ok(StatusCode::NO_CONTENT)
}
