//! Who asks: settled before a section sees the request.

use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use singletree_durable::{SubjectId, TenantId, Timestamp};

use crate::problem::{Kind, Problem};

/// What a caller may do. A wider one does not contain a narrower one: keys list what they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Read sessions, turns, events, agents.
    Read,
    /// Send messages, cancel, steer, fork, upload.
    Write,
    /// Answer what waits for a person.
    Approve,
    /// Delete sessions, read usage and audits, pair devices, manage the tenant's keys.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Approve, Self::Admin];

    /// Returns its name, as keys list it.
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

/// Returns the tenant of what belongs to the house and to no tenant. Nobody is it.
pub(crate) fn house() -> TenantId {
    TenantId::parse("operator").expect("it is a short text")
}

/// Reads the name of a tenant that somebody may be.
///
/// # Errors
/// `server_tenant_invalid`.
pub fn tenant(name: &str) -> crate::Result<TenantId> {
    let wrong = |why: String| crate::Error::Tenant { tenant: name.chars().take(64).collect(), why };
    let tenant = TenantId::parse(name).map_err(|error| wrong(error.to_string()))?;
    if tenant == house() { Err(wrong("it is the house's own".to_owned())) } else { Ok(tenant) }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose sessions it sees, and no other's (INV-14).
    pub tenant: TenantId,
    /// Who it is, as audits and answers to signals record it: the key's id, or `token:` and the subject of a token;
    /// `local` where nobody is asked.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Until when it is who it is: the end of its key, its token or its sign-in, whichever comes first.
    pub valid_until: Option<Timestamp>,
    /// The subject of the sessions that it creates: the id of its key, the `sub` of its token, or the value of
    /// `X-Subject` if it may write. None without credentials and header.
    pub subject: Option<SubjectId>,
}

impl Caller {
    /// Returns whoever asks a server that asks nobody: the single tenant, everything allowed.
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

    /// Returns whoever runs the server: sees no tenant's sessions, and manages the keys of all.
    pub(crate) fn operator() -> Self {
        Self {
            tenant: house(),
            name: "operator".into(),
            scopes: vec![Scope::Admin],
            valid_until: None,
            subject: None,
        }
    }

    /// Tells whether this is who asked before, and may do the same.
    pub(crate) fn is_same(&self, before: &Self) -> bool {
        self.tenant == before.tenant && self.name == before.name && self.scopes == before.scopes
    }

    /// Tells whether it runs the server.
    pub(crate) fn is_operator(&self) -> bool {
        self.tenant == house()
    }

    /// Returns the tenant that it names, if it may, else its own.
    pub(crate) fn acting_for(&self, named: Option<&str>) -> Result<TenantId, Problem> {
        match named {
            None if self.is_operator() => Ok(TenantId::single()),
            None => Ok(self.tenant.clone()),
            Some(named) if self.is_operator() => Ok(tenant(named)?),
            Some(named) if *named == *self.tenant.as_str() => Ok(self.tenant.clone()),
            Some(_) => Err(Problem::of_kind(Kind::Forbidden, "only the operator names another tenant")),
        }
    }

    /// Tells whether it may read what is said in sessions. Who may not is told only of what its own request makes happen.
    pub(crate) fn may_read(&self) -> bool {
        self.scopes.contains(&Scope::Read)
    }

    /// Checks that it may do this.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) { Ok(()) } else { Err(Problem::forbidden(scope)) }
    }
}

/// The caller as an argument of a handler; the layer around its section has put it there.
pub(crate) struct By(pub(crate) Caller);

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Caller>().cloned().map(Self).ok_or_else(Problem::unauthorized)
    }
}
