//! The routes of keys and audit, in the native API's words.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use singletree_protocol::native::{
    ApiKey, AuditList, AuditQuery, CreateKey, KeyList, KeyOfTenant, KeyQuery, KeyScope, KeyWithSecret,
    RotateKey,
};

use super::keyring::NewKey;
use crate::body::JsonPayload;
use crate::caller::{RequestCaller, Scope};
use crate::native::{self, StrictQuery, resolve_page_limit};
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute, ProtocolSection};
use crate::shared::ServerState;

/// How long an old secret stays good, unless something else is said.
const GRACE: Duration = Duration::from_hours(24);
/// The longest that it may.
const GRACE_MAX: Duration = Duration::from_hours(30 * 24);
/// The longest time that a key may be good which has an end: ten years.
const LIFE_MAX: Duration = Duration::from_hours(10 * 365 * 24);

/// Returns the section of keys and audit.
pub(crate) fn build_section() -> ProtocolSection {
    let create_one = ApiOperation::new("createKey", "Makes a key")
        .with_description("The secret is shown in this answer and never again.")
        .with_tag("keys")
        .with_json_body::<CreateKey>()
        .with_json_response::<KeyWithSecret>(201, "The key and its secret.")
        .with_error_statuses(&[409]);
    let list_them = ApiOperation::new("listKeys", "Lists keys")
        .with_tag("keys")
        .with_query_type::<KeyQuery>()
        .with_json_response::<KeyList>(200, "A page of keys, without their secrets.");
    let rotate_one = ApiOperation::new("rotateKey", "Gives a key another secret")
        .with_description("The secret that it had stays good for a while, so that nothing stands still.")
        .with_tag("keys")
        .with_query_type::<KeyOfTenant>()
        .with_json_body::<RotateKey>()
        .with_json_response::<KeyWithSecret>(200, "The key and its new secret.");
    let revoke_one = ApiOperation::new("revokeKey", "Takes a key back")
        .with_description("For good, and from this moment on. Doing so again changes nothing.")
        .with_tag("keys")
        .with_query_type::<KeyOfTenant>()
        .with_json_response::<ApiKey>(200, "The key as it is now.");
    let list_deeds = ApiOperation::new("listAudit", "Lists who did what")
        .with_description("Keys, answers to what waits, deletions: the last one first.")
        .with_tag("audit")
        .with_query_type::<AuditQuery>()
        .with_json_response::<AuditList>(200, "A page of entries.");
    let routes = vec![
        ApiRoute::post("/v1/keys", create_key).with_required_scope(Scope::Admin).with_operation(create_one),
        ApiRoute::get("/v1/keys", list_keys).with_required_scope(Scope::Admin).with_operation(list_them),
        ApiRoute::post("/v1/keys/{key}/rotate", rotate_key)
            .with_required_scope(Scope::Admin)
            .with_operation(rotate_one),
        ApiRoute::delete("/v1/keys/{key}", revoke_key)
            .with_required_scope(Scope::Admin)
            .with_operation(revoke_one),
        ApiRoute::get("/v1/audit", list_audit_entries)
            .with_required_scope(Scope::Admin)
            .with_operation(list_deeds),
    ];
    ProtocolSection::new("keys", native::render_problem, routes)
}

async fn create_key(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    JsonPayload(asked): JsonPayload<CreateKey>,
) -> Result<Response, RequestProblem> {
    let tenant = caller.resolve_tenant(asked.tenant.as_deref())?;
    let usual = || vec![KeyScope::Read, KeyScope::Write, KeyScope::Approve];
    let expires_in = asked.expires_in.map(Duration::from_secs);
    if expires_in.is_some_and(|expires_in| expires_in.is_zero() || expires_in > LIFE_MAX) {
        return Err(RequestProblem::invalid_request("expires_in is from a second to ten years")
            .with_field("expires_in"));
    }
    let new = NewKey {
        name: asked.name.unwrap_or_else(|| "key".to_owned()),
        scopes: asked.scopes.unwrap_or_else(usual),
        expires_in,
    };
    let (key, secret) = shared.access.keyring().create_key(&tenant, new, &caller.name).await?;
    let created = KeyWithSecret { key, secret: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

async fn list_keys(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    StrictQuery(query): StrictQuery<KeyQuery>,
) -> Result<Json<KeyList>, RequestProblem> {
    let tenant = caller.resolve_tenant(query.tenant.as_deref())?;
    let limit = resolve_page_limit(query.limit)?;
    Ok(Json(shared.access.keyring().list_keys(&tenant, query.from.as_deref(), limit).await?))
}

async fn rotate_key(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(id): Path<String>,
    StrictQuery(query): StrictQuery<KeyOfTenant>,
    JsonPayload(asked): JsonPayload<RotateKey>,
) -> Result<Json<KeyWithSecret>, RequestProblem> {
    let tenant = caller.resolve_tenant(query.tenant.as_deref())?;
    let grace = asked.grace.map_or(GRACE, Duration::from_secs);
    if grace > GRACE_MAX {
        return Err(RequestProblem::invalid_request("grace is 30 days at most").with_field("grace"));
    }
    let (key, secret) = shared.access.keyring().rotate_key(&tenant, &id, grace, &caller.name).await?;
    Ok(Json(KeyWithSecret { key, secret: secret.expose().to_owned() }))
}

async fn revoke_key(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(id): Path<String>,
    StrictQuery(query): StrictQuery<KeyOfTenant>,
) -> Result<Json<ApiKey>, RequestProblem> {
    let tenant = caller.resolve_tenant(query.tenant.as_deref())?;
    Ok(Json(shared.access.keyring().revoke_key(&tenant, &id, &caller.name).await?))
}

async fn list_audit_entries(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    StrictQuery(query): StrictQuery<AuditQuery>,
) -> Result<Json<AuditList>, RequestProblem> {
    let tenant = caller.resolve_tenant(query.tenant.as_deref())?;
    let limit = resolve_page_limit(query.limit)?;
    Ok(Json(shared.audit.list_entries(&tenant, query.from.as_deref(), limit).await?))
}
