//! Sessions: made, listed, shown, written out, deleted.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use singletree_harness::CreateOptions;
use singletree_protocol::native;

use super::answering::HandlerContext;
use super::ask::{StrictQuery, limit};
use super::convert;
use super::export::forget_thoughts;
use super::place::session_place;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "sessions";

/// Returns the routes about sessions.
pub(super) fn routes() -> Vec<ApiRoute> {
    let create = ApiOperation::new("createSession", "Makes a session")
        .about(
            "A message that is sent to a session that is not there makes one too; this is for those who want to name its \
             agent first, or to listen before anybody speaks.",
        )
        .tag(TAG)
        .without_key("name the session by `id`: asked again, it is 409 `chat_session_exists`")
        .body::<native::CreateSession>()
        .answers::<native::Session>(201, "The session; `Location` says where it is.")
        .fails(&[404, 409]);
    let list = ApiOperation::new("listSessions", "Lists sessions")
        .tag(TAG)
        .query::<native::SessionQuery>()
        .answers::<native::SessionList>(200, "A page of the sessions, in the order that was asked for.")
        .fails(&[404]);
    let show = ApiOperation::new("showSession", "Shows a session")
        .tag(TAG)
        .answers::<native::Session>(200, "The session.");
    let export = ApiOperation::new("exportSession", "Writes a session out")
        .about(
            "Its state and history as one portable document, which `singletree sessions import` reads. Turns and events are no part of \
             it; neither is what a model thought, unless its agent's configuration shows it.",
        )
        .tag(TAG)
        .answers::<native::SessionExport>(200, "The document.");
    let delete = ApiOperation::new("deleteSession", "Deletes a session")
        .about(
            "Its turns and its wait are cancelled, and everything of it is removed in one transaction. Forks of it stay. \
             Deleting again succeeds and changes nothing; a message that is sent later begins a new session.",
        )
        .tag(TAG)
        .answers_nothing(204, "There is no such session any more.")
        .found_or_not();
    vec![
        ApiRoute::post("/v1/sessions", make).needs(Scope::Write).documented(create),
        ApiRoute::get("/v1/sessions", page).needs(Scope::Read).documented(list),
        ApiRoute::get("/v1/sessions/{session}", one).needs(Scope::Read).documented(show),
        ApiRoute::get("/v1/sessions/{session}/export", write_out).needs(Scope::Admin).documented(export),
        ApiRoute::delete("/v1/sessions/{session}", remove).needs(Scope::Admin).documented(delete),
    ]
}

async fn make(
    telling: HandlerContext,
    JsonPayload(wanted): JsonPayload<native::CreateSession>,
) -> Result<Response, RequestProblem> {
    let mut options = CreateOptions::new().policy(convert::policy(wanted.prompt_policy));
    if let Some(id) = wanted.id {
        options = options.session(id);
    }
    if let Some(agent) = wanted.agent {
        options = options.agent(agent);
    }
    let made = telling.chat().create_session(options).await.map_err(|error| RequestProblem::of(&error))?;
    let place = [(LOCATION, session_place(&made.session))];
    Ok((StatusCode::CREATED, place, Json(convert::session(&made))).into_response())
}

async fn page(
    telling: HandlerContext,
    StrictQuery(query): StrictQuery<native::SessionQuery>,
) -> Result<Json<native::SessionList>, RequestProblem> {
    let limit = limit(query.limit)?;
    let from = query.from.as_deref().filter(|from| !from.is_empty());
    let chat = telling.chat();
    let list = match query.order {
        native::SessionOrder::Id => chat.sessions(from, limit).await,
        native::SessionOrder::Recent => chat.recent_sessions(from, limit).await,
    };
    let list = list.map_err(|error| RequestProblem::of(&error))?;
    let items = list.items.iter().map(convert::session).collect();
    Ok(Json(native::SessionList { items, next: list.next }))
}

async fn one(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<native::Session>, RequestProblem> {
    let info = telling.chat().session_info(&session).await.map_err(|error| RequestProblem::of(&error))?;
    Ok(Json(convert::session(&info)))
}

async fn write_out(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, RequestProblem> {
    let export = telling.chat().export_session(&session).await.map_err(|error| RequestProblem::of(&error))?;
    let view = telling.view(&session).await?;
    let mut document = serde_json::to_value(export).expect("an export is JSON");
    if !view.thinking {
        forget_thoughts(&mut document);
    }
    Ok(Json(document))
}

async fn remove(telling: HandlerContext, Path(session): Path<String>) -> Result<StatusCode, RequestProblem> {
    let deleted = telling.chat().delete_session(&session, Some(&telling.caller.name)).await;
    deleted.map_err(|error| RequestProblem::of(&error))?;
    Ok(StatusCode::NO_CONTENT)
}
