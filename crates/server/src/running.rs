//! Cancelling the running turn of a session.

use singletree_harness::{Chat, Error};

use crate::problem::RequestProblem;

/// Cancels the running turn of a session, and waits until it has ended; without one, does nothing. Queued turns and
/// pending waits stay.
///
/// # Errors
/// Those of [`Chat::cancel`].
pub(crate) async fn cancel_running_turn(chat: &Chat, session: &str) -> Result<(), RequestProblem> {
    let open = match chat.session(session).open_turns().await {
        Err(Error::SessionUnknown { .. }) => return Ok(()),
        open => open.map_err(|error| RequestProblem::from_chat_error(&error))?,
    };
    let Some(running) = open.first() else { return Ok(()) };
    let turn = chat.turn(&running.id).await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    if !turn.is_parked() {
        let cancelled =
            chat.cancel(&running.id).await.map_err(|error| RequestProblem::from_chat_error(&error))?;
        cancelled.outcome().await;
    }
    Ok(())
}
