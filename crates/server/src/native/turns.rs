//! Turns: listed, shown, cancelled, retried.

use axum::Json;
use axum::extract::Path;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use singletree_durable::StoredTurnStatus;
use singletree_harness::{ChatTurnOutcome, SendOptions, TurnId, TurnInfo};
use singletree_protocol::native;

use super::answering::{HandlerContext, PREFERENCE_APPLIED, unfinished};
use super::ask::{StrictQuery, TurnResponseMode, limit, patience};
use super::convert;
use super::messages::{keyed, starts_turn};
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "turns";

/// Returns the routes about turns.
pub(super) fn routes() -> Vec<ApiRoute> {
    let list = ApiOperation::new("listTurns", "Lists the turns of a session")
        .tag(TAG)
        .query::<native::TurnQuery>()
        .answers::<native::TurnList>(200, "A page of the turns, in the order in which they were accepted.");
    let show = ApiOperation::new("showTurn", "Shows a turn")
        .about(
            "With its outcome, once it has one. With `Accept: text/event-stream`: what happened in it and what happens, up to \
             its end; from after the event that was seen last, when there is one.",
        )
        .tag(TAG)
        .header("Last-Event-ID", "The id of the last event that was seen.")
        .header("Prefer", "`wait=SECONDS`: an answer when the turn has ended, at the latest after so many seconds.")
        .answers::<native::Turn>(200, "The turn.")
        .streams::<native::StreamItem>(200, "What happened in the turn and what happens, up to its end.")
        .fails(&[409]);
    let cancel = ApiOperation::new("cancelTurn", "Cancels a turn")
        .about(
            "One that waits its place does not run; one that runs ends at its next await, and what was shown of it is kept; \
             one that suspended is given up. The answer is the turn that tells the end: this one, or the one that closed \
             the wait. A turn that has ended otherwise is answered as it ended: of cancel and completion exactly one wins.",
        )
        .tag(TAG)
        .answers::<native::Turn>(200, "The turn that tells the end; its outcome for readers only.");
    let retry = starts_turn("retryTurn", "Retries a turn that failed")
        .about(
            "Makes a new turn, which names this one in `retries`. A turn without effects has its message sent again, with its \
             pictures; of one with effects the history says what it did, and the new turn goes on from there without another \
             message of the user. Allowed once, while the turn is the newest one of its session; else 409 \
             `chat_retry_superseded`. Needs `read`, too.",
        )
        .tag(TAG)
        .header("Idempotency-Key", "Retries once: the same key for the same turn again is answered by the same turn.")
        .fails(&[404, 409])
        .found_or_not();
    vec![
        ApiRoute::post("/v1/sessions/{session}/turns/{turn}/retry", retry_one)
            .needs(Scope::Write)
            .documented(retry),
        ApiRoute::get("/v1/sessions/{session}/turns", page).needs(Scope::Read).documented(list),
        ApiRoute::get("/v1/sessions/{session}/turns/{turn}", one).needs(Scope::Read).documented(show),
        ApiRoute::post("/v1/sessions/{session}/turns/{turn}/cancel", cancel_one)
            .needs(Scope::Write)
            .documented(cancel),
    ]
}

async fn page(
    telling: HandlerContext,
    Path(session): Path<String>,
    StrictQuery(query): StrictQuery<native::TurnQuery>,
) -> Result<Json<native::TurnList>, RequestProblem> {
    let limit = limit(query.limit)?;
    let page = telling.chat().turns(&session, query.from.unwrap_or_default(), limit).await;
    let page = page.map_err(|error| RequestProblem::of(&error))?;
    let items = page.items.iter().map(convert::turn).collect();
    Ok(Json(native::TurnList { items, next: page.next }))
}

async fn one(
    telling: HandlerContext,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Response, RequestProblem> {
    let info = find(&telling, &session, &turn).await?;
    if telling.manner() == TurnResponseMode::Events {
        let turn = telling.chat().turn(&info.id).await.map_err(|error| RequestProblem::of(&error))?;
        return telling.tell(&turn).await;
    }
    let patience = patience(&telling.headers);
    if info.status == StoredTurnStatus::Accepted && patience.is_none() {
        return Ok(Json(convert::turn(&info)).into_response());
    }
    let turn = telling.chat().turn(&info.id).await.map_err(|error| RequestProblem::of(&error))?;
    let outcome = match patience.filter(|_| info.status == StoredTurnStatus::Accepted) {
        Some(patience) => telling.soon(&turn, patience).await,
        None => Some(turn.outcome().await),
    };
    let told = match outcome {
        Some(outcome) => {
            unfinished(&outcome)?;
            let info = match info.status {
                StoredTurnStatus::Accepted => find(&telling, &session, &info.id.to_string()).await?,
                StoredTurnStatus::Suspended | StoredTurnStatus::Completed | StoredTurnStatus::Errored => info,
            };
            ended(&telling, &info, &outcome).await?
        }
        None => convert::turn(&info),
    };
    let mut response = Json(told).into_response();
    let applied = patience.and_then(|wait| HeaderValue::from_str(&format!("wait={}", wait.as_secs())).ok());
    if let Some(applied) = applied {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

async fn cancel_one(
    telling: HandlerContext,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Json<native::Turn>, RequestProblem> {
    let info = find(&telling, &session, &turn).await?;
    let told = telling.chat().cancel(&info.id).await.map_err(|error| RequestProblem::of(&error))?;
    let outcome = told.outcome().await;
    unfinished(&outcome)?;
    let info =
        telling.chat().turn_info(&session, told.id()).await.map_err(|error| RequestProblem::of(&error))?;
    if !telling.caller.may_read() {
        // Cancelling a turn does not grant the right to read its messages.
        return Ok(Json(convert::turn(&info)));
    }
    ended(&telling, &info, &outcome).await.map(Json)
}

async fn retry_one(
    telling: HandlerContext,
    Path((session, turn)): Path<(String, String)>,
) -> Result<Response, RequestProblem> {
    // The answer shows a message that another caller may have sent.
    telling.caller.may(Scope::Read)?;
    let info = find(&telling, &session, &turn).await?;
    let options = keyed(&telling, SendOptions::new())?;
    let retry = telling.chat().retry(&info.id, options).await;
    telling.tell(&retry.map_err(|error| RequestProblem::of_turn(&error))?).await
}

/// Finds a turn of a session.
async fn find(telling: &HandlerContext, session: &str, turn: &str) -> Result<TurnInfo, RequestProblem> {
    let id: TurnId = turn.parse().map_err(|error| RequestProblem::of(&error))?;
    telling.chat().turn_info(session, &id).await.map_err(|error| RequestProblem::of(&error))
}

/// Returns a turn with its outcome.
async fn ended(
    telling: &HandlerContext,
    info: &TurnInfo,
    outcome: &ChatTurnOutcome,
) -> Result<native::Turn, RequestProblem> {
    let view = telling.view(&info.session).await?;
    Ok(native::Turn { outcome: Some(view.outcome(&info.session, outcome)), ..convert::turn(info) })
}
