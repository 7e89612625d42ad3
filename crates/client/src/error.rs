//! What can go wrong between us and the server.

use std::time::Duration;

use singletree_protocol::native::ErrorBucket;

/// What the operations of this crate return.
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
    Refused(Box<Refused>),
    /// The answer is not what the protocol says it is.
    #[error("the server's answer is not what it should be: {what}")]
    Answer {
        /// What is wrong with it.
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
        /// What is wrong with it.
        what: String,
    },
}

/// What a server said when it refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The category or code that it named; empty when it named none.
    pub category: String,
    /// What the caller can do, if it said so.
    pub bucket: Option<ErrorBucket>,
    /// What happened, for people.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// After what time to try again.
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
