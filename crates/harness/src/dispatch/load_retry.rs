//! Sessions that could not be read: how often they are read again before a turn runs, and the error that callers get.

use crate::dispatch::runner::session_load_error;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::store_wait::StoreWait;
use crate::{Error, Result};

impl ChatInner {
    /// Tells a caller why its message was not accepted. A session that cannot be read is a failed load (sessions §10); while a
    /// store is away that is waited for, nothing is wrong with the session, and the caller may try again.
    pub(crate) fn translate_load_error<T>(&self, loaded: Result<T>) -> Result<T> {
        let is_away = |error: &Error| error.is_unavailable() && self.journal.has_other_writers();
        loaded.map_err(|error| if is_away(&error) { error } else { session_load_error(error) })
    }
}

/// Whether a session that could not be read is read again: once, and then while its store is waited for.
pub(super) struct LoadRetry<'a> {
    inner: &'a ChatInner,
    wait: StoreWait,
    failed_before: bool,
}

impl<'a> LoadRetry<'a> {
    pub(super) fn new(inner: &'a ChatInner) -> Self {
        Self { inner, wait: inner.begin_store_wait(), failed_before: false }
    }

    /// Waits a moment after an attempt that failed, unless it was the last one. A read that took too long is repeated only where
    /// the store is waited for.
    pub(super) async fn may_load_again(&mut self, failed: Option<&Error>) -> bool {
        let is_waited_for = !self.inner.is_store_wait_over(self.wait);
        let is_again = is_waited_for || !self.failed_before;
        self.failed_before = true;
        let may_succeed = |error: &Error| error.is_transient() || is_waited_for && error.is_unavailable();
        is_again && failed.is_some_and(may_succeed) && self.inner.pause_before_load().await
    }
}
