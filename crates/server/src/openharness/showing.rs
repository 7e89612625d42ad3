//! A shell asks for the state of a run: it gets the outcome, and for a pending wait the question with new tokens.

use singletree_durable::InvocationId;
use singletree_harness::{ChatTurnOutcome, TurnId};

use super::deciding::nothing;
use super::directives;
use super::engine::{ExecutedRequest, RequestReplayPolicy, ShellRequestContext};
use super::failure::EngineErrorResponse;
use crate::caller::Scope;

/// Shows the last turn of a run; waits for a running one.
pub(super) async fn show(
    asking: &ShellRequestContext<'_>,
    run_id: &str,
    session: Option<&str>,
) -> Result<ExecutedRequest, EngineErrorResponse> {
    asking.caller.may(Scope::Read)?;
    let invocation = InvocationId::parse(run_id).map_err(|_| nothing())?;
    let mut id = TurnId::new(invocation, 0);
    loop {
        let turn = match asking.chat.turn(&id).await {
            Ok(turn) => turn,
            Err(singletree_harness::Error::TurnUnknown { .. }) => return Err(nothing()),
            Err(error) => return Err(error.into()),
        };
        if session.is_some_and(|session| session != turn.session()) {
            return Err(nothing());
        }
        let outcome = turn.outcome().await;
        match outcome.as_ref() {
            ChatTurnOutcome::Suspended(suspended) if suspended.resumed_by.is_some() => {
                id = suspended.resumed_by.clone().unwrap_or(id);
            }
            ChatTurnOutcome::Suspended(_) | ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Errored(_) => {
                // A run goes on: the same request may get another state later.
                let done = directives::of_outcome(asking, turn.session(), Vec::new(), &outcome);
                return Ok(ExecutedRequest { keep: RequestReplayPolicy::Free, ..done });
            }
        }
    }
}
