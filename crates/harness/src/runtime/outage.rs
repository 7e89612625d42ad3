//! How long a run waits for a store that is away.

use std::time::Duration;

use crate::runtime::chat_inner::ChatInner;

/// A time in which the store could not be reached, from the first call that failed.
///
/// A store that other processes write, too, is a database of its own: it is restarted, or fails over, while this process lives.
/// So a run waits for it, up to [`Limits::store_outage`](crate::Limits::store_outage). A file that cannot be written is not waited for: a run
/// that needs it ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreOutage {
    /// By the monotonic clock; none where nothing is waited for.
    until: Option<Duration>,
}

impl ChatInner {
    /// A call that may fail because the store is away begins.
    pub(crate) fn begin_outage(&self) -> StoreOutage {
        let now = self.env.monotonic.elapsed_since_origin();
        let until = self.journal.has_other_writers().then(|| now.saturating_add(self.limits.store_outage));
        StoreOutage { until }
    }

    /// Tells whether nothing more is waited for.
    pub(crate) fn is_outage_over(&self, outage: StoreOutage) -> bool {
        outage.until.is_none_or(|until| self.env.monotonic.elapsed_since_origin() >= until)
    }
}
