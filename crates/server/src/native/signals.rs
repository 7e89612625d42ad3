//! Pending waits, and signals that answer them (D2).

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use singletree_harness::{Answer, SignalAddress, SignalDelivery};
use singletree_protocol::native;

use super::answering::HandlerContext;
use super::ask::{StrictQuery, limit};
use super::convert;
use super::messages::starts_turn;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "signals";

/// Returns the routes about waits and signals.
pub(super) fn routes() -> Vec<ApiRoute> {
    let of_session = ApiOperation::new("listPending", "Lists what waits in a session")
        .tag(TAG)
        .answers::<native::WaitList>(200, "What waits; at most one wait a session, as it is.");
    let of_all = ApiOperation::new("listAllPending", "Lists what waits in all sessions")
        .tag(TAG)
        .query::<native::WaitQuery>()
        .answers::<native::WaitList>(200, "What waits, ordered by session.");
    let answer = starts_turn("answerSignal", "Answers what waits")
        .about(ANSWERS)
        .tag(TAG)
        .body::<native::SignalAnswer>()
        .answers::<native::KeptSignal>(200, "Nothing waits for it yet, and it is expected early: it is kept.")
        .fails(&[409, 410]);
    vec![
        ApiRoute::get("/v1/sessions/{session}/pending", pending).needs(Scope::Read).documented(of_session),
        ApiRoute::get("/v1/pending", all_pending).needs(Scope::Read).documented(of_all),
        ApiRoute::post("/v1/sessions/{session}/signals/{signal}", answer_one)
            .needs(Scope::Approve)
            .documented(answer),
    ]
}

const ANSWERS: &str = "\
The first answer wins: the wait is consumed and the turn that goes on is accepted in one commit. The same answer again is \
answered by the same turn; another one is 409. An approval is taken only with the number of its wait and the digest of its action \
(`wait`, `action`), both as `pending` has them. Who answered is recorded: it is the caller, not what the body says.\n\n\
The answer is how the turn that goes on ended, as for a message that is sent: as JSON, as events, or later.";

async fn pending(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<native::WaitList>, RequestProblem> {
    let chat = telling.chat();
    chat.session_info(&session).await.map_err(|error| RequestProblem::of(&error))?;
    let waits = chat.pending(Some(&session), u64::MAX).await.map_err(|error| RequestProblem::of(&error))?;
    Ok(Json(native::WaitList { items: waits.iter().map(convert::wait).collect() }))
}

async fn all_pending(
    telling: HandlerContext,
    StrictQuery(query): StrictQuery<native::WaitQuery>,
) -> Result<Json<native::WaitList>, RequestProblem> {
    let limit = limit(query.limit)?;
    let waits = telling.chat().pending(None, limit).await.map_err(|error| RequestProblem::of(&error))?;
    Ok(Json(native::WaitList { items: waits.iter().map(convert::wait).collect() }))
}

async fn answer_one(
    telling: HandlerContext,
    Path((session, signal)): Path<(String, String)>,
    JsonPayload(sent): JsonPayload<native::SignalAnswer>,
) -> Result<Response, RequestProblem> {
    let answer = Answer::new(sent.payload).from(telling.caller.name.as_str());
    let answer = match (sent.wait, sent.action) {
        (Some(wait), Some(action)) => answer.to(wait, action),
        (None, None) => answer,
        (Some(_), None) | (None, Some(_)) => {
            return Err(RequestProblem::invalid("wait and action are said together, or neither is"));
        }
    };
    let address = SignalAddress::Session { session, signal: signal.clone() };
    let delivered = telling.chat().signal(address, answer).await;
    match delivered.map_err(|error| RequestProblem::of_turn(&error))? {
        SignalDelivery::Resumed(turn) => telling.tell(&turn).await,
        SignalDelivery::Kept { until } => {
            let kept = native::KeptSignal { signal, kept_until: convert::time(until) };
            Ok((StatusCode::OK, Json(kept)).into_response())
        }
    }
}
