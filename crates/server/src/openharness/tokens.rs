//! The tokens of questions: two for each, one a decision, each used once (INV-7).
//!
//! A token is 256 random bits. The store has only a digest, with everything that the token is bound to: tenant,
//! session, run, signal, wait, the exact action, the decision, and its expiry. The first token that is used decides:
//! the same commit makes the other one invalid. A used token returns the result of its decision again, and does
//! nothing else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, Error as StoreError, JsonDocument, SessionId,
    StoredDocument, Timestamp,
};
use singletree_protocol::openharness::{Decision, ErrorCode, ResponsePayload};

use super::deciding::unknown_continuation_error;
use super::engine::ShellRequestContext;
use super::failure::EngineErrorResponse;
use super::{QUESTION_TTL, REQUEST_TTL, digest, sealed};

const KIND: &str = "continuation";
const PREFIX: &str = "ctok_";

/// The subject of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApprovalQuestion {
    pub(super) session: String,
    /// The invocation.
    pub(super) run_id: String,
    pub(super) signal: String,
    /// The number of the wait in its session.
    pub(super) wait: u64,
    /// The digest of the exact action (D2).
    pub(super) action: String,
    /// The digest of the arguments that the question shows.
    pub(super) params_sha256: String,
    /// The end of the time to decide, in milliseconds since the Unix epoch.
    pub(super) until: i64,
}

/// One token, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredApprovalToken {
    question: ApprovalQuestion,
    /// The decision's name.
    decision: String,
    /// The digest of the token of the other decision.
    other: String,
    state: ApprovalTokenState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ApprovalTokenState {
    Open,
    /// It has decided; the result, sealed with the token, once there is one.
    Used(Option<String>),
    /// The other token has decided.
    Dead,
}

/// The two tokens of a question, and the changes that store them.
#[derive(Debug)]
pub(super) struct ApprovalTokenPair {
    pub(super) tokens: [(Decision, String); 2],
    pub(super) changes: Vec<DocumentChange>,
}

/// A token that has decided.
#[derive(Debug)]
pub(super) struct ClaimedApprovalToken {
    pub(super) question: ApprovalQuestion,
    pub(super) decision: Decision,
    document: StoredDocument,
    stored: StoredApprovalToken,
    secret: [u8; 32],
}

/// The result of using a token.
#[derive(Debug)]
pub(super) enum ApprovalTokenClaim {
    /// It was used before, with this result.
    Answered(Box<ResponsePayload>, ApprovalQuestion),
    /// It decides.
    Won(Box<ClaimedApprovalToken>),
}

/// Returns the end of the time to decide a question.
pub(super) fn decision_deadline(asking: &ShellRequestContext<'_>, deadline: Option<Timestamp>) -> Timestamp {
    deadline.unwrap_or_else(|| asking.time_after(QUESTION_TTL))
}

/// Draws the tokens of a question.
pub(super) fn issue_tokens(
    asking: &ShellRequestContext<'_>,
    question: &ApprovalQuestion,
) -> ApprovalTokenPair {
    let tokens = Decision::ALL.map(|item| (item, draw_token(asking)));
    let [one, other] = [&tokens[0], &tokens[1]];
    let changes = [(one, other), (other, one)].map(|((decision, token), (_, other))| {
        let stored = StoredApprovalToken {
            question: question.clone(),
            decision: decision.as_str().to_owned(),
            other: token_document_name(other),
            state: ApprovalTokenState::Open,
        };
        build_token_change(
            (token_document_key(asking, &token_document_name(token)), DocumentPrecondition::Absent),
            &stored,
        )
    });
    ApprovalTokenPair { tokens, changes: changes.into() }
}

fn draw_token(asking: &ShellRequestContext<'_>) -> String {
    let mut bytes = [0; 32];
    asking.shared.entropy.fill_bytes(&mut bytes);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Uses a token. An unknown token and one of another tenant get the same answer (INV-14).
pub(super) async fn claim_token(
    asking: &ShellRequestContext<'_>,
    token: &str,
    (run_id, session): (Option<&str>, Option<&str>),
) -> Result<ApprovalTokenClaim, EngineErrorResponse> {
    let invalid = unknown_continuation_error;
    let at = token_document_key(asking, &token_document_name(token));
    let secret = digest::digest_parts(&["openharness token", token]);
    loop {
        let Some(mut document) = asking.shared.documents.read_document(&at).await? else {
            return Err(invalid());
        };
        let mut stored: StoredApprovalToken = read_stored_token(&document)?;
        let question = stored.question.clone();
        if run_id.is_some_and(|run_id| run_id != question.run_id)
            || session.is_some_and(|session| session != question.session)
        {
            return Err(unknown_continuation_error());
        }
        let decision =
            Decision::ALL.into_iter().find(|item| item.as_str() == stored.decision).ok_or_else(invalid)?;
        match &stored.state {
            ApprovalTokenState::Dead => return Err(decided_otherwise_error()),
            ApprovalTokenState::Used(Some(answer)) => {
                let answer =
                    sealed::unseal_text(&secret, answer).and_then(|open| serde_json::from_slice(&open).ok());
                return answer
                    .map(|answer| ApprovalTokenClaim::Answered(Box::new(answer), question))
                    .ok_or_else(unreadable_token_error);
            }
            ApprovalTokenState::Used(None) => {
                let claimed = ClaimedApprovalToken { question, decision, document, stored, secret };
                return Ok(ApprovalTokenClaim::Won(Box::new(claimed)));
            }
            ApprovalTokenState::Open => {}
        }
        if question.until <= asking.shared.now().as_millis() {
            let text = "it is too late to decide this";
            return Err(EngineErrorResponse::from_code(ErrorCode::ContinuationExpired, text));
        }
        let other_at = token_document_key(asking, &stored.other);
        let Some(other) = asking.shared.documents.read_document(&other_at).await? else {
            return Err(invalid());
        };
        stored.state = ApprovalTokenState::Used(None);
        let dead = StoredApprovalToken { state: ApprovalTokenState::Dead, ..read_stored_token(&other)? };
        let changes = vec![
            build_token_change((at.clone(), DocumentPrecondition::Version(document.version)), &stored),
            build_token_change((other_at, DocumentPrecondition::Version(other.version)), &dead),
        ];
        match asking.shared.documents.change_documents(changes).await {
            Ok(()) => {
                document.version += 1;
                let claimed = ClaimedApprovalToken { question, decision, document, stored, secret };
                return Ok(ApprovalTokenClaim::Won(Box::new(claimed)));
            }
            // One of the two tokens was used in the meantime: reads their states again.
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the failure for a question that was decided by the other token.
pub(super) fn decided_otherwise_error() -> EngineErrorResponse {
    EngineErrorResponse::from_code(ErrorCode::ContinuationInvalid, "this was decided otherwise already")
}

impl ClaimedApprovalToken {
    /// Returns the change that stores the result of the decision.
    pub(super) fn build_result_change(
        &self,
        asking: &ShellRequestContext<'_>,
        payload: &ResponsePayload,
    ) -> DocumentChange {
        let payload = serde_json::to_vec(payload).expect("a payload is texts, numbers and maps of them");
        let sealed = sealed::seal_text(&self.secret, &payload, asking.shared.entropy.as_ref());
        let stored =
            StoredApprovalToken { state: ApprovalTokenState::Used(Some(sealed)), ..self.stored.clone() };
        build_token_change(
            (self.document.key.clone(), DocumentPrecondition::Version(self.document.version)),
            &stored,
        )
    }
}

fn token_document_name(token: &str) -> String {
    digest::digest_parts_hex(&["openharness token name", token])
}

fn token_document_key(asking: &ShellRequestContext<'_>, name: &str) -> DocumentKey {
    DocumentKey::new(asking.caller.tenant.clone(), KIND, name)
}

fn read_stored_token(document: &StoredDocument) -> Result<StoredApprovalToken, EngineErrorResponse> {
    document.body.decode().map_err(|_| unreadable_token_error())
}

fn unreadable_token_error() -> EngineErrorResponse {
    EngineErrorResponse::from_code(
        ErrorCode::InternalError,
        "what was kept of the continuation cannot be read",
    )
}

fn build_token_change(
    (key, expect): (DocumentKey, DocumentPrecondition),
    stored: &StoredApprovalToken,
) -> DocumentChange {
    let session = SessionId::parse(&stored.question.session).ok();
    let body = JsonDocument::from_serializable(stored).expect("texts and numbers are JSON");
    // Stored for a while past its end: then its use gets the error that it is too late, or the stored result.
    let until = Timestamp::from_millis(stored.question.until);
    DocumentChange::Write { key, expect, session, body, expires_at: Some(until.saturating_add(REQUEST_TTL)) }
}
