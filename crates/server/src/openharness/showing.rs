//! A shell asks for the state of a run: it gets the outcome, and for a pending wait the question with new tokens.

use singletree_durable::InvocationId;
use singletree_harness::{ChatTurnOutcome, TurnId};

use super::deciding::unknown_continuation_error;
use super::engine::{ExecutedRequest, RequestReplayPolicy, ShellRequestContext};
use super::failure::EngineErrorResponse;
use super::{campaigns, directives};
use crate::caller::Scope;

/// Shows the last turn of a run; waits for a running one.
pub(super) async fn show_run_state(
    asking: &ShellRequestContext<'_>,
    run_id: &str,
    session: Option<&str>,
) -> Result<ExecutedRequest, EngineErrorResponse> {
    asking.caller.require_scope(Scope::Read)?;
    if campaigns::is_campaign_id(run_id)
        && let Some(shown) = campaigns::show_campaign(asking, run_id, session).await?
    {
        return Ok(shown);
    }
    let invocation = InvocationId::parse(run_id).map_err(|_| unknown_continuation_error())?;
    let mut id = TurnId::new(invocation, 0);
    loop {
        let turn = match asking.chat.turn(&id).await {
            Ok(turn) => turn,
            Err(singletree_harness::Error::TurnUnknown { .. }) => return Err(unknown_continuation_error()),
            Err(error) => return Err(error.into()),
        };
        if session.is_some_and(|session| session != turn.session()) {
            return Err(unknown_continuation_error());
        }
        let outcome = turn.outcome().await;
        match outcome.as_ref() {
            ChatTurnOutcome::Suspended(suspended) if suspended.resumed_by.is_some() => {
                id = suspended.resumed_by.clone().unwrap_or(id);
            }
            ChatTurnOutcome::Suspended(_) | ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => {
                // A run goes on: the same request may get another state later.
                let done = directives::convert_outcome(asking, turn.session(), Vec::new(), &outcome);
                return Ok(ExecutedRequest { keep: RequestReplayPolicy::Free, ..done });
            }
        }
    }
}
