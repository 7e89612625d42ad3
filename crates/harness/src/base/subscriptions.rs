//! The coordinator of a single process.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use singletree_durable::{BoxError, BoxFuture, InvocationId};
use singletree_engine::Descriptor;

use super::coordinator::SignalCoordinator;
use super::inbound::SignalTarget;

/// Keeps subscriptions in memory: they do not outlive the process, although the paused records may.
#[derive(Debug)]
pub struct MemoryCoordinator {
    max: usize,
    /// The signal that each invocation waits for; the lock is never held across an await.
    signals: Mutex<BTreeMap<InvocationId, String>>,
}

/// Subscriptions that a coordinator holds unless it is told otherwise.
const MAX: usize = 1 << 16;

impl MemoryCoordinator {
    /// Makes one that holds 65536 subscriptions.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_subscriptions(MAX)
    }

    /// Makes one that holds so many subscriptions; one more fails (INV-12).
    #[must_use]
    pub fn with_max_subscriptions(max: usize) -> Self {
        Self { max, signals: Mutex::default() }
    }

    /// Returns how many invocations wait for a signal.
    #[must_use]
    pub fn count_subscriptions(&self) -> usize {
        self.lock_signals().len()
    }

    fn lock_signals(&self) -> MutexGuard<'_, BTreeMap<InvocationId, String>> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_subscription(&self, signal: &str, invocation: &InvocationId) -> Result<(), BoxError> {
        let mut signals = self.lock_signals();
        if signals.len() >= self.max && !signals.contains_key(invocation) {
            return Err(format!("{} invocations wait already", self.max).into());
        }
        signals.insert(invocation.clone(), signal.to_owned());
        Ok(())
    }

    fn find_invocation(&self, target: &SignalTarget) -> Result<Option<InvocationId>, BoxError> {
        let signals = self.lock_signals();
        match target {
            SignalTarget::Invocation(id) => {
                let id = InvocationId::parse(id)?;
                Ok(signals.contains_key(&id).then_some(id))
            }
            SignalTarget::Signal(signal) => {
                let mut found = signals.iter().filter(|(_, it)| *it == signal).map(|(id, _)| id.clone());
                let first = found.next();
                if found.next().is_some() {
                    return Err(format!("several invocations wait for '{signal}'").into());
                }
                Ok(first)
            }
        }
    }
}

impl Default for MemoryCoordinator {
    fn default() -> Self {
        Self::new()
    }
}

impl SignalCoordinator for MemoryCoordinator {
    fn subscribe<'a>(
        &'a self,
        descriptor: &'a Descriptor,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(ready(self.add_subscription(&descriptor.signal_id, invocation)))
    }

    fn resolve_signal<'a>(
        &'a self,
        target: &'a SignalTarget,
    ) -> BoxFuture<'a, Result<Option<InvocationId>, BoxError>> {
        Box::pin(ready(self.find_invocation(target)))
    }

    fn unsubscribe<'a>(&'a self, invocation: &'a InvocationId) -> BoxFuture<'a, Result<(), BoxError>> {
        self.lock_signals().remove(invocation);
        Box::pin(ready(Ok(())))
    }
}
