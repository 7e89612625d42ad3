//! Who signed in on the page: a cookie that scripts cannot read stands for a key, which stays with its owner.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST, HeaderName, ORIGIN};
use serde::{Deserialize, Serialize};
use singletree_durable::{DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, JsonDocument};
use singletree_engine::Clock;

use super::key_text::{base32_digest, digest_key_text, generate_token, parse_key_id};
use super::keyring::Keyring;
use crate::caller::{Caller, operator_tenant};
use crate::problem::{RequestProblem, RequestProblemKind};
use singletree_env::RandomSource;

/// The kind of the document of a page session.
pub(super) const KIND: &str = "page_session";
/// The name of the cookie over plain HTTP.
const NAME: &str = "singletree_page";
/// Its name over TLS. Because of the prefix, browsers accept it only with `Secure` and only from the host itself.
const HOST_NAME: &str = "__Host-singletree_page";
/// How long somebody stays signed in.
const LENGTH: Duration = Duration::from_hours(12);

/// The stored record of a page session, under the digest of the cookie.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPageSession {
    /// The key that signed in. Its scopes and its validity are checked with every request.
    key: String,
    /// The digest of the secret that signed in: the session ends when this secret is no longer valid.
    secret: [u8; 32],
}

/// Who signed in on the page.
pub(crate) struct PageSessions {
    keyring: Arc<Keyring>,
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn RandomSource>,
}

impl PageSessions {
    pub(crate) fn new(
        keyring: Arc<Keyring>,
        documents: Arc<dyn DocumentStore>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn RandomSource>,
    ) -> Self {
        Self { keyring, documents, clock, entropy }
    }

    /// Signs somebody in who shows a key, if `admit` lets its caller, and returns the cookie.
    pub(crate) async fn begin_session(
        &self,
        key: &str,
        secure: bool,
        admit: impl FnOnce(&Caller) -> Result<(), RequestProblem>,
    ) -> Result<String, RequestProblem> {
        admit(&self.keyring.authenticate_key(key).await?)?;
        let id = parse_key_id(key).ok_or_else(RequestProblem::unauthorized)?;
        let token = generate_token(self.entropy.as_ref());
        let signed_in = StoredPageSession { key: id.to_owned(), secret: digest_key_text(key) };
        let body = JsonDocument::from_serializable(&signed_in).expect("texts and numbers are JSON");
        let write = DocumentChange::Write {
            key: DocumentKey::new(operator_tenant(), KIND, base32_digest(&token)),
            expect: DocumentPrecondition::Absent,
            session: None,
            body,
            expires_at: Some(self.clock.now().saturating_add(LENGTH)),
        };
        self.documents
            .change_documents(vec![write])
            .await
            .map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
        Ok(format_cookie(&token, LENGTH, secure))
    }

    /// Signs out whoever shows the cookie, and returns the one that takes its place.
    pub(crate) async fn end_session(
        &self,
        headers: &HeaderMap,
        secure: bool,
    ) -> Result<String, RequestProblem> {
        if let Some(token) = read_cookie_token(headers) {
            let key = DocumentKey::new(operator_tenant(), KIND, base32_digest(token));
            let remove = DocumentChange::Remove { key, expect: DocumentPrecondition::Any };
            self.documents
                .change_documents(vec![remove])
                .await
                .map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
            self.keyring.notify_change();
        }
        Ok(format_cookie("", Duration::ZERO, secure))
    }

    /// Returns the caller of a page session, if the request has a cookie and comes from the page itself: a browser also
    /// sends the cookie with requests that other sites cause.
    pub(crate) async fn authenticate_cookie(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<Caller>, RequestProblem> {
        let Some(token) = read_cookie_token(headers) else { return Ok(None) };
        if !is_from_the_page(headers) {
            return Err(RequestProblem::from_kind(
                RequestProblemKind::OriginForbidden,
                RequestProblemKind::OriginForbidden.default_message(),
            ));
        }
        let key = DocumentKey::new(operator_tenant(), KIND, base32_digest(token));
        let found = self
            .documents
            .read_document(&key)
            .await
            .map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
        let now = self.clock.now();
        let found = found.filter(|found| found.expires_at.is_none_or(|end| now < end));
        let end = found.as_ref().and_then(|found| found.expires_at);
        let signed_in = found.and_then(|found| found.body.decode::<StoredPageSession>().ok());
        let signed_in = signed_in.ok_or_else(RequestProblem::unauthorized)?;
        let caller = self.keyring.authenticate_digest(&signed_in.key, &signed_in.secret).await?;
        let valid_until = caller.valid_until.into_iter().chain(end).min();
        Ok(Some(Caller { valid_until, ..caller }))
    }
}

/// Tells whether the browser reached the proxy in front of the server over TLS.
pub(crate) fn is_reached_over_tls(headers: &HeaderMap) -> bool {
    let proto = headers.get(HeaderName::from_static("x-forwarded-proto"));
    proto.is_some_and(|proto| proto.as_bytes() == b"https")
}

/// Returns the value of the cookie.
fn read_cookie_token(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|item| item.to_str().ok());
    let mut pairs = all.flat_map(|item| item.split(';')).filter_map(|it| it.trim().split_once('='));
    // Over TLS, a cookie with the plain name is ignored: another host of the domain could have set it.
    let wanted = if is_reached_over_tls(headers) { HOST_NAME } else { NAME };
    pairs.find_map(|(name, value)| (name == wanted && !value.is_empty()).then_some(value))
}

fn format_cookie(token: &str, length: Duration, secure: bool) -> String {
    let (name, secure) = if secure { (HOST_NAME, "; Secure") } else { (NAME, "") };
    format!("{name}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}", length.as_secs())
}

/// Tells whether a page of ours asks: browsers say where a request comes from, and scripts cannot say otherwise.
fn is_from_the_page(headers: &HeaderMap) -> bool {
    let header = |name: HeaderName| headers.get(name).and_then(|header| header.to_str().ok());
    if let Some(site) = header(HeaderName::from_static("sec-fetch-site")) {
        return site == "same-origin" || site == "none";
    }
    // Over plain HTTP, beyond this machine, they say only this, and only where it matters.
    header(ORIGIN).is_none_or(|origin| origin.split_once("://").map(|(_, it)| it) == header(HOST))
}

impl fmt::Debug for PageSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageSessions").finish_non_exhaustive()
    }
}
