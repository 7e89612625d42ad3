//! How Langfuse traces are rendered.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use singletree_engine::Snapshot;

use crate::payload::PayloadCap;
use crate::settings::{LlmSpanScope, SpanSettings};

/// Shows a state as the input or output of a trace; nothing where it has nothing to show.
#[derive(Clone)]
pub struct StateView(Arc<ShowState>);

type ShowState = dyn Fn(&Snapshot) -> Option<Value> + Send + Sync;

impl StateView {
    /// Makes a view of a function.
    pub fn new(show: impl Fn(&Snapshot) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    pub(super) fn show(&self, state: &Snapshot) -> Option<Value> {
        (self.0)(state)
    }
}

impl fmt::Debug for StateView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateView")
    }
}

/// How Langfuse traces are rendered (spec: observability §8.4.1, §8.9).
#[derive(Debug, Clone)]
pub struct LangfuseSettings {
    pub(super) spans: SpanSettings,
    pub(super) payload_cap: PayloadCap,
    pub(super) disable_state_payload: bool,
    pub(super) input_from_state: Option<StateView>,
    pub(super) output_from_state: Option<StateView>,
}

impl Default for LangfuseSettings {
    fn default() -> Self {
        Self {
            spans: SpanSettings::new().llm_spans(LlmSpanScope::Call),
            payload_cap: PayloadCap::default(),
            disable_state_payload: true,
            input_from_state: None,
            output_from_state: None,
        }
    }
}

impl LangfuseSettings {
    /// Makes the settings of the specification: nothing detached, no payloads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the subgraphs of these names traces of their own.
    #[must_use]
    pub fn detach_subgraphs(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.spans = self.spans.detach_subgraphs(names);
        self
    }

    /// Gives each instance of the fan-out nodes of these names a trace of its own.
    #[must_use]
    pub fn detach_fan_outs(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.spans = self.spans.detach_fan_outs(names);
        self
    }

    /// Sets whether generations are left out; they are not otherwise.
    #[must_use]
    pub fn disable_llm_spans(mut self, disable: bool) -> Self {
        self.spans = self.spans.disable_llm_spans(disable);
        self
    }

    /// Sets whether texts, arguments and results are left out; they are otherwise.
    #[must_use]
    pub fn disable_provider_payload(mut self, disable: bool) -> Self {
        self.spans = self.spans.disable_provider_payload(disable);
        self
    }

    /// Sets whether the states at the ends of an invocation are left out; they are otherwise.
    #[must_use]
    pub fn disable_state_payload(mut self, disable: bool) -> Self {
        self.disable_state_payload = disable;
        self
    }

    /// Sets how long one payload may be.
    #[must_use]
    pub fn payload_cap(mut self, cap: PayloadCap) -> Self {
        self.spans = self.spans.payload_cap(cap);
        self.payload_cap = cap;
        self
    }

    /// Sets what a trace shows as its input, made of the state at the beginning.
    #[must_use]
    pub fn trace_input_from_state(mut self, view: StateView) -> Self {
        self.input_from_state = Some(view);
        self
    }

    /// Sets what a trace shows as its output, made of the state at the end.
    #[must_use]
    pub fn trace_output_from_state(mut self, view: StateView) -> Self {
        self.output_from_state = Some(view);
        self
    }
}
