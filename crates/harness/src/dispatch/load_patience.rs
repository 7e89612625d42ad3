//! How often a session that could not be read is read again before its turn runs.

use crate::runtime::chat_inner::ChatInner;
use crate::runtime::outage::StoreOutage;

/// Whether a session that could not be read is read again: once, and for as long as its store is waited for.
pub(super) struct LoadPatience<'a> {
    inner: &'a ChatInner,
    outage: StoreOutage,
    has_failed: bool,
}

impl<'a> LoadPatience<'a> {
    pub(super) fn new(inner: &'a ChatInner) -> Self {
        Self { inner, outage: inner.begin_outage(), has_failed: false }
    }

    /// Waits a moment after an attempt that failed, unless it was the last one.
    pub(super) async fn may_load_again(&mut self, has_failed: bool) -> bool {
        let is_last = self.has_failed && self.inner.is_outage_over(self.outage);
        self.has_failed = true;
        has_failed && !is_last && self.inner.pause_before_load().await
    }
}
