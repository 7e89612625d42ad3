//! The conversation in which a tool is called.

use crate::key::{hash_texts, hex_digest};

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
    /// The number under which the calling process holds the session: a process that takes the session over has a higher one. Zero
    /// outside of a chat.
    ///
    /// A process that stood still, and lost the session meanwhile, may still be inside a call. A tool that must not act for it
    /// keeps the highest number that it has seen of each session, together with the data that it changes, and refuses calls with a
    /// lower one.
    pub fence: u64,
}

impl CallOrigin {
    /// Makes an origin of its parts, with fence zero.
    #[must_use]
    pub fn new(tenant: impl Into<String>, session: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), session: session.into(), fence: 0 }
    }

    /// Sets the number under which the session is held.
    #[must_use]
    pub fn with_fence(self, fence: u64) -> Self {
        Self { fence, ..self }
    }

    /// Returns a name of the session for tools of others, 64 hexadecimal digits: the same for every call, and unlike that of any
    /// other session of any tenant. Neither name is in it.
    #[must_use]
    pub fn opaque_name(&self) -> String {
        hex_digest(hash_texts([&self.tenant, &self.session]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opaque_name_of_a_session_stays_the_same_and_differs_by_every_part() {
        let name = |tenant, session| CallOrigin::new(tenant, session).with_fence(3).opaque_name();
        assert_eq!(name("t", "s"), CallOrigin::new("t", "s").opaque_name());
        assert_eq!(name("t", "s"), "db6dbf84004094e8c7b9cee99ed8125972755b1e2e16540b02f6758286d2ddd3");
        for other in [name("ts", ""), name("", "ts"), name("t", "r"), name("u", "s")] {
            assert_ne!(other, name("t", "s"));
        }
    }
}
