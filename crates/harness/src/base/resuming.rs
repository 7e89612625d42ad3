//! Which invocations are being resumed right now: one signal at a time each.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use singletree_durable::InvocationId;

/// The invocations that a signal is resuming in this process.
#[derive(Debug, Default)]
pub(super) struct Resuming {
    /// Guards the set; never held across an await.
    invocations: Mutex<BTreeSet<InvocationId>>,
}

impl Resuming {
    /// Reserves an invocation, unless another signal has it.
    pub(super) fn reserve(&self, invocation: InvocationId) -> Option<Reserved<'_>> {
        let reserved = self.invocations().insert(invocation.clone());
        reserved.then(|| Reserved { resuming: self, invocation })
    }

    fn invocations(&self) -> MutexGuard<'_, BTreeSet<InvocationId>> {
        self.invocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to resume an invocation, until it is dropped.
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    resuming: &'a Resuming,
    pub(super) invocation: InvocationId,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.resuming.invocations().remove(&self.invocation);
    }
}
