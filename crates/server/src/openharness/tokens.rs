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
    Change, Document, DocumentKey, Error as StoreError, Expect, Json, SessionId, Timestamp,
};
use singletree_protocol::openharness::{Decision, ErrorCode, ResponsePayload};

use super::deciding::nothing;
use super::engine::Asking;
use super::failure::Failure;
use super::{QUESTION_TTL, REQUEST_TTL, digest, sealed};

const KIND: &str = "continuation";
const PREFIX: &str = "ctok_";

/// The subject of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
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
struct Stored {
    question: Question,
    /// The decision's name.
    decision: String,
    /// The digest of the token of the other decision.
    other: String,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Open,
    /// It has decided; the result, sealed with the token, once there is one.
    Used(Option<String>),
    /// The other token has decided.
    Dead,
}

/// The two tokens of a question, and the changes that store them.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) tokens: [(Decision, String); 2],
    pub(super) changes: Vec<Change>,
}

/// A token that has decided.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) question: Question,
    pub(super) decision: Decision,
    document: Document,
    stored: Stored,
    secret: [u8; 32],
}

/// The result of using a token.
#[derive(Debug)]
pub(super) enum Claim {
    /// It was used before, with this result.
    Answered(Box<ResponsePayload>, Question),
    /// It decides.
    Won(Box<Claimed>),
}

/// Returns the end of the time to decide a question.
pub(super) fn until(asking: &Asking<'_>, deadline: Option<Timestamp>) -> Timestamp {
    deadline.unwrap_or_else(|| asking.after(QUESTION_TTL))
}

/// Draws the tokens of a question.
pub(super) fn issue(asking: &Asking<'_>, question: &Question) -> Pair {
    let tokens = Decision::ALL.map(|it| (it, draw(asking)));
    let [one, other] = [&tokens[0], &tokens[1]];
    let changes = [(one, other), (other, one)].map(|((decision, token), (_, other))| {
        let stored = Stored {
            question: question.clone(),
            decision: decision.as_str().to_owned(),
            other: name(other),
            state: State::Open,
        };
        write((key(asking, &name(token)), Expect::Absent), &stored)
    });
    Pair { tokens, changes: changes.into() }
}

fn draw(asking: &Asking<'_>) -> String {
    let mut bytes = [0; 32];
    asking.shared.entropy.fill(&mut bytes);
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
}

/// Uses a token. An unknown token and one of another tenant get the same answer (INV-14).
pub(super) async fn claim(
    asking: &Asking<'_>,
    token: &str,
    (run_id, session): (Option<&str>, Option<&str>),
) -> Result<Claim, Failure> {
    let invalid = nothing;
    let at = key(asking, &name(token));
    let secret = digest::parts(&["openharness token", token]);
    loop {
        let Some(mut document) = asking.shared.documents.document(&at).await? else { return Err(invalid()) };
        let mut stored: Stored = read(&document)?;
        let question = stored.question.clone();
        if run_id.is_some_and(|run_id| run_id != question.run_id)
            || session.is_some_and(|session| session != question.session)
        {
            return Err(nothing());
        }
        let decision =
            Decision::ALL.into_iter().find(|it| it.as_str() == stored.decision).ok_or_else(invalid)?;
        match &stored.state {
            State::Dead => return Err(decided_otherwise()),
            State::Used(Some(answer)) => {
                let answer =
                    sealed::open(&secret, answer).and_then(|open| serde_json::from_slice(&open).ok());
                return answer
                    .map(|answer| Claim::Answered(Box::new(answer), question))
                    .ok_or_else(unreadable);
            }
            State::Used(None) => {
                return Ok(Claim::Won(Box::new(Claimed { question, decision, document, stored, secret })));
            }
            State::Open => {}
        }
        if question.until <= asking.shared.now().as_millis() {
            return Err(Failure::of(ErrorCode::ContinuationExpired, "it is too late to decide this"));
        }
        let other_at = key(asking, &stored.other);
        let Some(other) = asking.shared.documents.document(&other_at).await? else { return Err(invalid()) };
        stored.state = State::Used(None);
        let dead = Stored { state: State::Dead, ..read(&other)? };
        let changes = vec![
            write((at.clone(), Expect::Version(document.version)), &stored),
            write((other_at, Expect::Version(other.version)), &dead),
        ];
        match asking.shared.documents.change(changes).await {
            Ok(()) => {
                document.version += 1;
                return Ok(Claim::Won(Box::new(Claimed { question, decision, document, stored, secret })));
            }
            // One of the two tokens was used in the meantime: reads their states again.
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the failure for a question that was decided by the other token.
pub(super) fn decided_otherwise() -> Failure {
    Failure::of(ErrorCode::ContinuationInvalid, "this was decided otherwise already")
}

impl Claimed {
    /// Returns the change that stores the result of the decision.
    pub(super) fn answered(&self, asking: &Asking<'_>, payload: &ResponsePayload) -> Change {
        let payload = serde_json::to_vec(payload).expect("a payload is texts, numbers and maps of them");
        let sealed = sealed::seal(&self.secret, &payload, asking.shared.entropy.as_ref());
        let stored = Stored { state: State::Used(Some(sealed)), ..self.stored.clone() };
        write((self.document.key.clone(), Expect::Version(self.document.version)), &stored)
    }
}

fn name(token: &str) -> String {
    digest::hex_of(&["openharness token name", token])
}

fn key(asking: &Asking<'_>, name: &str) -> DocumentKey {
    DocumentKey::new(asking.caller.tenant.clone(), KIND, name)
}

fn read(document: &Document) -> Result<Stored, Failure> {
    document.body.decode().map_err(|_| unreadable())
}

fn unreadable() -> Failure {
    Failure::of(ErrorCode::InternalError, "what was kept of the continuation cannot be read")
}

fn write((key, expect): (DocumentKey, Expect), stored: &Stored) -> Change {
    let session = SessionId::parse(&stored.question.session).ok();
    let body = Json::of(stored).expect("texts and numbers are JSON");
    // Stored for a while past its end: then its use gets the error that it is too late, or the stored result.
    let until = Timestamp::from_millis(stored.question.until);
    Change::Write { key, expect, session, body, expires_at: Some(until.after(REQUEST_TTL)) }
}
