//! Which request got which answer: the same again gets the same bytes (spec: OpenHarness §5.1; D3).
//!
//! A request with an id has an entry before anything is done for it, with the session that it is said in, also where that is a
//! new one; then the answer is put in. Who asks again in between joins the turn that runs, by the harness's own key, and of two
//! who put in an answer the first one wins. The answer is sealed with the request itself: it holds tokens.

use serde::{Deserialize, Serialize};
use singletree_durable::{Change, Document, DocumentKey, Error as StoreError, Expect, Json, SessionId};
use singletree_protocol::openharness::ErrorCode;

use super::admission::Admitted;
use super::engine::Asking;
use super::failure::Failure;
use super::{REQUEST_TTL, digest, sealed};

const KIND: &str = "openharness_reply";

/// A request that has an entry, and no answer yet.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    key: DocumentKey,
    version: u64,
    stored: Stored,
    /// What its answer is sealed with.
    secret: [u8; 32],
}

/// How a request begins.
#[derive(Debug)]
pub(super) enum Begun {
    /// It was answered before.
    Answered(Vec<u8>),
    /// It was not. It may have been begun.
    Open(Entry),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Stored {
    /// Of the request.
    digest: String,
    /// The session that it is said in.
    session: Option<String>,
    /// The answer, once there is one.
    sealed: Option<String>,
}

impl Entry {
    /// Returns the session that it is said in.
    pub(super) fn session(&self) -> Option<&str> {
        self.stored.session.as_deref()
    }

    /// Puts the answer in.
    pub(super) fn answered(&self, asking: &Asking<'_>, answer: &[u8], session: Option<&SessionId>) -> Change {
        let sealed = sealed::seal(&self.secret, answer, asking.shared.entropy.as_ref());
        let stored = Stored { sealed: Some(sealed), ..self.stored.clone() };
        let at = (self.key.clone(), Expect::Version(self.version));
        write(asking, at, &stored, session.cloned())
    }

    /// Frees the id: nothing was done under it.
    pub(super) fn freed(&self) -> Change {
        Change::Remove { key: self.key.clone(), expect: Expect::Version(self.version) }
    }
}

/// Finds the entry of a request, or makes it; a request that names no session gets the one that `fresh` makes.
pub(super) async fn begin(
    asking: &Asking<'_>,
    request_id: &str,
    admitted: &Admitted,
    fresh: impl Fn() -> Option<String>,
) -> Result<Begun, Failure> {
    let named = admitted.place.session();
    let id = digest::hex_of(&["openharness request id", named.as_deref().unwrap_or_default(), request_id]);
    let key = DocumentKey::new(asking.caller.tenant.clone(), KIND, id);
    let secret = digest::parts(&["openharness answer", &admitted.text]);
    let digest = digest::hex_of(&["openharness request", &admitted.text]);
    loop {
        let found = asking.shared.documents.document(&key).await?;
        let expect = match found {
            Some(document) if !asking.is_over(document.expires_at) => {
                return found_entry(document, (digest, secret));
            }
            Some(document) => Expect::Version(document.version),
            None => Expect::Absent,
        };
        let session = named.clone().or_else(&fresh);
        let stored = Stored { digest: digest.clone(), session, sealed: None };
        let of = stored.session.as_deref().and_then(|session| SessionId::parse(session).ok());
        let version = match expect {
            Expect::Version(version) => version + 1,
            Expect::Any | Expect::Absent => 1,
        };
        let change = write(asking, (key.clone(), expect), &stored, of);
        match asking.shared.documents.change(vec![change]).await {
            Ok(()) => return Ok(Begun::Open(Entry { key, version, stored, secret })),
            // Somebody else has just made it.
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn found_entry(document: Document, (digest, secret): (String, [u8; 32])) -> Result<Begun, Failure> {
    let unreadable = || Failure::of(ErrorCode::InternalError, "what was kept of the request cannot be read");
    let stored: Stored = document.body.decode().map_err(|_| unreadable())?;
    if stored.digest != digest {
        let error =
            Failure::of(ErrorCode::IdempotencyConflict, "the request_id was used for another request").error;
        return Err(error.detail("field", "request_id").into());
    }
    match &stored.sealed {
        Some(answer) => sealed::open(&secret, answer).map(Begun::Answered).ok_or_else(unreadable),
        None => Ok(Begun::Open(Entry { key: document.key, version: document.version, stored, secret })),
    }
}

fn write(
    asking: &Asking<'_>,
    (key, expect): (DocumentKey, Expect),
    stored: &Stored,
    session: Option<SessionId>,
) -> Change {
    let body = Json::of(stored).expect("texts and nothing else are JSON");
    Change::Write { key, expect, session, body, expires_at: Some(asking.after(REQUEST_TTL)) }
}
