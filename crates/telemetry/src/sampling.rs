//! Which invocations are exported.

use std::collections::BTreeMap;

use crate::ids::TraceId;
use crate::trace_context::TraceContext;

/// The share of invocations whose turns are exported: all, where nothing else is said.
///
/// An invocation is exported whole or not at all, in every process. Where it was called with a `traceparent`, this says
/// whether its trace is kept; else its trace's id decides (W3C Trace Context, level 2, randomness of trace ids).
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

    /// Tells whether the trace of an invocation is kept, which was called with this context.
    #[must_use]
    pub fn includes(&self, agent: &str, trace: TraceId, caller: Option<TraceContext>) -> bool {
        if let Some(caller) = caller {
            return caller.is_sampled;
        }
        let share = self.agents.get(agent).copied().or(self.default).unwrap_or(1.0);
        trace.is_in_share(share)
    }
}
