//! The trace in which the calls of a turn go out, and which its commits tell of.

use std::sync::Arc;

use singletree_engine::{CallTracing, TraceHeaders, TracedCall};
use singletree_session::{BatchBuilder, TurnState};
use singletree_telemetry::InvocationTrace;

use super::{JournalPort, lock_unpoisoned};

impl JournalPort {
    /// Tells whether the invocation has a trace that its calls pass on.
    pub(crate) fn has_trace(&self) -> bool {
        self.inner.unsent_turns.notes_turns() || lock_unpoisoned(&self.turning).trace.is_some()
    }

    /// Returns the trace of the invocation, for a call of a node.
    pub(crate) fn invocation_trace(&self) -> Option<&InvocationTrace> {
        let make = || self.inner.invocation_trace(&lock_unpoisoned(&self.turning), &self.loaded.key);
        self.trace.get_or_init(make).as_ref()
    }

    /// Says in a commit which trace the invocation is in, for the notices that it writes.
    pub(super) fn add_trace(&self, writing: &mut BatchBuilder, turning: &TurnState) {
        writing.trace = self.inner.invocation_trace(turning, &self.loaded.key).map(|trace| trace.headers());
    }
}

impl CallTracing for JournalPort {
    fn trace_of_invocation(&self) -> Option<Arc<TraceHeaders>> {
        Some(self.invocation_trace()?.headers())
    }

    fn trace_of_call(&self, call: TracedCall<'_>) -> Option<Arc<TraceHeaders>> {
        self.invocation_trace()?.trace_of_call(call)
    }
}
