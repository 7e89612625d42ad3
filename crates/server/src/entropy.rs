//! The source of random bytes for secrets (INV-11).

use std::fmt;

/// A source of bytes that nobody can guess, for keys, tokens and codes.
pub trait Entropy: fmt::Debug + Send + Sync {
    /// Fills the bytes.
    fn fill_random_bytes(&self, bytes: &mut [u8]);
}

/// The random number generator of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill_random_bytes(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("an operating system that cannot draw bytes keeps no secret");
    }
}
