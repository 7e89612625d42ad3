//! The turn that runs in a session.

use singletree_harness::{Chat, Error};

use crate::problem::Problem;

/// Cancels the turn that runs in a session, and waits until it has ended; where none runs, nothing is done. Turns that wait their
/// place, and what waits for a person, stay.
///
/// # Errors
/// Those of [`Chat::cancel`].
pub(crate) async fn cancel(chat: &Chat, session: &str) -> Result<(), Problem> {
    let open = match chat.open_turns(session).await {
        Err(Error::SessionUnknown { .. }) => return Ok(()),
        open => open.map_err(|error| Problem::of(&error))?,
    };
    let Some(running) = open.first() else { return Ok(()) };
    let turn = chat.turn(&running.id).await.map_err(|error| Problem::of(&error))?;
    if !turn.is_parked() {
        let cancelled = chat.cancel(&running.id).await.map_err(|error| Problem::of(&error))?;
        cancelled.outcome().await;
    }
    Ok(())
}
