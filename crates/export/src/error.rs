//! Why a backfill ended before its end.

use singletree_telemetry::SpanRefusal;

/// The result of a backfill.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a backfill ended before its end. The turns that were sent before may be sent again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Turns cannot be read.
    #[error("the turns to send cannot be read")]
    Chat {
        /// The chat's error.
        source: singletree_harness::Error,
    },
    /// The receiver took nothing.
    #[error("{refusal}")]
    Receiver {
        /// Why.
        refusal: SpanRefusal,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &str {
        match self {
            Self::Chat { source } => source.category(),
            Self::Receiver { refusal: SpanRefusal::Unavailable { .. } } => "telemetry_receiver_unavailable",
            Self::Receiver { .. } => "telemetry_receiver_refused",
        }
    }
}

impl From<singletree_harness::Error> for Error {
    fn from(source: singletree_harness::Error) -> Self {
        Self::Chat { source }
    }
}
