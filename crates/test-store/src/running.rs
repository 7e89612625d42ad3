//! The writes of a database that are on their way.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// After how long a write counts as stuck.
const STUCK: Duration = Duration::from_secs(10);

/// Counts writes. In memory a write that was begun has landed; who opens a database again waits for those that were begun, so
/// that a test does not depend on which of them were faster.
#[derive(Debug, Default)]
pub(crate) struct RunningWrites {
    count: Mutex<u64>,
    ended: Condvar,
}

/// A write on its way.
#[derive(Debug)]
pub(crate) struct RunningWrite(Arc<RunningWrites>);

impl RunningWrites {
    /// Counts a write until it is dropped.
    pub(crate) fn begin(writes: &Arc<Self>) -> RunningWrite {
        *writes.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        RunningWrite(Arc::clone(writes))
    }

    /// Blocks the thread until there is none, or one is stuck.
    pub(crate) fn wait_for_none(&self) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.ended.wait_timeout_while(count, STUCK, |count| *count > 0));
    }
}

impl Drop for RunningWrite {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}
