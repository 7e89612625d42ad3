//! Where rendered spans are sent.

use std::fmt;
use std::time::Duration;

use singletree_env::BoxFuture;

use crate::span::TraceSpan;

/// Takes spans, such as a collector of OpenTelemetry's or a program's own database.
pub trait SpanReceiver: fmt::Debug + Send + Sync {
    /// Sends spans of one tenant, of one or more turns. The same spans may come again, with the same ids: a receiver keeps
    /// either of two spans with one id.
    ///
    /// # Errors
    /// [`SpanRefusal`]. The receiver may have taken some of the spans.
    ///
    /// # Cancellation
    /// Dropping the future ends the request; the receiver may have taken the spans.
    fn send_spans<'a>(
        &'a self,
        spans: &'a [TraceSpan],
    ) -> BoxFuture<'a, std::result::Result<SpanReceipt, SpanRefusal>>;
}

/// The answer of a receiver that took spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanReceipt {
    /// How many of them it dropped. It would drop them again.
    pub rejected: u64,
    /// Its explanation.
    pub message: Option<String>,
}

/// Why a receiver took no spans.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpanRefusal {
    /// It cannot take anything now. The same spans may be accepted later.
    Unavailable {
        /// A description of the problem.
        problem: String,
        /// How long it asks to wait.
        wait: Option<Duration>,
    },
    /// It refuses all spans, such as for its address or credentials. Spans are accepted once an operator has
    /// changed that.
    Destination {
        /// A description of the problem.
        problem: String,
    },
    /// It refuses these spans, such as for their size.
    Content {
        /// A description of the problem.
        problem: String,
    },
}

impl SpanRefusal {
    /// Returns a description of the problem.
    #[must_use]
    pub fn problem(&self) -> &str {
        match self {
            Self::Unavailable { problem, .. } | Self::Destination { problem } | Self::Content { problem } => {
                problem
            }
        }
    }
}

impl fmt::Display for SpanRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.problem())
    }
}

impl std::error::Error for SpanRefusal {}
