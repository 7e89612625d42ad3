//! The bounds of an export (INV-12), and which turns are exported.

use std::collections::BTreeMap;
use std::time::Duration;

use singletree_telemetry::TraceId;

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

/// The share of invocations whose turns are exported: all, where nothing else is said.
///
/// An invocation is exported whole or not at all, in every process: its trace's id decides (W3C Trace Context, level 2,
/// randomness of trace ids).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TraceSampling {
    default: Option<f64>,
    agents: BTreeMap<String, f64>,
}

impl TraceSampling {
    /// Exports all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the share of the agents of which nothing else is said: from 0, none, to 1, all.
    #[must_use]
    pub fn default_share(mut self, share: f64) -> Self {
        self.default = Some(share);
        self
    }

    /// Sets the share of one agent.
    #[must_use]
    pub fn agent_share(mut self, agent: impl Into<String>, share: f64) -> Self {
        self.agents.insert(agent.into(), share);
        self
    }

    pub(crate) fn includes(&self, agent: &str, trace: TraceId) -> bool {
        let share = self.agents.get(agent).copied().or(self.default).unwrap_or(1.0);
        trace.is_in_share(share)
    }
}
