//! The bounds of an export (INV-12).

use std::time::Duration;

/// The bounds of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportLimits {
    /// How long after its end a turn is still sent.
    pub max_age: Duration,
    /// How many bytes the records and notes of one tenant's unsent turns have at most. It is checked every
    /// [`look_again`](Self::look_again) while the receiver takes nothing.
    pub max_bytes: u64,
    /// How long an exporter waits for more turns before it sends one.
    pub gather: Duration,
    /// How long it waits before the next attempt when the receiver took nothing and did not say how long, and when the store
    /// failed.
    pub retry: Duration,
    /// How long it waits before the next attempt at a receiver that refuses everything.
    pub retry_refused: Duration,
    /// How long it waits at most, whatever the receiver asks for.
    pub longest_wait: Duration,
    /// It looks for notes in the store at least this often.
    pub look_again: Duration,
}

impl Default for ExportLimits {
    fn default() -> Self {
        Self {
            max_age: Duration::from_hours(24),
            max_bytes: 256 * 1024 * 1024,
            gather: Duration::from_millis(500),
            retry: Duration::from_secs(5),
            retry_refused: Duration::from_mins(1),
            longest_wait: Duration::from_mins(10),
            look_again: Duration::from_mins(5),
        }
    }
}
