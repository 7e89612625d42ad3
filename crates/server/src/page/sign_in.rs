//! Signing in on the page, and out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::body::JsonPayload;
use crate::caller::Caller;
use crate::keys::is_secure;
use crate::problem::RequestProblem;
use crate::section::ApiRoute;
use crate::shared::ServerState;

/// Returns the routes of signing in and out.
pub(super) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("/page/sign-in", signed_in).open(),
        ApiRoute::post("/page/sign-in", sign_in).open(),
        ApiRoute::post("/page/sign-out", sign_out).open(),
    ]
}

/// The body of a sign-in request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInRequest {
    key: String,
}

/// Tells the page whether its cookie stands for a key that is still good: then it offers to sign out.
async fn signed_in(State(shared): State<Arc<ServerState>>, headers: HeaderMap) -> Json<serde_json::Value> {
    let caller = shared.access.page_sessions().caller(&headers).await;
    Json(serde_json::json!({ "signed_in": matches!(caller, Ok(Some(_))) }))
}

async fn sign_in(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
    JsonPayload(shown): JsonPayload<SignInRequest>,
) -> Result<Response, RequestProblem> {
    let admit = |caller: &Caller| {
        shared.quotas.admit_sign_in(caller).map_err(|error| RequestProblem::quota_exceeded(&error))
    };
    let cookie = shared.access.page_sessions().begin(&shown.key, is_secure(&headers), admit).await?;
    Ok(([(SET_COOKIE, cookie)], Json(serde_json::json!({}))).into_response())
}

async fn sign_out(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
) -> Result<Response, RequestProblem> {
    let cookie = shared.access.page_sessions().end(&headers, is_secure(&headers)).await?;
    Ok((StatusCode::OK, [(SET_COOKIE, cookie)], Json(serde_json::json!({}))).into_response())
}
