//! The bounds of the controller.

use std::time::Duration;

/// The bounds of the controller (INV-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerLimits {
    /// How many cycles run at once, of all campaigns together; at least 1.
    pub cycles_at_once: usize,
    /// How many proposals of an agent may be refused in a row; one more is an error of the campaign (D30).
    pub repairs: u64,
    /// How long a tool may take that reads a proof.
    pub proof_time: Duration,
    /// How many streams may follow campaigns at once.
    pub followers: usize,
    /// How long the runner waits before it tries again what the store refused.
    pub store_retry: Duration,
    /// How often the runner looks for campaigns that another process left, where several share the store.
    pub look_every: Duration,
}

impl Default for ControllerLimits {
    fn default() -> Self {
        Self {
            cycles_at_once: 8,
            repairs: 3,
            proof_time: Duration::from_secs(30),
            followers: 1_000,
            store_retry: Duration::from_secs(1),
            look_every: Duration::from_secs(5),
        }
    }
}
