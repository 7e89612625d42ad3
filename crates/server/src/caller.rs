//! The caller of a request, known before a section sees the request.

use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use singletree_durable::{SubjectId, TenantId, Timestamp};

use crate::problem::{RequestProblem, RequestProblemKind};

/// A permission of a caller. No scope contains another one: a key lists all that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Read sessions, turns, events, agents.
    Read,
    /// Send messages, cancel, steer, fork, upload.
    Write,
    /// Answer waits that need a person.
    Approve,
    /// Delete sessions, read usage and audits, pair devices, manage the tenant's keys.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Approve, Self::Admin];

    /// Returns the name of the scope, as keys list it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the tenant of data that belongs to the operator and to no tenant. Only the operator is a caller of it.
pub(crate) fn operator_tenant() -> TenantId {
    TenantId::parse("operator").expect("it is a short text")
}

/// Reads the name of a tenant that a caller can have.
///
/// # Errors
/// `server_tenant_invalid`.
pub fn parse_tenant_name(name: &str) -> crate::Result<TenantId> {
    let wrong = |why: String| crate::Error::Tenant { tenant: name.chars().take(64).collect(), why };
    let tenant = TenantId::parse(name).map_err(|error| wrong(error.to_string()))?;
    if tenant == operator_tenant() { Err(wrong("it is the operator's own".to_owned())) } else { Ok(tenant) }
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The tenant whose sessions the caller sees; it sees no others (INV-14).
    pub tenant: TenantId,
    /// The name of the caller in audits and answers to signals: the key's id, or `token:` and the subject of a token;
    /// `local` on a server without keys.
    pub name: String,
    /// The permissions of the caller.
    pub scopes: Vec<Scope>,
    /// The end of the caller's credentials: of its key, its token or its sign-in, whichever comes first.
    pub valid_until: Option<Timestamp>,
    /// The subject of the sessions that the caller creates: the id of its key, the `sub` of its token, or the value
    /// of `X-Subject` if it may write. None without credentials and header.
    pub subject: Option<SubjectId>,
}

impl Caller {
    /// Returns the caller of a server without keys: the single tenant, with all scopes.
    #[must_use]
    pub fn local() -> Self {
        Self {
            tenant: TenantId::single(),
            name: "local".into(),
            scopes: Scope::ALL.to_vec(),
            valid_until: None,
            subject: None,
        }
    }

    /// Returns the operator: it sees no tenant's sessions, and manages the keys of all tenants.
    pub(crate) fn operator() -> Self {
        Self {
            tenant: operator_tenant(),
            name: "operator".into(),
            scopes: vec![Scope::Admin],
            valid_until: None,
            subject: None,
        }
    }

    /// Checks whether this is the same caller as before, with the same scopes.
    pub(crate) fn is_same_caller(&self, before: &Self) -> bool {
        self.tenant == before.tenant && self.name == before.name && self.scopes == before.scopes
    }

    /// Checks whether the caller is the operator.
    pub(crate) fn is_operator(&self) -> bool {
        self.tenant == operator_tenant()
    }

    /// Returns the tenant that the request names, if the caller may act for it, otherwise the caller's own.
    pub(crate) fn resolve_tenant(&self, named: Option<&str>) -> Result<TenantId, RequestProblem> {
        match named {
            None if self.is_operator() => Ok(TenantId::single()),
            None => Ok(self.tenant.clone()),
            Some(named) if self.is_operator() => Ok(parse_tenant_name(named)?),
            Some(named) if *named == *self.tenant.as_str() => Ok(self.tenant.clone()),
            Some(_) => Err(RequestProblem::from_kind(
                RequestProblemKind::Forbidden,
                "only the operator names another tenant",
            )),
        }
    }

    /// Checks whether the caller may read messages of sessions. Other callers get only the effects of their own
    /// requests.
    pub(crate) fn can_read_messages(&self) -> bool {
        self.scopes.contains(&Scope::Read)
    }

    /// Checks that the caller has a scope.
    pub(crate) fn require_scope(&self, scope: Scope) -> Result<(), RequestProblem> {
        if self.scopes.contains(&scope) { Ok(()) } else { Err(RequestProblem::missing_scope(scope)) }
    }
}

/// The caller as an argument of a handler; the request layer has put it into the extensions.
pub(crate) struct RequestCaller(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for RequestCaller {
    type Rejection = RequestProblem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, RequestProblem> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or_else(RequestProblem::unauthorized)
    }
}
