//! The Stop button of a page: it cancels the running turn.

use axum::extract::Path;
use axum::http::StatusCode;

use super::branch::session_of;
use crate::native::Telling;
use crate::problem::Problem;
use crate::running;

/// Cancels the running turn of a chat, if there is one. The shown part of its answer is kept.
pub(super) async fn stop(telling: Telling, Path(chat): Path<String>) -> Result<StatusCode, Problem> {
    let session = session_of(&telling, &chat).await?;
    running::cancel(&telling.chat(), &session).await?;
    Ok(StatusCode::NO_CONTENT)
}
