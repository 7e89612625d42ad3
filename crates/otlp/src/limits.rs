//! The bounds of an export (INV-12).

use std::time::Duration;

/// The bounds of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportLimits {
    /// How many bytes a request has at most, before compression. A single span that is larger is sent alone.
    pub request_bytes: usize,
    /// How many bytes of an answer are read at most.
    pub answer_bytes: u64,
    /// How often a request is sent at most.
    pub attempts: u32,
    /// How long the first wait between two attempts is, without what is drawn. Each further wait is twice as long.
    pub first_wait: Duration,
    /// How long a wait is at most, also where the receiver asks for more.
    pub longest_wait: Duration,
    /// How long one attempt may take.
    pub attempt_time: Duration,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self {
            // Half of what receivers take by default (4 MiB).
            request_bytes: 2 * 1024 * 1024,
            answer_bytes: 64 * 1024,
            attempts: 5,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
            attempt_time: Duration::from_secs(30),
        }
    }
}
