//! The counts of an export, and its problems.

use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::TenantId;

/// Counts since the exporter was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportCounts {
    /// Turns whose spans a receiver has taken.
    pub sent_turns: u64,
    /// Spans that a receiver has taken.
    pub sent_spans: u64,
    /// Spans among them that the receiver says that it dropped.
    pub rejected_spans: u64,
    /// Turns that were given up: too old, beyond the bound in bytes, refused for good or not readable.
    pub skipped_turns: u64,
    /// Attempts that failed, of which the turns are tried again.
    pub failed_attempts: u64,
}

/// A problem of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExportProblem {
    /// The receiver took nothing; the turns are sent again.
    NotTaken {
        /// A description.
        problem: String,
        /// Whether it refuses everything, until an operator changes something.
        is_refused: bool,
    },
    /// The receiver took spans and dropped some of them.
    Rejected {
        /// How many.
        spans: u64,
        /// Its explanation.
        message: Option<String>,
    },
    /// Turns were given up.
    Skipped {
        /// Their tenant.
        tenant: TenantId,
        /// How many.
        turns: u64,
        /// Why.
        reason: SkipReason,
    },
}

/// Why a turn was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It ended longer ago than is sent.
    Age,
    /// The unsent turns of its tenant had more bytes than are kept.
    Bytes,
    /// The receiver refused its spans for good.
    Refused,
    /// Its records cannot be read.
    Unreadable,
}

impl SkipReason {
    /// Returns the stable word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Bytes => "bytes",
            Self::Refused => "refused",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The counters behind [`ExportCounts`].
#[derive(Debug, Default)]
pub(crate) struct ExportCounters {
    sent_turns: AtomicU64,
    sent_spans: AtomicU64,
    rejected_spans: AtomicU64,
    skipped_turns: AtomicU64,
    failed_attempts: AtomicU64,
}

impl ExportCounters {
    pub(crate) fn count_sent(&self, turns: usize, spans: usize, rejected: u64) {
        self.sent_turns.fetch_add(turns as u64, Ordering::Relaxed);
        self.sent_spans.fetch_add(spans as u64, Ordering::Relaxed);
        self.rejected_spans.fetch_add(rejected, Ordering::Relaxed);
    }

    pub(crate) fn count_skipped(&self, turns: u64) {
        self.skipped_turns.fetch_add(turns, Ordering::Relaxed);
    }

    pub(crate) fn count_failed_attempt(&self) {
        self.failed_attempts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> ExportCounts {
        ExportCounts {
            sent_turns: self.sent_turns.load(Ordering::Relaxed),
            sent_spans: self.sent_spans.load(Ordering::Relaxed),
            rejected_spans: self.rejected_spans.load(Ordering::Relaxed),
            skipped_turns: self.skipped_turns.load(Ordering::Relaxed),
            failed_attempts: self.failed_attempts.load(Ordering::Relaxed),
        }
    }
}
