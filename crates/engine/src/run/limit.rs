//! The limits of a run (INV-12).

use crate::error::{Error, Result};

/// The bounds of one invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Node executions in one invocation, across suspensions; one more is `invocation_limit_exceeded`.
    pub steps: u64,
    /// Instances of one fan-out; one more is `invocation_limit_exceeded` before any of them begins.
    pub instances: u64,
    /// Events that may wait for slow observers of one invocation; beyond it that invocation's observers get no more,
    /// and drain counts the rest as undelivered (INV-10).
    pub observer_backlog: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 100_000, instances: 100_000, observer_backlog: 100_000 }
    }
}

impl Limits {
    pub(crate) fn check_instance_count(&self, count: u64) -> Result<()> {
        let max = self.instances;
        if count <= max { Ok(()) } else { Err(Error::Limit { limit: "instances", max }) }
    }
}
