//! The routes of keys and audit, in the native API's words.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use singletree_protocol::native::{
    ApiKey, AuditList, AuditQuery, CreateKey, KeyList, KeyQuery, KeyScope, KeyWithSecret, RotateKey,
};

use super::keyring::NewKey;
use crate::caller::{By, Scope};
use crate::problem::Problem;
use crate::section::{Operation, Route, Section};
use crate::shared::Shared;
use crate::{body, native};

/// How many entries a page has, unless something else is asked for, and at most.
const PAGE: (u64, u64) = (100, 1000);

/// How long an old secret stays good, unless something else is said.
const GRACE: Duration = Duration::from_hours(24);

/// Returns the section of keys and audit.
pub(crate) fn section() -> Section {
    let keys = |operation: Operation| operation.tag("keys");
    let routes = vec![
        Route::post("/v1/keys", create).needs(Scope::Admin).documented(
            keys(Operation::new("createKey", "Makes a key"))
                .about("The secret is shown in this answer and never again.")
                .body::<CreateKey>()
                .answers::<KeyWithSecret>(201, "The key and its secret.")
                .fails(&[409]),
        ),
        Route::get("/v1/keys", list).needs(Scope::Admin).documented(
            keys(Operation::new("listKeys", "Lists keys")).query::<KeyQuery>().answers::<KeyList>(200, "A page of keys."),
        ),
        Route::post("/v1/keys/{key}/rotate", rotate).needs(Scope::Admin).documented(
            keys(Operation::new("rotateKey", "Gives a key another secret"))
                .about("The old secret stays good for a while, so that nothing stands still.")
                .body::<RotateKey>()
                .answers::<KeyWithSecret>(200, "The key and its new secret."),
        ),
        Route::delete("/v1/keys/{key}", revoke).needs(Scope::Admin).documented(
            keys(Operation::new("revokeKey", "Takes a key back"))
                .query::<KeyQuery>()
                .answers::<ApiKey>(200, "The key as it is now."),
        ),
        Route::get("/v1/audit", audit).needs(Scope::Admin).documented(
            Operation::new("listAudit", "Lists who did what")
                .tag("audit")
                .about("Keys, answers to what waits, deletions: the last one first.")
                .query::<AuditQuery>()
                .answers::<AuditList>(200, "A page of entries."),
        ),
    ];
    Section::new("keys", native::render, routes)
}

async fn create(State(shared): State<Arc<Shared>>, By(caller): By, bytes: Bytes) -> Result<Response, Problem> {
    let asked: CreateKey = body::json_or_default(&bytes)?;
    let tenant = caller.acting_for(asked.tenant.as_deref())?;
    let usual = || vec![KeyScope::Read, KeyScope::Write, KeyScope::Approve];
    let new = NewKey {
        name: asked.name.unwrap_or_else(|| "key".to_owned()),
        scopes: asked.scopes.unwrap_or_else(usual),
        expires_in: asked.expires_in.map(|it| bounded(it, "expires_in", (1, 315_360_000))).transpose()?,
    };
    let (key, secret) = shared.access.keyring().create(&tenant, new, &caller.name).await?;
    let created = KeyWithSecret { key, secret: secret.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(created)).into_response())
}
