//! How much narration is held (INV-12).

use std::time::Duration;

/// How much narration is held. Entries beyond a limit are dropped silently, the oldest first: nothing depends on them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NarrationLimits {
    /// Pieces of one session; 0 holds none.
    pub entries: usize,
    /// How long a piece is held.
    pub age: Duration,
    /// Bytes of one text; the rest is cut off.
    pub content_bytes: usize,
    /// Bytes of all entries of all sessions and tenants, including the overhead of holding them.
    pub total_bytes: usize,
    /// Bytes that may wait to be written to the file, where there is one.
    pub waiting_bytes: usize,
    /// Bytes of the file, after which it is put aside and the one that was put aside before is dropped.
    pub file_bytes: u64,
}

impl Default for NarrationLimits {
    fn default() -> Self {
        Self {
            entries: 200,
            age: Duration::from_secs(24 * 3600),
            // Arguments of 4 KiB within a sentence, their digest included.
            content_bytes: 6 << 10,
            total_bytes: 16 << 20,
            waiting_bytes: 1 << 20,
            file_bytes: 8 << 20,
        }
    }
}
