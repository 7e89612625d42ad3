//! Finds the failed turn that a page asks to have retried.

use singletree_durable::StoredTurnStatus;
use singletree_harness::{Chat, ChatTurnOutcome, Error, TurnId};

use super::project::{client_id, first_message};
use crate::problem::RequestProblem;
use crate::retry_chain::RetryChain;

/// The newest turn of a session, which has failed.
#[derive(Debug)]
pub(super) struct NewestFailedTurn {
    pub(super) turn: TurnId,
    /// Whether the turn was cancelled.
    pub(super) is_cancelled: bool,
}

/// Returns the newest turn of a session if it has failed and this id names it; without an id any failed one. A page
/// names a turn by its message, or by the id of its answer.
pub(super) async fn newest_failed_turn(
    chat: &Chat,
    session: &str,
    id: Option<&str>,
) -> Result<Option<NewestFailedTurn>, RequestProblem> {
    let read = async {
        let newest = match chat.newest_turn(session).await {
            Err(Error::SessionUnknown { .. }) => None,
            newest => newest?,
        };
        let Some(newest) = newest.filter(|turn| turn.status == StoredTurnStatus::Errored) else {
            return Ok(None);
        };
        if let Some(id) = id
            && id != newest.id.invocation.to_string()
            && !is_message_of(&RetryChain::of(chat, &newest).await?, id)
        {
            return Ok(None);
        }
        let outcome = chat.turn(&newest.id).await?.outcome().await;
        let ChatTurnOutcome::Errored(error) = outcome.as_ref() else { return Ok(None) };
        let is_cancelled = error.error_category == "chat_turn_cancelled";
        Ok(Some(NewestFailedTurn { turn: newest.id, is_cancelled }))
    };
    read.await.map_err(|error: Error| RequestProblem::of(&error))
}

/// Checks whether the turns of a chain answer the message that a page has under this id.
fn is_message_of(chain: &Option<RetryChain>, id: &str) -> bool {
    chain.as_ref().is_some_and(|RetryChain { first, message: (_, side), .. }| {
        client_id(side.as_ref()).map_or_else(|| first_message(first), str::to_owned) == id
    })
}
