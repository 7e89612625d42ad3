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
use crate::keys::is_reached_over_tls;
use crate::problem::RequestProblem;
use crate::section::ApiRoute;
use crate::shared::ServerState;

/// Returns the routes of signing in and out.
pub(super) fn sign_in_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("/page/sign-in", show_sign_in_state).allow_anonymous(),
        ApiRoute::post("/page/sign-in", sign_in_with_key).allow_anonymous(),
        ApiRoute::post("/page/sign-out", sign_out).allow_anonymous(),
    ]
}

/// The body of a sign-in request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInRequest {
    key: String,
}

/// Tells the page whether its cookie stands for a key that is still good: then it offers to sign out.
async fn show_sign_in_state(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
) -> Json<serde_json::Value> {
    let caller = shared.access.page_sessions().authenticate_cookie(&headers).await;
    Json(serde_json::json!({ "signed_in": matches!(caller, Ok(Some(_))) }))
}

async fn sign_in_with_key(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
    JsonPayload(shown): JsonPayload<SignInRequest>,
) -> Result<Response, RequestProblem> {
    let admit = |caller: &Caller| {
        shared.quotas.admit_sign_in(caller).map_err(|error| RequestProblem::quota_exceeded(&error))
    };
    let cookie =
        shared.access.page_sessions().begin_session(&shown.key, is_reached_over_tls(&headers), admit).await?;
    Ok(([(SET_COOKIE, cookie)], Json(serde_json::json!({}))).into_response())
}

async fn sign_out(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
) -> Result<Response, RequestProblem> {
    let cookie = shared.access.page_sessions().end_session(&headers, is_reached_over_tls(&headers)).await?;
    Ok((StatusCode::OK, [(SET_COOKIE, cookie)], Json(serde_json::json!({}))).into_response())
}
