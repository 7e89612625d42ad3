//! The errors of an HTTP call.

use singletree_env::BoxError;

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that an HTTP call can fail with. `Display` names the host, never a query, a header or a body.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address, a header or the method cannot be sent.
    #[error("the HTTP request is malformed: {problem}")]
    Request {
        /// A description of the problem.
        problem: String,
    },
    /// The server cannot be reached: no address, no connection, no TLS.
    #[error("{host} cannot be reached")]
    Unreachable {
        /// Which server.
        host: String,
        /// The error underneath.
        source: BoxError,
    },
    /// The server took longer than it may.
    #[error("{host} did not answer in time: {what}")]
    Timeout {
        /// Which server.
        host: String,
        /// The awaited event, and the time limit.
        what: String,
    },
    /// The answer broke off, or is no HTTP.
    #[error("the answer of {host} broke off")]
    Broken {
        /// Which server.
        host: String,
        /// The error underneath.
        source: BoxError,
    },
    /// The answer is larger than it may be.
    #[error("the answer of {host} is larger than {limit} bytes")]
    TooLarge {
        /// Which server.
        host: String,
        /// The bound, in bytes.
        limit: u64,
    },
    /// The answer is no stream of events that can be read.
    #[error("the event stream is malformed: {problem}")]
    Stream {
        /// A description of the problem.
        problem: String,
    },
    /// The call may not go there.
    #[error("calls may not go to {host}: {reason}")]
    Egress {
        /// Which server.
        host: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Request { .. } => "http_request_invalid",
            Self::Unreachable { .. } => "http_unreachable",
            Self::Timeout { .. } => "http_timeout",
            Self::Broken { .. } => "http_broken_off",
            Self::TooLarge { .. } => "http_too_large",
            Self::Stream { .. } => "http_stream_invalid",
            Self::Egress { .. } => "http_egress_denied",
        }
    }

    /// Returns the error underneath, for who tells this one in words of its own.
    #[must_use]
    pub fn into_source(self) -> Option<BoxError> {
        match self {
            Self::Unreachable { source, .. } | Self::Broken { source, .. } => Some(source),
            Self::Request { .. }
            | Self::Timeout { .. }
            | Self::TooLarge { .. }
            | Self::Stream { .. }
            | Self::Egress { .. } => None,
        }
    }
}
