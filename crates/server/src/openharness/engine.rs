//! The processing of one request: it is read, admitted, and answered once.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::HeaderMap;
use axum::response::Response;
use serde_json::Value;
use singletree_durable::{DocumentChange, Error as StoreError, SessionId, Timestamp};
use singletree_harness::Chat;
use singletree_protocol::openharness::{ErrorCode, RequestMessage, ResponsePayload};

use super::admission::{self, AdmittedShellRequest, RequestPurpose};
use super::failure::EngineErrorResponse;
use super::ledger::{self, OpenRequestEntry, RequestArrival};
use super::negotiation::{NegotiatedTerms, negotiate_terms};
use super::opening::{ReturnableRequestIds, check_protocol_version};
use super::{answer, deciding, saying, showing};
use crate::body::has_json_content_type;
use crate::caller::{Caller, RequestCaller};
use crate::problem::{RequestProblem, RequestProblemKind};
use crate::shared::ServerState;

/// The maximum number of attempts at a request while other requests settle the same entry.
const ATTEMPTS: u32 = 8;

/// The context of one request: the caller, its chat, and the negotiated terms.
pub(super) struct ShellRequestContext<'a> {
    pub(super) shared: &'a ServerState,
    pub(super) caller: &'a Caller,
    pub(super) chat: Chat,
    pub(super) terms: &'a NegotiatedTerms,
}

/// The result of executing a request.
#[derive(Debug)]
pub(super) struct ExecutedRequest {
    pub(super) payload: ResponsePayload,
    /// The harness's session of the request.
    pub(super) session: Option<String>,
    /// The changes to commit before the answer is sent.
    pub(super) changes: Vec<DocumentChange>,
    pub(super) keep: RequestReplayPolicy,
}

/// The treatment of the same request when it comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestReplayPolicy {
    /// The same answer.
    Answer,
    /// It joins the turn that has begun, and gets its outcome.
    Nothing,
    /// It is executed as if it had not come before.
    Free,
}

impl ShellRequestContext<'_> {
    /// Removes secrets from a text (INV-16).
    pub(super) fn redact_text(&self, text: &str) -> String {
        self.shared.redactor.redact(text).into_owned()
    }

    /// Removes secrets from the message of a failure.
    pub(super) fn redact_failure(&self, mut failure: EngineErrorResponse) -> EngineErrorResponse {
        failure.error.message = failure.error.message.map(|message| self.redact_text(&message));
        failure
    }

    /// Returns the time after this duration from now.
    pub(super) fn time_after(&self, span: Duration) -> Timestamp {
        self.shared.now().saturating_add(span)
    }

    /// Checks whether a time has passed.
    pub(super) fn has_passed(&self, end: Option<Timestamp>) -> bool {
        end.is_some_and(|end| end <= self.shared.now())
    }
}

/// `POST /v1/openharness`.
pub(super) async fn answer_shell_message(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, RequestProblem> {
    let began = shared.now();
    if !has_json_content_type(&headers) {
        return Err(RequestProblem::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    let message: Value =
        serde_json::from_slice(&body).map_err(|_| RequestProblem::invalid_request("the body is not JSON"))?;
    if !message.is_object() {
        return Err(RequestProblem::invalid_request("the body is not an object"));
    }
    let opening = ReturnableRequestIds::from_message(&message);
    let (terms, read) = read_shell_request(&message, &body, &caller);
    let asking = ShellRequestContext {
        shared: &shared,
        caller: &caller,
        chat: shared.chat_of_caller(&caller),
        terms: &terms,
    };
    let answered = match read {
        Ok(admitted) => answer_once(&asking, &opening, &admitted, began).await,
        Err(failure) => Err(failure),
    };
    match answered {
        Ok(body) => Ok(answer::build_response(StatusCode::OK, body, &opening, &headers)),
        Err(failure) => {
            let refusal = failure.as_body_refusal(opening.request_id.is_some());
            let EngineErrorResponse { status, error } = asking.redact_failure(failure);
            let body = answer::encode_envelope(&opening, &terms, ResponsePayload::error(error));
            let mut refused = answer::build_response(status, body, &opening, &headers);
            refused.extensions_mut().insert(refusal);
            Ok(refused)
        }
    }
}

/// Reads a message: its terms as soon as they are known, and the admitted request.
fn read_shell_request(
    message: &Value,
    body: &[u8],
    caller: &Caller,
) -> (NegotiatedTerms, Result<AdmittedShellRequest, EngineErrorResponse>) {
    if let Err(failure) = check_protocol_version(message) {
        return (NegotiatedTerms::default(), Err(failure));
    }
    let request = match RequestMessage::from_json_bytes(body) {
        Ok(request) => request,
        Err(malformed) => return (NegotiatedTerms::default(), Err(malformed.into())),
    };
    let terms = negotiate_terms(request.capabilities.as_ref(), caller);
    let checked = check_tenant(&request, caller);
    (terms, checked.and_then(|()| admission::admit_request(&request, message).map_err(Into::into)))
}

/// Refuses a message that names another tenant than the credentials do (§7). A server without keys accepts any name.
fn check_tenant(request: &RequestMessage, caller: &Caller) -> Result<(), EngineErrorResponse> {
    let said = request.request.auth.as_ref().and_then(|auth| auth.tenant_id.as_deref());
    match said {
        Some(said) if said != caller.tenant.as_str() && *caller != Caller::local() => {
            let field = "auth.tenant_id";
            Err(RequestProblem::from_kind(RequestProblemKind::Forbidden, "the key is not of this tenant")
                .with_field(field)
                .into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Answers a request, once if it has an id.
async fn answer_once(
    asking: &ShellRequestContext<'_>,
    opening: &ReturnableRequestIds,
    admitted: &AdmittedShellRequest,
    began: Timestamp,
) -> Result<Vec<u8>, EngineErrorResponse> {
    // Where another request has removed the entry meanwhile, the session stays the same: the turn is there.
    let mut session = None;
    for _ in 0..ATTEMPTS {
        let (entry, is_begun_here) = match &opening.request_id {
            None => (None, false),
            Some(id) => {
                let fresh = || session.clone().or_else(|| make_session_id(asking, admitted));
                match ledger::find_or_begin_entry(asking, id, admitted, fresh).await? {
                    RequestArrival::Answered(answer) => return Ok(answer),
                    RequestArrival::Begun(entry) => (Some(entry), true),
                    RequestArrival::Open(entry) => (Some(entry), false),
                }
            }
        };
        session = entry.as_ref().and_then(OpenRequestEntry::session_id).map(ToOwned::to_owned);
        let done = execute_request(asking, opening, admitted, entry.as_ref()).await;
        let mut done = match done {
            Ok(done) => done,
            Err(failure) => {
                // Nothing was accepted: the id can be used again, unless the same request is executed elsewhere.
                remove_open_entry(asking, entry.as_ref().filter(|_| is_begun_here)).await;
                return Err(failure);
            }
        };
        let millis = asking.shared.now().duration_since(began).as_millis();
        done.payload.engine_latency_ms = Some(u64::try_from(millis).unwrap_or(u64::MAX).into());
        if let Some(answer) = commit_answer(asking, opening, done, entry.as_ref()).await? {
            return Ok(answer);
        }
    }
    Err(EngineErrorResponse::from_code(
        ErrorCode::EngineUnavailable,
        "too much happens to this request at once",
    ))
}

/// Returns an id for a new session, if the wish needs a session.
fn make_session_id(asking: &ShellRequestContext<'_>, admitted: &AdmittedShellRequest) -> Option<String> {
    match admitted.wish {
        RequestPurpose::Say(_) => {
            let session_id = Some(asking.shared.ids.generate_uuid());
            admission::ShellThreadRef { session_id, ..admitted.place.clone() }.to_session_id()
        }
        RequestPurpose::Decide { .. } | RequestPurpose::Show { .. } => None,
    }
}

async fn execute_request(
    asking: &ShellRequestContext<'_>,
    opening: &ReturnableRequestIds,
    admitted: &AdmittedShellRequest,
    entry: Option<&OpenRequestEntry>,
) -> Result<ExecutedRequest, EngineErrorResponse> {
    let named = entry
        .and_then(OpenRequestEntry::session_id)
        .map(ToOwned::to_owned)
        .or_else(|| admitted.place.to_session_id());
    match &admitted.wish {
        RequestPurpose::Say(saying) => {
            let session = named.or_else(|| make_session_id(asking, admitted)).unwrap_or_default();
            let environment = admitted.environment.as_ref();
            saying::send_person_message(
                asking,
                &session,
                saying,
                (opening.request_id.as_deref(), environment),
            )
            .await
        }
        RequestPurpose::Decide { token, run_id } => {
            deciding::decide_by_token(
                asking,
                (token, run_id.as_deref()),
                admitted.place.to_session_id().as_deref(),
            )
            .await
        }
        RequestPurpose::Show { run_id } => {
            showing::show_run_state(asking, run_id, admitted.place.to_session_id().as_deref()).await
        }
    }
}

/// Commits the changes and returns the answer; `None` if another request has settled the entry meanwhile.
async fn commit_answer(
    asking: &ShellRequestContext<'_>,
    opening: &ReturnableRequestIds,
    done: ExecutedRequest,
    entry: Option<&OpenRequestEntry>,
) -> Result<Option<Vec<u8>>, EngineErrorResponse> {
    let ExecutedRequest { payload, session, mut changes, keep } = done;
    let answer = answer::encode_envelope(opening, asking.terms, payload);
    let session = session.and_then(|session| SessionId::parse(session).ok());
    match (entry, keep) {
        (Some(entry), RequestReplayPolicy::Answer) => {
            changes.push(entry.build_answer_change(asking, &answer, session.as_ref()))
        }
        (Some(entry), RequestReplayPolicy::Free) => changes.push(entry.build_removal_change()),
        (Some(_), RequestReplayPolicy::Nothing) | (None, _) => {}
    }
    if changes.is_empty() {
        return Ok(Some(answer));
    }
    match asking.shared.documents.change_documents(changes).await {
        Ok(()) => Ok(Some(answer)),
        Err(StoreError::Refused { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn remove_open_entry(asking: &ShellRequestContext<'_>, entry: Option<&OpenRequestEntry>) {
    if let Some(entry) = entry {
        // If this fails, the entry stays without an answer: the same request is executed, another one with its id is
        // refused.
        drop(asking.shared.documents.change_documents(vec![entry.build_removal_change()]).await);
    }
}
