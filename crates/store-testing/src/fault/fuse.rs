//! The counter of writes.

use std::sync::atomic::{AtomicU64, Ordering};

use singletree_durable::{BoxFuture, Error, Result};

use super::FailedWriteEffect;

/// Counts writes, and fails the n-th one and all later ones.
#[derive(Debug)]
pub(super) struct WriteCountdown {
    n: u64,
    land: FailedWriteEffect,
    calls: AtomicU64,
}

impl WriteCountdown {
    pub(super) fn new(n: u64, land: FailedWriteEffect) -> Self {
        Self { n, land, calls: AtomicU64::new(0) }
    }

    pub(super) fn has_fired(&self) -> bool {
        self.calls.load(Ordering::SeqCst) >= self.n
    }

    /// Makes a write or fails it. `write` is called during this call or never, so that the order of calls is kept.
    pub(super) fn guard_write<'a, T: Send + 'a>(
        &self,
        write: impl FnOnce() -> BoxFuture<'a, Result<T>>,
    ) -> BoxFuture<'a, Result<T>> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if call < self.n {
            return write();
        }
        let landing = (call == self.n && self.land == FailedWriteEffect::After).then(write);
        Box::pin(async move {
            if let Some(landing) = landing {
                // The result is ignored: the process counts as dead.
                drop(landing.await);
            }
            Err(dead_process_error())
        })
    }
}

/// Returns the error of every write after the failure.
pub(super) fn dead_process_error() -> Error {
    Error::Unavailable { doing: "write", source: "the process died here".into() }
}
