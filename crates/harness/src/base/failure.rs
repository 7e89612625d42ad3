//! The failure of a turn as reported to the transport (harness §7, D14, D15).

use singletree_session::{BucketTable, Disposition, FailureBucket, HarnessSurface};

use super::route::HarnessMode;
use crate::Error;
use crate::agents::reply::{Redact, describe_innermost_error, truncate_text};

/// An errored turn, put in its bucket (harness §5.2, §7).
#[derive(Debug)]
pub struct TurnFailure {
    /// The caller's possible reaction.
    pub bucket: FailureBucket,
    /// The error category: the cause's own category where it has one (R29).
    pub category: String,
    /// A description for people: redacted, and cut to [`Limits::diagnostic_bytes`](crate::Limits::diagnostic_bytes).
    pub message: String,
    /// Whether the same transmission again is known to do nothing twice.
    pub retry_safe: bool,
    /// The error itself, with its causes and its data (a completed state that could not be saved, sessions §6.1).
    /// Not redacted.
    pub error: Error,
}

/// How failures are told.
pub(super) struct FailureReporter<'a> {
    pub(super) mode: HarnessMode,
    pub(super) buckets: &'a BucketTable,
    pub(super) redact: &'a Redact,
    pub(super) max_bytes: usize,
}

impl FailureReporter<'_> {
    pub(super) fn make_turn_failure(&self, error: Error) -> TurnFailure {
        let category = error.category().to_owned();
        let Disposition { bucket, retry_safe } =
            self.buckets.look_up_category(&category, HarnessSurface::Base);
        let bucket = match (self.mode, bucket) {
            // There is no session to end (§7.1): the remaining option is that the caller changes its request.
            (HarnessMode::Stateless, FailureBucket::SessionTerminating) => FailureBucket::UserCorrectable,
            (HarnessMode::Stateless | HarnessMode::Sessioned, bucket) => bucket,
        };
        TurnFailure {
            bucket,
            category,
            message: truncate_text(&(self.redact)(&describe_innermost_error(&error)), self.max_bytes),
            // A turn whose subscription failed has run up to its pause, and its session is saved.
            retry_safe: retry_safe && !matches!(error, Error::Subscription { .. }),
            error,
        }
    }
}
