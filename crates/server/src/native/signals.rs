//! Pending waits, and signals that answer them (D2).

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use singletree_harness::{Answer, SignalAddress, SignalDelivery};
use singletree_protocol::native;

use super::answering::HandlerContext;
use super::ask::{StrictQuery, resolve_page_limit};
use super::convert;
use super::messages::turn_starting_operation;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "signals";

/// Returns the routes about waits and signals.
pub(super) fn signal_routes() -> Vec<ApiRoute> {
    let of_session =
        ApiOperation::new("listPending", "Lists what waits in a session")
            .with_tag(TAG)
            .with_json_response::<native::WaitList>(200, "What waits; at most one wait a session, as it is.");
    let of_all = ApiOperation::new("listAllPending", "Lists what waits in all sessions")
        .with_tag(TAG)
        .with_query_type::<native::WaitQuery>()
        .with_json_response::<native::WaitList>(200, "What waits, ordered by session.");
    let answer = turn_starting_operation("answerSignal", "Answers what waits")
        .with_description(ANSWERS)
        .with_tag(TAG)
        .with_json_body::<native::SignalAnswer>()
        .with_json_response::<native::KeptSignal>(
            200,
            "Nothing waits for it yet, and it is expected early: it is kept.",
        )
        .with_error_statuses(&[409, 410]);
    vec![
        ApiRoute::get("/v1/sessions/{session}/pending", list_pending_waits)
            .with_required_scope(Scope::Read)
            .with_operation(of_session),
        ApiRoute::get("/v1/pending", list_all_pending_waits)
            .with_required_scope(Scope::Read)
            .with_operation(of_all),
        ApiRoute::post("/v1/sessions/{session}/signals/{signal}", answer_signal)
            .with_required_scope(Scope::Approve)
            .with_operation(answer),
    ]
}

const ANSWERS: &str = "\
The first answer wins: the wait is consumed and the turn that goes on is accepted in one commit. The same answer again is \
answered by the same turn; another one is 409. An approval is taken only with the number of its wait and the digest of its action \
(`wait`, `action`), both as `pending` has them. Who answered is recorded: it is the caller, not what the body says.\n\n\
The answer is how the turn that goes on ended, as for a message that is sent: as JSON, as events, or later.";

async fn list_pending_waits(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<native::WaitList>, RequestProblem> {
    let chat = telling.caller_chat();
    chat.session(&session).info().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let waits =
        chat.session(&session).pending().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(Json(native::WaitList {
        items: waits.iter().map(|wait| convert::convert_pending_wait(wait)).collect(),
    }))
}

async fn list_all_pending_waits(
    telling: HandlerContext,
    StrictQuery(query): StrictQuery<native::WaitQuery>,
) -> Result<Json<native::WaitList>, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?;
    let waits = telling
        .caller_chat()
        .pending(limit)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(Json(native::WaitList {
        items: waits.iter().map(|wait| convert::convert_pending_wait(wait)).collect(),
    }))
}

async fn answer_signal(
    telling: HandlerContext,
    Path((session, signal)): Path<(String, String)>,
    JsonPayload(sent): JsonPayload<native::SignalAnswer>,
) -> Result<Response, RequestProblem> {
    let answer = Answer::new(sent.payload).from(telling.caller.name.as_str());
    let answer = match (sent.wait, sent.action) {
        (Some(wait), Some(action)) => answer.to(wait, action),
        (None, None) => answer,
        (Some(_), None) | (None, Some(_)) => {
            return Err(RequestProblem::invalid_request("wait and action are said together, or neither is"));
        }
    };
    let address = SignalAddress::Session { session, signal: signal.clone() };
    let delivered = telling.caller_chat().signal(address, answer).await;
    match delivered.map_err(|error| RequestProblem::from_chat_error(&error))? {
        SignalDelivery::Resumed(turn) => telling.respond_with_turn(&turn).await,
        SignalDelivery::Kept { until } => {
            let kept = native::KeptSignal { signal, kept_until: convert::convert_time(until) };
            Ok((StatusCode::OK, Json(kept)).into_response())
        }
    }
}
