//! Which invocations are being resumed right now: one signal at a time each.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use singletree_durable::InvocationId;

/// The invocations that a signal is resuming in this process.
#[derive(Debug, Default)]
pub(super) struct ResumingInvocations {
    /// Guards the set; never held across an await.
    invocations: Mutex<BTreeSet<InvocationId>>,
}

impl ResumingInvocations {
    /// Reserves an invocation, unless another signal has it.
    pub(super) fn reserve_invocation(&self, invocation: InvocationId) -> Option<ResumeReservation<'_>> {
        let reserved = self.lock_invocations().insert(invocation.clone());
        reserved.then(|| ResumeReservation { resuming: self, invocation })
    }

    fn lock_invocations(&self) -> MutexGuard<'_, BTreeSet<InvocationId>> {
        self.invocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to resume an invocation, until it is dropped.
#[derive(Debug)]
pub(super) struct ResumeReservation<'a> {
    resuming: &'a ResumingInvocations,
    pub(super) invocation: InvocationId,
}

impl Drop for ResumeReservation<'_> {
    fn drop(&mut self) {
        self.resuming.lock_invocations().remove(&self.invocation);
    }
}
