//! The digest of a run: two runs of a seed are equal exactly when their digests are.

use std::fmt;

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Folds bytes into a digest (FNV-1a). It is stable across builds and platforms, unlike the hashers of the standard
/// library.
pub(crate) fn fold_bytes(digest: u64, bytes: &[u8]) -> u64 {
    let seeded = if digest == 0 { OFFSET } else { digest };
    bytes.iter().fold(seeded, |folded, byte| (folded ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// Digests everything that is written to it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventDigest(u64);

impl EventDigest {
    /// Adds a number.
    pub(crate) fn add_number(&mut self, number: u64) {
        self.0 = fold_bytes(self.0, &number.to_le_bytes());
    }

    /// Returns the digest so far.
    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Write for EventDigest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = fold_bytes(self.0, text.as_bytes());
        Ok(())
    }
}
