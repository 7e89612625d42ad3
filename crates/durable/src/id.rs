//! Identifiers: validated once, then carried as types.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why a text is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidIdentifier {
    /// It is empty.
    #[error("an identifier must not be empty")]
    Empty,
    /// It is too long.
    #[error("an identifier of {len} bytes is longer than {max}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest one allowed, in bytes.
        max: usize,
    },
    /// It has a control character.
    #[error("an identifier must not contain control characters (found one at byte {at})")]
    Control {
        /// Where the first one is.
        at: usize,
    },
}

fn check(text: &str) -> Result<(), InvalidIdentifier> {
    if text.is_empty() {
        return Err(InvalidIdentifier::Empty);
    }
    if text.len() > MAX_BYTES {
        return Err(InvalidIdentifier::TooLong { len: text.len(), max: MAX_BYTES });
    }
    match text.char_indices().find(|(_, it)| it.is_control()) {
        Some((at, _)) => Err(InvalidIdentifier::Control { at }),
        None => Ok(()),
    }
}

/// The longest identifier, in bytes.
const MAX_BYTES: usize = 512;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text and makes an identifier of it.
            ///
            /// # Errors
            /// Empty, longer than 512 bytes, or with a control character.
            pub fn parse(text: impl AsRef<str>) -> Result<Self, InvalidIdentifier> {
                let text = text.as_ref();
                check(text).map(|()| Self(text.into()))
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidIdentifier;
            fn try_from(text: String) -> Result<Self, InvalidIdentifier> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }
    };
}

text_id! {
    /// Names a conversation within its tenant. Supplied by the caller (sessions §2).
    SessionId
}

text_id! {
    /// Names whose data it is. Part of every key (INV-14).
    TenantId
}

text_id! {
    /// Names the person or program on whose behalf sessions are made, within a tenant: the id of an API key, the `sub`
    /// of a token, or a name that a program sets. Erasure selects sessions by it.
    SubjectId
}

text_id! {
    /// The id of an invocation: the turn that a message started and every turn that resumes it (graph-engine §3).
    InvocationId
}

impl TenantId {
    /// Returns the tenant of a process that serves only one: `default`.
    #[must_use]
    pub fn single() -> Self {
        Self("default".into())
    }
}

/// The full name of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which one.
    pub session: SessionId,
}

impl SessionKey {
    /// Puts the parts together.
    #[must_use]
    pub fn new(tenant: TenantId, session: SessionId) -> Self {
        Self { tenant, session }
    }
}

/// The right to write, as a number that only rises: who holds a lower one than the store is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FencingToken(pub u64);
