//! Where narration goes.

use std::fmt;

use crate::Narration;

/// Takes narration.
///
/// # Contract
/// `emit` never fails and never blocks: a sink that cannot keep up drops. It returns nothing, so that nobody can depend on
/// what became of it.
pub trait NarrationSink: fmt::Debug + Send + Sync {
    /// Takes one piece of narration.
    fn emit(&self, narration: Narration);
}

/// A sink that drops everything: narration is off.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNarration;

impl NarrationSink for NoNarration {
    fn emit(&self, narration: Narration) {
        drop(narration);
    }
}
