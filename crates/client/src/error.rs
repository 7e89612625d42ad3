//! The errors of this crate.

use std::time::Duration;

use singletree_protocol::native::ErrorBucket;

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that a call of the server can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server cannot be reached, or not be understood as HTTP.
    #[error("the server cannot be asked")]
    Http(#[from] singletree_http::Error),
    /// The server refused.
    #[error("the server refused: {0}")]
    Refused(Box<ServerRefusal>),
    /// The response violates the protocol.
    #[error("the server's answer is not what it should be: {what}")]
    Answer {
        /// The violation.
        what: String,
    },
    /// A key would go over an open line to another machine.
    #[error("{host} is another machine, and the line to it is open: a key needs https")]
    Insecure {
        /// Which one.
        host: String,
    },
    /// The address is none that can be asked.
    #[error("the address cannot be used: {what}")]
    Address {
        /// The reason why it cannot be used.
        what: String,
    },
}

/// The error response of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServerRefusal {
    /// The status.
    pub status: u16,
    /// The category or code that it named; empty when it named none.
    pub category: String,
    /// How the caller can react, if the server named a bucket.
    pub bucket: Option<ErrorBucket>,
    /// A description for people.
    pub message: String,
    /// Advice for the caller.
    pub hint: Option<String>,
    /// The time to wait before a retry.
    pub retry_after: Option<Duration>,
    /// The turn that was accepted all the same.
    pub turn: Option<String>,
}

impl Error {
    /// Returns the stable, machine-readable category of this error: the server's own where it refused.
    #[must_use]
    pub fn category(&self) -> &str {
        match self {
            Self::Http(source) => source.category(),
            Self::Refused(refused) if refused.category.is_empty() => "client_refused",
            Self::Refused(refused) => &refused.category,
            Self::Answer { .. } => "client_answer_invalid",
            Self::Insecure { .. } => "client_key_exposed",
            Self::Address { .. } => "client_address_invalid",
        }
    }
}
