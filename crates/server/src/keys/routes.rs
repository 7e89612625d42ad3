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
use crate::body::Sent;
use crate::caller::{By, Scope};
use crate::native::{self, Params, limit};
use crate::problem::Problem;
use crate::section::{Operation, Route, Section};
use crate::shared::Shared;

/// How long an old secret stays good, unless something else is said.
const GRACE: Duration = Duration::from_hours(24);
/// The longest that it may.
const GRACE_MAX: Duration = Duration::from_hours(30 * 24);
/// The longest time that a key may be good which has an end: ten years.
const LIFE_MAX: Duration = Duration::from_hours(10 * 365 * 24);

/// Returns the section of keys and audit.
pub(crate) fn section() -> Section {
    let create_one = Operation::new("createKey", "Makes a key")
        .about("The secret is shown in this answer and never again.")
        .tag("keys")
        .body::<CreateKey>()
        .answers::<KeyWithSecret>(201, "The key and its secret.")
        .fails(&[409]);
    let list_them = Operation::new("listKeys", "Lists keys")
        .tag("keys")
        .query::<KeyQuery>()
        .answers::<KeyList>(200, "A page of keys, without their secrets.");
    let rotate_one = Operation::new("rotateKey", "Gives a key another secret")
        .about("The secret that it had stays good for a while, so that nothing stands still.")
        .tag("keys")
        .query::<KeyOfTenant>()
        .body::<RotateKey>()
        .answers::<KeyWithSecret>(200, "The key and its new secret.");
    let revoke_one = Operation::new("revokeKey", "Takes a key back")
        .about("For good, and from this moment on. Doing so again changes nothing.")
        .tag("keys")
        .query::<KeyOfTenant>()
        .answers::<ApiKey>(200, "The key as it is now.");
    let list_deeds = Operation::new("listAudit", "Lists who did what")
        .about("Keys, answers to what waits, deletions: the last one first.")
        .tag("audit")
        .query::<AuditQuery>()
        .answers::<AuditList>(200, "A page of entries.");
    let routes = vec![
        Route::post("/v1/keys", create).needs(Scope::Admin).documented(create_one),
        Route::get("/v1/keys", list).needs(Scope::Admin).documented(list_them),
        Route::post("/v1/keys/{key}/rotate", rotate).needs(Scope::Admin).documented(rotate_one),
        Route::delete("/v1/keys/{key}", revoke).needs(Scope::Admin).documented(revoke_one),
        Route::get("/v1/audit", audit).needs(Scope::Admin).documented(list_deeds),
    ];
    Section::new("keys", native::render, routes)
}

async fn create(
    State(shared): State<Arc<Shared>>,
    By(caller): By,
    Sent(asked): Sent<CreateKey>,
) -> Result<Response, Problem> {
    let tenant = caller.acting_for(asked.tenant.as_deref())?;
    let usual = || vec![KeyScope::Read, KeyScope::Write, KeyScope::Approve];
    let expires_in = asked.expires_in.map(Duration::from_secs);
    if expires_in.is_some_and(|expires_in| expires_in.is_zero() || expires_in > LIFE_MAX) {
        return Err(Problem::invalid("expires_in is from a second to ten years").field("expires_in"));
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
    State(shared): State<Arc<Shared>>,
    By(caller): By,
    Params(query): Params<KeyQuery>,
) -> Result<Json<KeyList>, Problem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    let limit = limit(query.limit)?;
    Ok(Json(shared.access.keyring().list(&tenant, query.from.as_deref(), limit).await?))
}

async fn rotate(
    State(shared): State<Arc<Shared>>,
    By(caller): By,
    Path(id): Path<String>,
    Params(query): Params<KeyOfTenant>,
    Sent(asked): Sent<RotateKey>,
) -> Result<Json<KeyWithSecret>, Problem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    let grace = asked.grace.map_or(GRACE, Duration::from_secs);
    if grace > GRACE_MAX {
        return Err(Problem::invalid("grace is 30 days at most").field("grace"));
    }
    let (key, secret) = shared.access.keyring().rotate(&tenant, &id, grace, &caller.name).await?;
    Ok(Json(KeyWithSecret { key, secret: secret.expose().to_owned() }))
}

async fn revoke(
    State(shared): State<Arc<Shared>>,
    By(caller): By,
    Path(id): Path<String>,
    Params(query): Params<KeyOfTenant>,
) -> Result<Json<ApiKey>, Problem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    Ok(Json(shared.access.keyring().revoke(&tenant, &id, &caller.name).await?))
}

async fn audit(
    State(shared): State<Arc<Shared>>,
    By(caller): By,
    Params(query): Params<AuditQuery>,
) -> Result<Json<AuditList>, Problem> {
    let tenant = caller.acting_for(query.tenant.as_deref())?;
    let limit = limit(query.limit)?;
    Ok(Json(shared.audit.list(&tenant, query.from.as_deref(), limit).await?))
}
