//! The log of landed batches, to play them on other stores.

use std::sync::{Arc, Mutex, PoisonError};

use singletree_durable::{Batch, Result};

/// Something that the data of the simulated store went through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LandedWrite {
    /// A process opened the store.
    Opened,
    /// A batch arrived at the data; the category of its refusal, if it was refused.
    Batch(Batch, Option<&'static str>),
}

/// The log, when one is kept. A clone is the same log.
#[derive(Debug, Clone, Default)]
pub(crate) struct LandingLog(Option<Arc<Mutex<Vec<LandedWrite>>>>);

impl LandingLog {
    /// Makes a log that keeps what it is told, or one that does not.
    pub(crate) fn new(is_kept: bool) -> Self {
        Self(is_kept.then(Arc::default))
    }

    /// Tells whether it keeps what it is told.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn note_opening(&self) {
        self.note_write(LandedWrite::Opened);
    }

    pub(crate) fn note_landing(&self, batch: Batch, answer: &Result<()>) {
        self.note_write(LandedWrite::Batch(
            batch,
            answer.as_ref().err().map(singletree_durable::Error::category),
        ));
    }

    fn note_write(&self, write: LandedWrite) {
        if let Some(log) = &self.0 {
            log.lock().unwrap_or_else(PoisonError::into_inner).push(write);
        }
    }

    /// Returns what it has kept.
    pub(crate) fn writes(&self) -> Vec<LandedWrite> {
        self.0
            .as_ref()
            .map(|log| log.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default()
    }
}
