//! The routes of pairing: under the engine's own path, and under the paths of the guide.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use singletree_durable::{SessionId, Timestamp};
use singletree_protocol::native::KeyScope;
use singletree_protocol::openharness::{
    Malformed, PairClaim, PairConfirm, PairCreate, PairCreated, PairRevoke, Paired, parse_json_object,
};

use super::devices::{ConfirmedPairing, DevicePairingState, PairingStoreError};
use super::told::{PairingRefusal, success_response};
use super::{attempts, devices};
use crate::body::has_json_content_type;
use crate::caller::{RequestCaller, Scope};
use crate::keys::{KeyAuditEntry, NewKey};
use crate::problem::RequestProblem;
use crate::section::ApiRoute;
use crate::shared::ServerState;

/// The maximum length of a device's name, in bytes; a longer one is cut.
const NAME_BYTES: usize = 64;

/// Returns the routes.
pub(in crate::openharness) fn pairing_routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::post("/v1/openharness/pair/create", create_pairing).allow_anonymous(),
        ApiRoute::post("/v1/openharness/pair/confirm", confirm_pairing).with_required_scope(Scope::Admin),
        ApiRoute::post("/v1/openharness/pair/claim", claim_pairing).allow_anonymous(),
        ApiRoute::post("/v1/openharness/pair/revoke", revoke_device).with_required_scope(Scope::Admin),
        ApiRoute::post("/pair/create", create_pairing).allow_anonymous(),
        ApiRoute::post("/pair/confirm", confirm_pairing).with_required_scope(Scope::Admin),
        ApiRoute::post("/pair/claim", claim_pairing).allow_anonymous(),
        ApiRoute::post("/pair/revoke", revoke_device).with_required_scope(Scope::Admin),
    ]
}

impl IntoResponse for PairingStoreError {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(refusal) => refusal.into_response(),
            Self::Failed(problem) => problem.into_response(),
        }
    }
}

async fn create_pairing(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, PairingStoreError> {
    let mut asked: PairCreate = read_json_body(&headers, &body)?;
    asked.device_name =
        asked.device_name.map(|device_name| clean_device_name(&device_name)).filter(|it| !it.is_empty());
    let made = devices::make_pairing_code(&shared, &asked).await?;
    Ok(success_response(&PairCreated {
        code: made.code,
        pairing_id: made.id,
        expires_at: format_timestamp(made.until),
        expires_in_sec: made.until.duration_since(shared.now()).as_secs(),
    }))
}

async fn confirm_pairing(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, PairingStoreError> {
    let asked: PairConfirm = read_json_body(&headers, &body)?;
    let tenant = caller.resolve_tenant(asked.tenant_id.as_deref())?;
    let scopes = read_key_scopes(asked.scopes.as_deref())?;
    let session = asked.session_id.map(SessionId::parse).transpose();
    let session = session
        .map_err(|error| PairingRefusal::Field(Malformed::at_field("session_id", error.to_string())))?;
    if !attempts::can_try_code(&shared, &caller.tenant).await? {
        return Err(PairingRefusal::Attempts.into());
    }
    let found = match devices::find_pairing_code(&shared, &asked.code).await {
        Ok(found) => found,
        Err(unable) => {
            if matches!(unable, PairingStoreError::Refused(_)) {
                attempts::count_wrong_code(&shared, &caller.tenant).await?;
            }
            return Err(unable);
        }
    };
    let new = NewKey { name: format!("device {}", found.device_name()), scopes, expires_in: None };
    let confirmed = |key: &str| ConfirmedPairing {
        tenant: tenant.clone(),
        key: key.to_owned(),
        session: session.as_ref().map_or_else(|| format!("device-{key}"), ToString::to_string),
    };
    // One commit for the used code, the key, the state of the device and the audit entry: all of it or none.
    let beside = |key: &str| {
        let confirmed = confirmed(key);
        let deed = KeyAuditEntry::new(&caller.name, "device.paired", key)
            .with_detail("session", confirmed.session.as_str());
        let mut changes = found.into_confirm_changes(confirmed, shared.now());
        changes.push(shared.audit.build_entry_change(&tenant, deed));
        changes
    };
    let keyring = shared.access.keyring();
    let (key, secret) = keyring.create_key_with(&tenant, new, &caller.name, beside).await?;
    Ok(success_response(&build_paired_reply(confirmed(&key.id), secret.expose())))
}

async fn claim_pairing(
    State(shared): State<Arc<ServerState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, PairingStoreError> {
    let asked: PairClaim = read_json_body(&headers, &body)?;
    let fingerprint = asked.device_fingerprint.as_deref();
    match devices::claim_device_state(&shared, &asked.pairing_id, fingerprint).await? {
        DevicePairingState::Waiting(until) => Ok(success_response(
            &json!({ "state": "waiting", "expires_at": until.map_or(Value::Null, |until| format_timestamp(until).into()) }),
        )),
        DevicePairingState::Confirmed(confirmed, once) => {
            // From here on only the device knows the secret.
            let by = format!("device {}", confirmed.key);
            let keyring = shared.access.keyring();
            let (tenant, key) = (&confirmed.tenant, &confirmed.key);
            let (_, secret) = keyring.rotate_key_with(tenant, (key, Duration::ZERO), &by, vec![once]).await?;
            Ok(success_response(&build_paired_reply(confirmed, secret.expose())))
        }
    }
}

async fn revoke_device(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, PairingStoreError> {
    let asked: PairRevoke = read_json_body(&headers, &body)?;
    let tenant = caller.resolve_tenant(asked.tenant_id.as_deref())?;
    let key = shared.access.keyring().revoke_key(&tenant, &asked.device_id, &caller.name).await?;
    Ok(success_response(&json!({ "device_id": key.id, "state": "revoked" })))
}

fn build_paired_reply(confirmed: ConfirmedPairing, secret: &str) -> Paired {
    Paired {
        access_token: secret.to_owned(),
        session_id: confirmed.session,
        credential_ref: confirmed.key.clone(),
        device_id: confirmed.key,
        tenant_id: confirmed.tenant.to_string(),
    }
}

fn read_json_body<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, PairingStoreError> {
    if !has_json_content_type(headers) {
        return Err(RequestProblem::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE).into());
    }
    parse_json_object(body).map_err(|malformed| match malformed.field {
        None => PairingRefusal::Json.into(),
        Some(_) => PairingRefusal::Field(malformed).into(),
    })
}

fn read_key_scopes(named: Option<&[String]>) -> Result<Vec<KeyScope>, PairingStoreError> {
    let Some(named) = named else { return Ok(vec![KeyScope::Read, KeyScope::Write]) };
    let wrong = || {
        PairingStoreError::from(PairingRefusal::Field(Malformed::at_field(
            "scopes",
            "names a scope that there is not",
        )))
    };
    named.iter().map(|item| serde_json::from_value(Value::from(item.as_str())).map_err(|_| wrong())).collect()
}

/// Returns a device's name without control characters, and not too long for a list.
fn clean_device_name(asked: &str) -> String {
    let plain: String = asked.chars().filter(|letter| !letter.is_control()).collect();
    let end = plain.char_indices().map(|(at, _)| at).find(|at| *at >= NAME_BYTES).unwrap_or(plain.len());
    plain[..end].trim().to_owned()
}

fn format_timestamp(at: Timestamp) -> String {
    humantime::format_rfc3339_millis(at.to_system_time()).to_string()
}
