//! Why an export failed.

use singletree_telemetry::SpanRefusal;

/// The result of an export.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The receiver could not be reached, or asked for another attempt each time. The spans may be sent again later: their
    /// ids are the same.
    #[error("the receiver of telemetry is unavailable after {attempts} attempts: {problem}")]
    Unavailable {
        /// How often it was tried.
        attempts: u32,
        /// The last problem.
        problem: String,
    },
    /// The receiver refused the request; another attempt would not help.
    #[error("the receiver of telemetry refused the request with status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The request cannot be made: its address or its credentials are malformed.
    #[error("the destination of telemetry is malformed: {problem}")]
    Destination {
        /// A description of the problem.
        problem: String,
    },
}

/// Statuses by which a receiver refuses the content of a request: malformed, too large, of no use.
const CONTENT: [u16; 3] = [400, 413, 422];

impl From<Error> for SpanRefusal {
    fn from(error: Error) -> Self {
        let problem = error.to_string();
        match error {
            Error::Unavailable { .. } => Self::Unavailable { problem, wait: None },
            Error::Refused { status } if CONTENT.contains(&status) => Self::Content { problem },
            Error::Refused { .. } | Error::Destination { .. } => Self::Destination { problem },
        }
    }
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "telemetry_receiver_unavailable",
            Self::Refused { .. } => "telemetry_receiver_refused",
            Self::Destination { .. } => "telemetry_destination_invalid",
        }
    }

    /// Tells whether the same spans may be accepted later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
