//! The stored answers of requests: the same request gets the same bytes again (spec: OpenHarness §5.1; D3).
//!
//! A request with an id has an entry before it is executed, with its session, also if that session is new. The answer
//! is added later. The same request in between joins the running turn by the harness's own idempotency key. If two of
//! them add an answer, the first one wins. The answer contains tokens, so it is encrypted with a key made from the
//! request.

use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, Error as StoreError, JsonDocument, SessionId,
    StoredDocument,
};
use singletree_protocol::openharness::ErrorCode;

use super::admission::AdmittedShellRequest;
use super::engine::ShellRequestContext;
use super::failure::EngineErrorResponse;
use super::{REQUEST_TTL, digest, sealed};

const KIND: &str = "openharness_reply";

/// The entry of a request without an answer yet.
#[derive(Debug, Clone)]
pub(super) struct OpenRequestEntry {
    key: DocumentKey,
    version: u64,
    stored: StoredRequestEntry,
    /// The key that seals the answer.
    secret: [u8; 32],
}

/// The state of a request when it arrives.
#[derive(Debug)]
pub(super) enum RequestArrival {
    /// It was answered before.
    Answered(Vec<u8>),
    /// It is new.
    Begun(OpenRequestEntry),
    /// It has come before, and has no answer yet: it may be executed at this moment.
    Open(OpenRequestEntry),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredRequestEntry {
    /// The digest of the request.
    digest: String,
    /// The session of the request.
    session: Option<String>,
    /// The answer, once there is one.
    sealed: Option<String>,
}

impl OpenRequestEntry {
    /// Returns the session of the request.
    pub(super) fn session_id(&self) -> Option<&str> {
        self.stored.session.as_deref()
    }

    /// Returns the change that stores the answer.
    pub(super) fn build_answer_change(
        &self,
        asking: &ShellRequestContext<'_>,
        answer: &[u8],
        session: Option<&SessionId>,
    ) -> DocumentChange {
        let sealed = sealed::seal_text(&self.secret, answer, asking.shared.entropy.as_ref());
        let stored = StoredRequestEntry { sealed: Some(sealed), ..self.stored.clone() };
        let at = (self.key.clone(), DocumentPrecondition::Version(self.version));
        build_entry_change(asking, at, &stored, session.cloned())
    }

    /// Returns the change that removes the entry: nothing was done for the request.
    pub(super) fn build_removal_change(&self) -> DocumentChange {
        DocumentChange::Remove { key: self.key.clone(), expect: DocumentPrecondition::Version(self.version) }
    }
}

/// Finds the entry of a request, or makes it; a request without a session gets the one that `fresh` returns.
pub(super) async fn find_or_begin_entry(
    asking: &ShellRequestContext<'_>,
    request_id: &str,
    admitted: &AdmittedShellRequest,
    fresh: impl Fn() -> Option<String>,
) -> Result<RequestArrival, EngineErrorResponse> {
    let named = admitted.place.to_session_id();
    let id = digest::digest_parts_hex(&[
        "openharness request id",
        named.as_deref().unwrap_or_default(),
        request_id,
    ]);
    let key = DocumentKey::new(asking.caller.tenant.clone(), KIND, id);
    let secret = digest::digest_parts(&["openharness answer", &admitted.text]);
    let digest = digest::digest_parts_hex(&["openharness request", &admitted.text]);
    loop {
        let found = asking.shared.documents.read_document(&key).await?;
        let expect = match found {
            Some(document) if !asking.has_passed(document.expires_at) => {
                return read_found_entry(document, (digest, secret));
            }
            Some(document) => DocumentPrecondition::Version(document.version),
            None => DocumentPrecondition::Absent,
        };
        let session = named.clone().or_else(&fresh);
        let stored = StoredRequestEntry { digest: digest.clone(), session, sealed: None };
        let of = stored.session.as_deref().and_then(|session| SessionId::parse(session).ok());
        let version = match expect {
            DocumentPrecondition::Version(version) => version + 1,
            DocumentPrecondition::Any | DocumentPrecondition::Absent => 1,
        };
        let change = build_entry_change(asking, (key.clone(), expect), &stored, of);
        match asking.shared.documents.change_documents(vec![change]).await {
            Ok(()) => return Ok(RequestArrival::Begun(OpenRequestEntry { key, version, stored, secret })),
            // Another request has just made the entry.
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn read_found_entry(
    document: StoredDocument,
    (digest, secret): (String, [u8; 32]),
) -> Result<RequestArrival, EngineErrorResponse> {
    let unreadable = || {
        EngineErrorResponse::from_code(
            ErrorCode::InternalError,
            "what was kept of the request cannot be read",
        )
    };
    let stored: StoredRequestEntry = document.body.decode().map_err(|_| unreadable())?;
    if stored.digest != digest {
        let error = EngineErrorResponse::from_code(
            ErrorCode::IdempotencyConflict,
            "the request_id was used for another request",
        )
        .error;
        return Err(error.with_detail("field", "request_id").into());
    }
    match &stored.sealed {
        Some(answer) => {
            sealed::unseal_text(&secret, answer).map(RequestArrival::Answered).ok_or_else(unreadable)
        }
        None => Ok(RequestArrival::Open(OpenRequestEntry {
            key: document.key,
            version: document.version,
            stored,
            secret,
        })),
    }
}

fn build_entry_change(
    asking: &ShellRequestContext<'_>,
    (key, expect): (DocumentKey, DocumentPrecondition),
    stored: &StoredRequestEntry,
    session: Option<SessionId>,
) -> DocumentChange {
    let body = JsonDocument::from_serializable(stored).expect("texts and nothing else are JSON");
    DocumentChange::Write { key, expect, session, body, expires_at: Some(asking.time_after(REQUEST_TTL)) }
}
