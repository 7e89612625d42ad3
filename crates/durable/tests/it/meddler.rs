//! A journal in which somebody else is always a little faster.

use std::collections::VecDeque;
use std::sync::Mutex;

use singletree_durable::{Batch, BoxFuture, Journal, JournalLayer, MemoryStore, Result};

/// Lands the next of its own batches right before each batch of the caller.
#[derive(Debug)]
pub(crate) struct Meddler {
    inner: MemoryStore,
    next: Mutex<VecDeque<Batch>>,
}

impl Meddler {
    pub(crate) fn new(inner: MemoryStore, batches: impl Into<VecDeque<Batch>>) -> Self {
        Self { inner, next: Mutex::new(batches.into()) }
    }
}

impl JournalLayer for Meddler {
    type Journal = MemoryStore;

    fn inner_journal(&self) -> &Self::Journal {
        &self.inner
    }

    fn write_batch(&self, batch: Batch) -> BoxFuture<'static, Result<()>> {
        if let Some(meddle) = self.next.lock().expect("no test panics here").pop_front() {
            // The memory store writes when it is called.
            drop(self.inner.apply(meddle));
        }
        self.inner.apply(batch)
    }
}
