//! Where what nobody may guess comes from (INV-11).

use std::fmt;

/// Draws bytes that nobody can guess: keys, tokens, codes.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Fills the bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("an operating system that cannot draw bytes keeps no secret");
    }
}
