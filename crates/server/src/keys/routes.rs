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
use crate::native::{self, StrictQuery, limit};
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
pub(crate) fn section() -> ProtocolSection {
    let create_one = ApiOperation::new("createKey", "Makes a key")
        .about("The secret is shown in this answer and never again.")
        .tag("keys")
        .body::<CreateKey>()
        .answers::<KeyWithSecret>(201, "The key and its secret.")
        .fails(&[409]);
    let list_them = ApiOperation::new("listKeys", "Lists keys")
        .tag("keys")
        .query::<KeyQuery>()
        .answers::<KeyList>(200, "A page of keys, without their secrets.");
    let rotate_one = ApiOperation::new("rotateKey", "Gives a key another secret")
        .about("The secret that it had stays good for a while, so that nothing stands still.")
        .tag("keys")
        .query::<KeyOfTenant>()
        .body::<RotateKey>()
        .answers::<KeyWithSecret>(200, "The key and its new secret.");
    let revoke_one = ApiOperation::new("revokeKey", "Takes a key back")
        .about("For good, and from this moment on. Doing so again changes nothing.")
        .tag("keys")
        .query::<KeyOfTenant>()
        .answers::<ApiKey>(200, "The key as it is now.");
    let list_deeds = ApiOperation::new("listAudit", "Lists who did what")
        .about("Keys, answers to what waits, deletions: the last one first.")
        .tag("audit")
        .query::<AuditQuery>()
        .answers::<AuditList>(200, "A page of entries.");
    let routes = vec![
        ApiRoute::post("/v1/keys", create).needs(Scope::Admin).documented(create_one),
        ApiRoute::get("/v1/keys", list).needs(Scope::Admin).documented(list_them),
        ApiRoute::post("/v1/keys/{key}/rotate", rotate).needs(Scope::Admin).documented(rotate_one),
        ApiRoute::delete("/v1/keys/{key}", revoke).needs(Scope::Admin).documented(revoke_one),
        ApiRoute::get("/v1/audit", audit).needs(Scope::Admin).documented(list_deeds),
    ];
    ProtocolSection::new("keys", native::render, routes)
}

async fn create(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    JsonPayload(asked): JsonPayload<CreateKey>,
) -> Result<Response, RequestProblem> {
    let tenant = caller.acting_for(asked.tenant.as_deref())?;
    let usual = || vec![KeyScope::Read, KeyScope::Write, KeyScope::Approve];
    let expires_in = asked.expires_in.map(Duration::from_secs);
    if expires_in.is_some_and(|expires_in| expires_in.is_zero() || expires_in > LIFE_MAX) {
        return Err(RequestProblem::invalid("expires_in is from a second to ten years").field("expires_in"));
    }
    let new = NewKey {
        name: asked.name.unwrap_or_else(|| "key".to_owned()),
        scopes: asked.scopes.unwrap_or_else(usual),
        expires_in,
    };
    let (key, secret) = shared.access.keyring().create(&tenant, new, &caller.name).await?;
    let created = KeyWithSecret { key, secret: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}

async fn list(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    StrictQuery(query): StrictQuery<KeyQuery>,
) -> Result<Json<KeyList>, RequestProblem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    let limit = limit(query.limit)?;
    Ok(Json(shared.access.keyring().list(&tenant, query.from.as_deref(), limit).await?))
}

async fn rotate(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(id): Path<String>,
    StrictQuery(query): StrictQuery<KeyOfTenant>,
    JsonPayload(asked): JsonPayload<RotateKey>,
) -> Result<Json<KeyWithSecret>, RequestProblem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    let grace = asked.grace.map_or(GRACE, Duration::from_secs);
    if grace > GRACE_MAX {
        return Err(RequestProblem::invalid("grace is 30 days at most").field("grace"));
    }
    let (key, secret) = shared.access.keyring().rotate(&tenant, &id, grace, &caller.name).await?;
    Ok(Json(KeyWithSecret { key, secret: secret.expose().to_owned() }))
}

async fn revoke(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(id): Path<String>,
    StrictQuery(query): StrictQuery<KeyOfTenant>,
) -> Result<Json<ApiKey>, RequestProblem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    Ok(Json(shared.access.keyring().revoke(&tenant, &id, &caller.name).await?))
}

async fn audit(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    StrictQuery(query): StrictQuery<AuditQuery>,
) -> Result<Json<AuditList>, RequestProblem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    let limit = limit(query.limit)?;
    Ok(Json(shared.audit.list(&tenant, query.from.as_deref(), limit).await?))
}
