//! Turns: listed, shown, cancelled, retried.

use axum::Json;
use axum::extract::Path;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use singletree_durable::StoredTurnStatus;
use singletree_harness::{ChatTurnOutcome, SendOptions, TurnId, TurnInfo};
use singletree_protocol::native;

use super::answering::{HandlerContext, PREFERENCE_APPLIED, check_recorded};
use super::ask::{StrictQuery, TurnResponseMode, read_preferred_wait, resolve_page_limit};
use super::convert;
use super::messages::{apply_send_headers, turn_starting_operation};
use crate::caller::Scope;
use crate::forward::defer_to_owner;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "turns";

/// Returns the routes about turns.
pub(super) fn turn_routes() -> Vec<ApiRoute> {
    let list = ApiOperation::new("listTurns", "Lists the turns of a session")
        .with_tag(TAG)
        .with_query_type::<native::TurnQuery>()
        .with_json_response::<native::TurnList>(
            200,
            "A page of the turns, in the order in which they were accepted.",
        );
    let show = ApiOperation::new("showTurn", "Shows a turn")
        .with_description(
            "With its outcome, once it has one. With `Accept: text/event-stream`: what happened in it and what happens, up to \
             its end; from after the event that was seen last, when there is one.",
        )
        .with_tag(TAG)
        .with_header("Last-Event-ID", "The id of the last event that was seen.")
        .with_header("Prefer", "`wait=SECONDS`: an answer when the turn has ended, at the latest after so many seconds.")
        .with_json_response::<native::Turn>(200, "The turn.")
        .with_event_response::<native::StreamItem>(200, "What happened in the turn and what happens, up to its end.")
        .with_error_statuses(&[409]);
    let cancel = ApiOperation::new("cancelTurn", "Cancels a turn")
        .with_description(
            "One that waits its place does not run; one that runs ends at its next await, and what was shown of it is kept; \
             one that suspended is given up. The answer is the turn that tells the end: this one, or the one that closed \
             the wait. A turn that has ended otherwise is answered as it ended: of cancel and completion exactly one wins.",
        )
        .with_tag(TAG)
        .with_json_response::<native::Turn>(200, "The turn that tells the end; its outcome for readers only.");
    let retry = turn_starting_operation("retryTurn", "Retries a turn that failed")
        .with_description(
            "Makes a new turn, which names this one in `retries`. A turn without effects has its message sent again, with its \
             pictures; of one with effects the history says what it did, and the new turn goes on from there without another \
             message of the user. Allowed once, while the turn is the newest one of its session; else 409 \
             `chat_retry_superseded`. Needs `read`, too.",
        )
        .with_tag(TAG)
        .with_header("Idempotency-Key", "Retries once: the same key for the same turn again is answered by the same turn.")
        .with_error_statuses(&[404, 409])
        .without_not_found();
    vec![
        ApiRoute::post("/v1/sessions/{session}/turns/{turn}/retry", retry_turn)
            .with_required_scope(Scope::Write)
            .with_operation(retry),
        ApiRoute::get("/v1/sessions/{session}/turns", list_turns)
            .with_required_scope(Scope::Read)
            .with_operation(list),
        ApiRoute::get("/v1/sessions/{session}/turns/{turn}", show_turn)
            .with_required_scope(Scope::Read)
            .with_operation(show),
        ApiRoute::post("/v1/sessions/{session}/turns/{turn}/cancel", cancel_turn)
            .with_required_scope(Scope::Write)
            .with_operation(cancel),
    ]
}

async fn list_turns(
    telling: HandlerContext,
    Path(session): Path<String>,
    StrictQuery(query): StrictQuery<native::TurnQuery>,
) -> Result<Response, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?;
    let page = telling.caller_chat().session(&session).turns(query.from.unwrap_or_default(), limit).await;
    let page = page.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let items = page.items.iter().map(convert::convert_turn).collect();
    let listed = Json(native::TurnList { items, next: page.next }).into_response();
    Ok(complete_activity(&telling, &session, (&page.items, listed)).await)
}

/// Has the owner of the session answer instead, if that is another server and the activity of an open turn is not known here.
async fn complete_activity(
    telling: &HandlerContext,
    session: &str,
    (turns, answer): (&[TurnInfo], Response),
) -> Response {
    let is_open = |turn: &TurnInfo| turn.status == StoredTurnStatus::Accepted && turn.activity.is_none();
    if turns.iter().any(is_open) {
        let tenant = &telling.caller.tenant;
        return defer_to_owner(&telling.shared, (tenant, session), answer).await;
    }
    answer
}

async fn show_turn(
    telling: HandlerContext,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Response, RequestProblem> {
    let info = find_turn(&telling, &session, &turn).await?;
    if telling.response_mode() == TurnResponseMode::Events {
        let turn = telling
            .caller_chat()
            .turn(&info.id)
            .await
            .map_err(|error| RequestProblem::from_chat_error(&error))?;
        return telling.respond_with_turn(&turn).await;
    }
    let patience = read_preferred_wait(&telling.headers);
    if info.status == StoredTurnStatus::Accepted && patience.is_none() {
        let shown = Json(convert::convert_turn(&info)).into_response();
        return Ok(complete_activity(&telling, &session, (std::slice::from_ref(&info), shown)).await);
    }
    let turn = telling
        .caller_chat()
        .turn(&info.id)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let outcome = match patience.filter(|_| info.status == StoredTurnStatus::Accepted) {
        Some(patience) => telling.wait_for_outcome(&turn, patience).await,
        None => Some(turn.outcome().await),
    };
    let told = match outcome {
        Some(outcome) => {
            check_recorded(&outcome)?;
            let info = match info.status {
                StoredTurnStatus::Accepted => find_turn(&telling, &session, &info.id.to_string()).await?,
                StoredTurnStatus::Suspended | StoredTurnStatus::Completed | StoredTurnStatus::Errored => info,
            };
            convert_ended_turn(&telling, &info, &outcome).await?
        }
        None => convert::convert_turn(&info),
    };
    let mut response = Json(told).into_response();
    let applied = patience.and_then(|wait| HeaderValue::from_str(&format!("wait={}", wait.as_secs())).ok());
    if let Some(applied) = applied {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

async fn cancel_turn(
    telling: HandlerContext,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Json<native::Turn>, RequestProblem> {
    let info = find_turn(&telling, &session, &turn).await?;
    let told = telling
        .caller_chat()
        .cancel(&info.id)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let outcome = told.outcome().await;
    check_recorded(&outcome)?;
    let info = telling
        .caller_chat()
        .session(&session)
        .turn_info(told.id())
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    if !telling.caller.can_read_messages() {
        // Cancelling a turn does not grant the right to read its messages.
        return Ok(Json(convert::convert_turn(&info)));
    }
    convert_ended_turn(&telling, &info, &outcome).await.map(Json)
}

async fn retry_turn(
    telling: HandlerContext,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Response, RequestProblem> {
    // The answer shows a message that another caller may have sent.
    telling.caller.require_scope(Scope::Read)?;
    let info = find_turn(&telling, &session, &turn).await?;
    let options = apply_send_headers(&telling, SendOptions::new())?;
    let retry = telling.caller_chat().retry(&info.id, options).await;
    telling.respond_with_turn(&retry.map_err(|error| RequestProblem::from_chat_error(&error))?).await
}

/// Finds a turn of a session.
async fn find_turn(telling: &HandlerContext, session: &str, turn: &str) -> Result<TurnInfo, RequestProblem> {
    let id = turn.parse::<TurnId>().map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
    telling
        .caller_chat()
        .session(session)
        .turn_info(&id)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))
}

/// Returns a turn with its outcome.
async fn convert_ended_turn(
    telling: &HandlerContext,
    info: &TurnInfo,
    outcome: &ChatTurnOutcome,
) -> Result<native::Turn, RequestProblem> {
    let view = telling.load_visibility(&info.session).await?;
    Ok(native::Turn {
        outcome: Some(view.convert_outcome(&info.session, outcome)),
        ..convert::convert_turn(info)
    })
}
