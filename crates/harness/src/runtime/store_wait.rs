//! How long a run waits for a store that is away.

use std::time::Duration;

use crate::runtime::chat_inner::ChatInner;

/// The time for which a call waits for a store that is away, from its first attempt.
///
/// A store that other processes write, too, is a database of its own: it is restarted, or fails over, while this process lives.
/// So a run waits for it, up to [`Limits::store_outage`](crate::Limits::store_outage). A file that cannot be written is not waited for: a run
/// that needs it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreWait {
    /// By the monotonic clock; none where nothing is waited for.
    until: Option<Duration>,
}

impl ChatInner {
    /// Begins to count the time, before the first attempt.
    pub(crate) fn begin_store_wait(&self) -> StoreWait {
        let now = self.env.monotonic.elapsed_since_origin();
        let until = self.journal.has_other_writers().then(|| now.saturating_add(self.limits.store_outage));
        StoreWait { until }
    }

    /// Tells whether the time is over.
    pub(crate) fn is_store_wait_over(&self, wait: StoreWait) -> bool {
        wait.until.is_none_or(|until| self.env.monotonic.elapsed_since_origin() >= until)
    }
}
