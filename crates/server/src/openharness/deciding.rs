//! A person answers a question: the token alone selects the question and the decision (INV-7, D2).

use serde_json::Map;
use singletree_harness::{Answer, ChatTurnOutcome, SignalAddress};
use singletree_protocol::openharness::{Decision, ErrorCode};

use super::engine::{ExecutedRequest, RequestReplayPolicy, ShellRequestContext};
use super::failure::EngineErrorResponse;
use super::tokens::{self, ApprovalQuestion, ApprovalTokenClaim};
use super::{campaigns, directives};
use crate::caller::Scope;

/// Uses a token and waits for the outcome of the turn that it resumes.
pub(super) async fn decide_by_token(
    asking: &ShellRequestContext<'_>,
    (token, run_id): (&str, Option<&str>),
    session: Option<&str>,
) -> Result<ExecutedRequest, EngineErrorResponse> {
    asking.caller.require_scope(Scope::Approve)?;
    let claimed = match tokens::claim_token(asking, token, (run_id, session)).await? {
        ApprovalTokenClaim::Answered(payload, question) => {
            let (payload, session) = (*payload, Some(question.session));
            return Ok(ExecutedRequest {
                payload,
                session,
                changes: Vec::new(),
                keep: RequestReplayPolicy::Answer,
            });
        }
        ApprovalTokenClaim::Won(claimed) => claimed,
    };
    let question = &claimed.question;
    if campaigns::is_campaign_question(question) {
        let mut done = campaigns::decide_question(asking, question, claimed.decision).await?;
        done.changes.push(claimed.build_result_change(asking, &done.payload));
        return Ok(done);
    }
    let address =
        SignalAddress::Session { session: question.session.clone(), signal: question.signal.clone() };
    let answered = asking.chat.answer(address, build_answer(asking, question, claimed.decision)).await;
    let turn = answered.map_err(|error| match error.category() {
        "chat_signal_conflict" | "harness_signal_correlation_failed" => tokens::decided_otherwise_error(),
        _ => EngineErrorResponse::from_errored_turn(&error.into_errored_turn()),
    })?;
    let outcome = turn.outcome().await;
    let mut done = directives::convert_outcome(asking, &question.session, Vec::new(), &outcome);
    let recorded = !matches!(outcome.as_ref(), ChatTurnOutcome::Errored(it) if !it.recorded);
    if recorded {
        // The decision is final, whatever the outcome: the token cannot be used again.
        done.keep = RequestReplayPolicy::Answer;
        done.changes.push(claimed.build_result_change(asking, &done.payload));
    }
    Ok(done)
}

fn build_answer(asking: &ShellRequestContext<'_>, question: &ApprovalQuestion, decision: Decision) -> Answer {
    let approved = match decision {
        Decision::Approve => true,
        Decision::Reject => false,
    };
    let payload = Map::from_iter([("approved".to_owned(), approved.into())]);
    Answer::new(payload).from(asking.caller.name.as_str()).to(question.wait, question.action.as_str())
}

/// Returns the failure for a continuation that is unknown or belongs to another tenant: both get the same answer
/// (INV-14).
pub(super) fn unknown_continuation_error() -> EngineErrorResponse {
    EngineErrorResponse::from_code(
        ErrorCode::ContinuationInvalid,
        "there is nothing to go on with by this continuation",
    )
}
