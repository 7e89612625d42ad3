//! Finds the failed turn that a page asks to have retried.

use singletree_durable::StoredTurnStatus;
use singletree_harness::{Chat, ChatTurnOutcome, Error, TurnId, TurnInfo};

use super::project::{client_message_id, first_message_id};
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
pub(super) async fn find_newest_failed_turn(
    chat: &Chat,
    session: &str,
    id: Option<&str>,
) -> Result<Option<NewestFailedTurn>, RequestProblem> {
    let read = async {
        let newest = match chat.session(session).newest_turn().await {
            Err(Error::SessionUnknown { .. }) => None,
            newest => newest?,
        };
        let Some(newest) =
            newest.filter(|turn| turn.status == StoredTurnStatus::Errored || is_open_retry(turn))
        else {
            return Ok(None);
        };
        if let Some(id) = id
            && id != newest.id.invocation.to_string()
            && !is_message_of(RetryChain::load_for_turn(chat, &newest).await?.as_ref(), id)
        {
            return Ok(None);
        }
        if is_open_retry(&newest)
            && let Some(chain) = RetryChain::load_for_turn(chat, &newest).await?
            && let Some(turn) = chain.turns.into_iter().rfind(|turn| *turn != newest.id)
        {
            // A retry runs already: another retry of the same turn is refused.
            return Ok(Some(NewestFailedTurn { turn, is_cancelled: false }));
        }
        let outcome = chat.turn(&newest.id).await?.outcome().await;
        let ChatTurnOutcome::Errored(error) = outcome.as_ref() else { return Ok(None) };
        let is_cancelled = error.error_category == "chat_turn_cancelled";
        Ok(Some(NewestFailedTurn { turn: newest.id, is_cancelled }))
    };
    read.await.map_err(|error: Error| RequestProblem::from_chat_error(&error))
}

/// Checks whether a turn retries another one and has not ended.
fn is_open_retry(turn: &TurnInfo) -> bool {
    turn.status == StoredTurnStatus::Accepted && turn.retries.is_some()
}

/// Checks whether the turns of a chain answer the message that a page has under this id.
fn is_message_of(chain: Option<&RetryChain>, id: &str) -> bool {
    chain.is_some_and(|RetryChain { first, message: (_, side), .. }| {
        client_message_id(side.as_ref()).map_or_else(|| first_message_id(first), str::to_owned) == id
    })
}
