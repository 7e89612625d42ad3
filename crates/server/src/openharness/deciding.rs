//! A person answers a question: the token alone selects the question and the decision (INV-7, D2).

use serde_json::Map;
use singletree_harness::{Answer, ChatTurnOutcome, SignalAddress};
use singletree_protocol::openharness::{Decision, ErrorCode};

use super::directives;
use super::engine::{Asking, Done, Keep};
use super::failure::Failure;
use super::tokens::{self, Claim, Question};
use crate::caller::Scope;

/// Uses a token and waits for the outcome of the turn that it resumes.
pub(super) async fn decide(
    asking: &Asking<'_>,
    (token, run_id): (&str, Option<&str>),
    session: Option<&str>,
) -> Result<Done, Failure> {
    asking.caller.may(Scope::Approve)?;
    let claimed = match tokens::claim(asking, token, (run_id, session)).await? {
        Claim::Answered(payload, question) => {
            let (payload, session) = (*payload, Some(question.session));
            return Ok(Done { payload, session, changes: Vec::new(), keep: Keep::Answer });
        }
        Claim::Won(claimed) => claimed,
    };
    let question = &claimed.question;
    let address =
        SignalAddress::Session { session: question.session.clone(), signal: question.signal.clone() };
    let answered = asking.chat.answer(address, reply(asking, question, claimed.decision)).await;
    let turn = answered.map_err(|errored| match errored.error_category.as_str() {
        "chat_signal_conflict" | "harness_signal_correlation_failed" => tokens::decided_otherwise(),
        _ => Failure::of_turn(&errored),
    })?;
    let outcome = turn.outcome().await;
    let mut done = directives::of_outcome(asking, &question.session, Vec::new(), &outcome);
    let recorded = !matches!(outcome.as_ref(), ChatTurnOutcome::Errored(it) if !it.recorded);
    if recorded {
        // The decision is final, whatever the outcome: the token cannot be used again.
        done.keep = Keep::Answer;
        done.changes.push(claimed.answered(asking, &done.payload));
    }
    Ok(done)
}

fn reply(asking: &Asking<'_>, question: &Question, decision: Decision) -> Answer {
    let approved = match decision {
        Decision::Approve => true,
        Decision::Reject => false,
    };
    let payload = Map::from_iter([("approved".to_owned(), approved.into())]);
    Answer::new(payload).from(asking.caller.name.as_str()).to(question.wait, question.action.as_str())
}

/// Returns the failure for a continuation that is unknown or belongs to another tenant: both get the same answer
/// (INV-14).
pub(super) fn nothing() -> Failure {
    Failure::of(ErrorCode::ContinuationInvalid, "there is nothing to go on with by this continuation")
}
