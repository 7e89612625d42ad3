//! The limits of a call.

use std::time::Duration;

/// How long a call may take, and how much it may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolLimits {
    /// From the call to its result.
    pub time: Duration,
    /// Bytes of the output's text; the rest is cut, with a note.
    pub output_bytes: usize,
}

impl ToolLimits {
    /// Returns limits for tools on the same machine: 30 seconds, 64 KiB.
    #[must_use]
    pub fn standard() -> Self {
        Self { time: Duration::from_secs(30), output_bytes: 64 * 1024 }
    }
}
