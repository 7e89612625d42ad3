//! The conversation in which a tool is called.

/// The tenant and the session of a tool call.
///
/// A tool that keeps data keeps it under both: data of one tenant is never visible to another, and data of a session is
/// deleted with the session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallOrigin {
    /// The tenant that owns the session.
    pub tenant: String,
    /// The session, unique in its tenant.
    pub session: String,
}

impl CallOrigin {
    /// Makes an origin of its parts.
    #[must_use]
    pub fn new(tenant: impl Into<String>, session: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), session: session.into() }
    }
}
