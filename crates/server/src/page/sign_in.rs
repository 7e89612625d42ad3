//! Signing in on the page, and out.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::body::Sent;
use crate::caller::Caller;
use crate::keys::is_secure;
use crate::problem::Problem;
use crate::section::Route;
use crate::shared::Shared;

/// Returns the routes of signing in and out.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/page/sign-in", signed_in).open(),
        Route::post("/page/sign-in", sign_in).open(),
        Route::post("/page/sign-out", sign_out).open(),
    ]
}

/// The body of a sign-in request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    key: String,
}

/// Tells the page whether its cookie stands for a key that is still good: then it offers to sign out.
async fn signed_in(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Json<serde_json::Value> {
    let caller = shared.access.page_sessions().caller(&headers).await;
    Json(serde_json::json!({ "signed_in": matches!(caller, Ok(Some(_))) }))
}

async fn sign_in(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Sent(shown): Sent<Shown>,
) -> Result<Response, Problem> {
    let admit = |caller: &Caller| {
        shared.quotas.admit_sign_in(caller).map_err(|error| Problem::quota_exceeded(&error))
    };
    let cookie = shared.access.page_sessions().begin(&shown.key, is_secure(&headers), admit).await?;
    Ok(([(SET_COOKIE, cookie)], Json(serde_json::json!({}))).into_response())
}

async fn sign_out(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Result<Response, Problem> {
    let cookie = shared.access.page_sessions().end(&headers, is_secure(&headers)).await?;
    Ok((StatusCode::OK, [(SET_COOKIE, cookie)], Json(serde_json::json!({}))).into_response())
}
