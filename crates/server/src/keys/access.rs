//! Who a request comes from: its key or token, or nobody, where nobody is asked.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::Uri;
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use singletree_durable::SubjectId;
use singletree_engine::Clock;
use singletree_http::Secret;
use subtle::ConstantTimeEq;

use super::key_text::{self, BEGIN, OPERATOR, digest_key_text};
use super::keyring::Keyring;
use super::page_session::PageSessions;
use super::token::{TokenPolicy, TokenVerifier};
use crate::Result;
use crate::caller::{Caller, Scope};
use crate::problem::{RequestProblem, RequestProblemKind};
use singletree_env::RandomSource;

/// The header in which a program names the user on whose behalf it asks.
const SUBJECT: HeaderName = HeaderName::from_static("x-subject");

/// Whether callers need a key, and which other credentials the server accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessPolicy {
    /// Whether every caller needs a key. If not, a caller without a key acts for the single tenant and may do
    /// everything: use this only for a server that is reachable from its own machine alone. Such a server refuses
    /// requests of web pages of other origins than `origins`.
    pub required: bool,
    /// The pages of elsewhere that may ask from within a browser, as `https://chat.example.com`.
    pub origins: Vec<String>,
    /// Which tokens are believed beside keys; none otherwise.
    pub tokens: Option<TokenPolicy>,
}

/// Tells who a request comes from.
pub(crate) struct RequestAuthenticator {
    required: bool,
    origins: Vec<String>,
    keyring: Arc<Keyring>,
    page_sessions: PageSessions,
    tokens: Option<TokenVerifier>,
    /// The key of whoever runs the server, drawn at its start.
    operator: Secret,
    operator_digest: [u8; 32],
}

impl RequestAuthenticator {
    /// # Errors
    /// `server_key_set_invalid`.
    pub(crate) fn from_policy(
        policy: AccessPolicy,
        (keyring, page_sessions): (Arc<Keyring>, PageSessions),
        clock: Arc<dyn Clock>,
        entropy: &dyn RandomSource,
    ) -> Result<Self> {
        let AccessPolicy { required, origins, tokens } = policy;
        let tokens = tokens.map(|it| TokenVerifier::from_policy(it, clock)).transpose()?;
        let drawn = key_text::generate_secret(entropy, OPERATOR);
        let (operator, operator_digest) = (drawn.text, drawn.digest);
        Ok(Self { required, origins, keyring, page_sessions, tokens, operator, operator_digest })
    }

    /// Tells whether everybody is asked.
    pub(crate) fn is_key_required(&self) -> bool {
        self.required
    }

    /// Returns the key of whoever runs the server.
    pub(crate) fn operator_key(&self) -> &Secret {
        &self.operator
    }

    /// Returns the keys.
    pub(crate) fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// Returns who signed in on the page.
    pub(crate) fn page_sessions(&self) -> &PageSessions {
        &self.page_sessions
    }

    /// Returns who a request comes from.
    pub(crate) async fn authenticate_request(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Caller, RequestProblem> {
        let shown = read_bearer_credential(headers)?;
        if shown.is_none()
            && self.required
            && let Some(caller) = self.page_sessions.authenticate_cookie(headers).await?
        {
            return Ok(caller);
        }
        match shown {
            Some(text) if text.starts_with(BEGIN) => {
                apply_subject_header(self.authenticate_key(text).await?, headers)
            }
            Some(text) if text.split('.').count() == 3 && self.tokens.is_some() => match &self.tokens {
                Some(tokens) => tokens.authenticate_token(text),
                None => Err(RequestProblem::unauthorized()),
            },
            // Clients that cannot do without a key send any to a server that asks for none.
            Some(_) | None if !self.required => {
                apply_subject_header(self.authenticate_local(uri, headers)?, headers)
            }
            Some(_) | None => Err(RequestProblem::unauthorized()),
        }
    }

    async fn authenticate_key(&self, text: &str) -> Result<Caller, RequestProblem> {
        if key_text::parse_key_id(text) == Some(OPERATOR) {
            let same = bool::from(digest_key_text(text).ct_eq(&self.operator_digest));
            return if same { Ok(Caller::operator()) } else { Err(RequestProblem::unauthorized()) };
        }
        self.keyring.authenticate_key(text).await
    }

    /// Returns the caller of a server that needs no key. Refuses a request that a web page of another origin makes
    /// through a user's browser: such a request carries that page's origin, or a host name of its own that resolves to
    /// this machine.
    fn authenticate_local(&self, uri: &Uri, headers: &HeaderMap) -> Result<Caller, RequestProblem> {
        let header = |name: HeaderName| headers.get(name).and_then(|header| header.to_str().ok());
        let host = header(HOST).or_else(|| uri.authority().map(|authority| authority.as_str()));
        let elsewhere = host.is_some_and(|host| !is_this_machine(host));
        let origin = header(ORIGIN).is_some_and(|origin| {
            let own = origin.split_once("://").is_some_and(|(_, it)| Some(it) == host);
            !own && !self.origins.iter().any(|it| it == origin)
        });
        if elsewhere || origin {
            let hint = "name the page in `[server] origins`, or ask for keys: `[auth] required = true`";
            return Err(RequestProblem::from_kind(
                RequestProblemKind::OriginForbidden,
                RequestProblemKind::OriginForbidden.default_message(),
            )
            .with_hint(hint));
        }
        Ok(Caller::local())
    }
}

/// Replaces the subject of a caller by the one in `X-Subject`. The header counts only for callers that may write.
fn apply_subject_header(caller: Caller, headers: &HeaderMap) -> Result<Caller, RequestProblem> {
    let Some(said) = headers.get(SUBJECT).filter(|_| caller.scopes.contains(&Scope::Write)) else {
        return Ok(caller);
    };
    let subject = said.to_str().ok().and_then(|text| SubjectId::parse(text.trim()).ok());
    let wrong =
        || RequestProblem::invalid_request("X-Subject is a text of 1 to 512 visible ASCII characters");
    Ok(Caller { subject: Some(subject.ok_or_else(wrong)?), ..caller })
}

/// Returns the text after `Bearer`. Several `Authorization` headers are refused, because it is ambiguous which one
/// counts.
fn read_bearer_credential(headers: &HeaderMap) -> Result<Option<&str>, RequestProblem> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (Some(first), None) = (all.next(), all.next()) else {
        let none = headers.get(AUTHORIZATION).is_none();
        return if none { Ok(None) } else { Err(RequestProblem::unauthorized()) };
    };
    let text = first.to_str().map_err(|_| RequestProblem::unauthorized())?;
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    Ok(Some(rest.trim()).filter(|value| scheme.eq_ignore_ascii_case("bearer") && !value.is_empty()))
}

/// Tells whether a host, perhaps with a port, is a name or an address that no page of elsewhere can have.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok()
}

impl fmt::Debug for RequestAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestAuthenticator").field("required", &self.required).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_of_this_machine_by_name_or_number() {
        let check = |host: &str, here: bool| assert_eq!(is_this_machine(host), here, "{host}");
        check("127.0.0.1:8787", true);
        check("localhost:8787", true);
        check("LOCALHOST", true);
        check("chat.localhost", true);
        check("[::1]:8787", true);
        check("192.168.1.5:80", true);
        check("rebound.example.com:8787", false);
        check("localhost.example.com", false);
        check("127.0.0.1.example.com:8787", false);
    }
}
