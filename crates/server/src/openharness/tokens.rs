//! The tokens of questions: two for each, one a decision, each used once (INV-7).
//!
//! A token is 256 bits that nobody can guess. Of it only a digest is kept, with all that it is bound to: tenant, session, run,
//! signal, wait, the exact action, the decision, and until when. Whose token is used first decides: in the same change the
//! other one dies and the audit is told. A token that was used says again what came of it, and nothing else.

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

/// What a decision is about.
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
    /// The digest of the arguments, as the question shows it.
    pub(super) params_sha256: String,
    /// Until when it can be decided, in milliseconds since the Unix epoch.
    pub(super) until: i64,
}

/// One token, as it is kept.
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
    /// It decided; what came of it, sealed with the token, once there is something.
    Used(Option<String>),
    /// The other one decided.
    Dead,
}

/// The two tokens of a question, and what has to be kept of them.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) tokens: [(Decision, String); 2],
    pub(super) changes: Vec<Change>,
}

/// A token that decides.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) question: Question,
    pub(super) decision: Decision,
    document: Document,
    stored: Stored,
    secret: [u8; 32],
}

/// What comes of using a token.
#[derive(Debug)]
pub(super) enum Claim {
    /// It was used before, and this came of it.
    Answered(Box<ResponsePayload>, Question),
    /// It decides.
    Won(Box<Claimed>),
}

/// Returns until when a question can be decided.
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

/// Uses a token. What fits nothing, or is somebody else's, is answered alike (INV-14).
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
        if run_id.is_some_and(|run_id| run_id != question.run_id) || session.is_some_and(|session| session != question.session)
        {
            return Err(nothing());
        }
        let decision =
            Decision::ALL.into_iter().find(|it| it.as_str() == stored.decision).ok_or_else(invalid)?;
        match &stored.state {
            State::Dead => return Err(decided_otherwise()),
            State::Used(Some(answer)) => {
                let answer = sealed::open(&secret, answer).and_then(|open| serde_json::from_slice(&open).ok());
                return answer.map(|answer| Claim::Answered(Box::new(answer), question)).ok_or_else(unreadable);
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
            // One of the two was used in the meantime: look which.
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The decision was taken, and is another one.
pub(super) fn decided_otherwise() -> Failure {
    Failure::of(ErrorCode::ContinuationInvalid, "this was decided otherwise already")
}

impl Claimed {
    /// Keeps what came of the decision.
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
    // Kept for a while past its end: then it is told that it is too late, and what came of it.
    let until = Timestamp::from_millis(stored.question.until);
    Change::Write { key, expect, session, body, expires_at: Some(until.after(REQUEST_TTL)) }
}
