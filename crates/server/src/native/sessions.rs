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
use super::ask::{StrictQuery, resolve_page_limit};
use super::convert;
use super::export::remove_thinking;
use super::place::session_location;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "sessions";

/// Returns the routes about sessions.
pub(super) fn session_routes() -> Vec<ApiRoute> {
    let create = ApiOperation::new("createSession", "Makes a session")
        .with_description(
            "A message that is sent to a session that is not there makes one too; this is for those who want to name its \
             agent first, or to listen before anybody speaks.",
        )
        .with_tag(TAG)
        .refuse_idempotency_key("name the session by `id`: asked again, it is 409 `chat_session_exists`")
        .with_json_body::<native::CreateSession>()
        .with_json_response::<native::Session>(201, "The session; `Location` says where it is.")
        .with_error_statuses(&[404, 409]);
    let list = ApiOperation::new("listSessions", "Lists sessions")
        .with_tag(TAG)
        .with_query_type::<native::SessionQuery>()
        .with_json_response::<native::SessionList>(
            200,
            "A page of the sessions, in the order that was asked for.",
        )
        .with_error_statuses(&[404]);
    let show = ApiOperation::new("showSession", "Shows a session")
        .with_tag(TAG)
        .with_json_response::<native::Session>(200, "The session.");
    let export = ApiOperation::new("exportSession", "Writes a session out")
        .with_description(
            "Its state and history as one portable document, which `singletree sessions import` reads. Turns and events are no part of \
             it; neither is what a model thought, unless its agent's configuration shows it.",
        )
        .with_tag(TAG)
        .with_json_response::<native::SessionExport>(200, "The document.");
    let delete = ApiOperation::new("deleteSession", "Deletes a session")
        .with_description(
            "Its turns and its wait are cancelled, and everything of it is removed in one transaction. Forks of it stay. \
             Deleting again succeeds and changes nothing; a message that is sent later begins a new session.",
        )
        .with_tag(TAG)
        .with_empty_response(204, "There is no such session any more.")
        .without_not_found();
    vec![
        ApiRoute::post("/v1/sessions", create_session)
            .with_required_scope(Scope::Write)
            .with_operation(create),
        ApiRoute::get("/v1/sessions", list_sessions).with_required_scope(Scope::Read).with_operation(list),
        ApiRoute::get("/v1/sessions/{session}", show_session)
            .with_required_scope(Scope::Read)
            .with_operation(show),
        ApiRoute::get("/v1/sessions/{session}/export", export_session)
            .with_required_scope(Scope::Admin)
            .with_operation(export),
        ApiRoute::delete("/v1/sessions/{session}", delete_session)
            .with_required_scope(Scope::Admin)
            .with_operation(delete),
    ]
}

async fn create_session(
    telling: HandlerContext,
    JsonPayload(wanted): JsonPayload<native::CreateSession>,
) -> Result<Response, RequestProblem> {
    let mut options = CreateOptions::new();
    if let Some(policy) = wanted.prompt_policy {
        options = options.policy(convert::convert_prompt_policy(policy));
    }
    if let Some(id) = wanted.id {
        options = options.session(id);
    }
    if let Some(agent) = wanted.agent {
        options = options.agent(agent);
    }
    let made = telling
        .caller_chat()
        .create_session(options)
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let place = [(LOCATION, session_location(&made.session))];
    Ok((StatusCode::CREATED, place, Json(convert::convert_session(&made))).into_response())
}

async fn list_sessions(
    telling: HandlerContext,
    StrictQuery(query): StrictQuery<native::SessionQuery>,
) -> Result<Json<native::SessionList>, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?;
    let from = query.from.as_deref().filter(|from| !from.is_empty());
    let chat = telling.caller_chat();
    let list = match query.order {
        native::SessionOrder::Id => chat.sessions(from, limit).await,
        native::SessionOrder::Recent => chat.recent_sessions(from, limit).await,
    };
    let list = list.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let items = list.items.iter().map(convert::convert_session).collect();
    Ok(Json(native::SessionList { items, next: list.next }))
}

async fn show_session(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<native::Session>, RequestProblem> {
    let info = telling
        .caller_chat()
        .session(&session)
        .info()
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(Json(convert::convert_session(&info)))
}

async fn export_session(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, RequestProblem> {
    let export = telling
        .caller_chat()
        .session(&session)
        .export()
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let view = telling.load_visibility(&session).await?;
    let mut document = serde_json::to_value(export).expect("an export is JSON");
    if !view.thinking {
        remove_thinking(&mut document);
    }
    Ok(Json(document))
}

async fn delete_session(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<StatusCode, RequestProblem> {
    let deleted = telling.caller_chat().session(&session).delete(Some(&telling.caller.name)).await;
    deleted.map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(StatusCode::NO_CONTENT)
}
