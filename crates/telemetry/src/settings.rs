//! How spans are rendered.

use std::collections::BTreeSet;

use singletree_engine::Identity;

use crate::ids::{SpanId, TraceId};
use crate::payload::PayloadCap;
use crate::trace_context::TraceContext;

/// Which spans model calls have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LlmSpanScope {
    /// One for each attempt (spec: observability §5.5).
    #[default]
    Attempt,
    /// One for each call (§8.4.3).
    Call,
}

/// Whose names spans and attributes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpanProfile {
    /// Those of the specification.
    #[default]
    OpenArmature,
    /// Those of OpenTelemetry's conventions for generative AI, where these have any, and all attributes of the
    /// specification with a name of its own.
    GenAi,
}

/// How spans are rendered (spec: observability §4.4, §5.1, §5.5.4).
#[derive(Debug, Clone, PartialEq)]
pub struct SpanSettings {
    pub(crate) detached_subgraphs: BTreeSet<String>,
    pub(crate) detached_fan_outs: BTreeSet<String>,
    pub(crate) disable_llm_spans: bool,
    pub(crate) disable_provider_payload: bool,
    pub(crate) disable_genai_semconv: bool,
    pub(crate) payload_cap: PayloadCap,
    pub(crate) llm_spans: LlmSpanScope,
    pub(crate) profile: SpanProfile,
    caller: Option<TraceContext>,
    pub(crate) seed: Option<Vec<u8>>,
    pub(crate) earlier: Option<SpanId>,
    pub(crate) implementation: (String, String),
}

/// The version of the specification that the spans follow: its text names no version, so this is the last one that its
/// changes mention.
pub(crate) const SPEC_VERSION: &str = "0.112.0";

/// The specification's name for an implementation in this language (§5.1).
const IMPLEMENTATION_NAME: &str = "openarmature-rust";

impl Default for SpanSettings {
    fn default() -> Self {
        Self {
            detached_subgraphs: BTreeSet::new(),
            detached_fan_outs: BTreeSet::new(),
            disable_llm_spans: false,
            disable_provider_payload: true,
            disable_genai_semconv: false,
            payload_cap: PayloadCap::default(),
            llm_spans: LlmSpanScope::default(),
            profile: SpanProfile::default(),
            caller: None,
            seed: None,
            earlier: None,
            implementation: (IMPLEMENTATION_NAME.to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        }
    }
}

impl SpanSettings {
    /// Makes the settings of the specification: nothing detached, no payloads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the subgraphs of these names traces of their own. A subgraph is known by the name of its graph, and by that
    /// of its node.
    #[must_use]
    pub fn detach_subgraphs(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.detached_subgraphs.extend(names.into_iter().map(Into::into));
        self
    }

    /// Gives each instance of the fan-out nodes of these names a trace of its own.
    #[must_use]
    pub fn detach_fan_outs(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.detached_fan_outs.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets whether spans of model calls are left out; they are not otherwise.
    #[must_use]
    pub fn disable_llm_spans(mut self, disable: bool) -> Self {
        self.disable_llm_spans = disable;
        self
    }

    /// Sets whether texts, arguments and results are left out; they are otherwise.
    #[must_use]
    pub fn disable_provider_payload(mut self, disable: bool) -> Self {
        self.disable_provider_payload = disable;
        self
    }

    /// Sets whether the attributes of the GenAI conventions are left out; they are not otherwise.
    #[must_use]
    pub fn disable_genai_semconv(mut self, disable: bool) -> Self {
        self.disable_genai_semconv = disable;
        self
    }

    /// Tells whether texts, arguments and results are wanted.
    #[must_use]
    pub fn wants_payloads(&self) -> bool {
        !self.disable_provider_payload
    }

    /// Sets how long one attribute with a payload may be.
    #[must_use]
    pub fn payload_cap(mut self, cap: PayloadCap) -> Self {
        self.payload_cap = cap;
        self
    }

    /// Sets which spans model calls have.
    #[must_use]
    pub fn llm_spans(mut self, scope: LlmSpanScope) -> Self {
        self.llm_spans = scope;
        self
    }

    /// Sets whose names spans and attributes have; the specification's otherwise.
    #[must_use]
    pub fn profile(mut self, profile: SpanProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the trace that the invocation is part of, and the span in it that is around the invocation. Without it the
    /// invocation is the root of a trace of its own. Spans are rendered whether the caller keeps them or not.
    #[must_use]
    pub fn caller_context(mut self, caller: TraceContext) -> Self {
        self.caller = Some(caller);
        self
    }

    /// Sets from what the ids of spans are derived: bytes that are the invocation's run alone, and the same in each
    /// process that renders it. Without it they are derived from the invocation's id, its beginning and whether it was
    /// resumed.
    #[must_use]
    pub fn id_seed(mut self, seed: impl Into<Vec<u8>>) -> Self {
        self.seed = Some(seed.into());
        self
    }

    /// Sets the span of the suspended run that a resumed one continues, where only the events of the resumed run are
    /// rendered: its span is then a child of the other, in the same trace, and links to it.
    #[must_use]
    pub fn goes_on_with(mut self, span: SpanId) -> Self {
        self.earlier = Some(span);
        self
    }

    /// Returns the id of the trace that the spans of an invocation are in.
    #[must_use]
    pub fn trace_of(&self, identity: &Identity) -> TraceId {
        self.context_around(identity).0
    }

    pub(crate) fn detaches_subgraph(&self, graph_name: Option<&str>, node_name: &str) -> bool {
        graph_name.into_iter().chain([node_name]).any(|name| self.detached_subgraphs.contains(name))
    }

    /// Returns the trace of an invocation, and the span that is around it.
    pub(crate) fn context_around(&self, identity: &Identity) -> (TraceId, Option<SpanId>) {
        match &self.caller {
            Some(caller) => (caller.trace_id, Some(caller.parent_id)),
            None => (TraceId::of_invocation(identity), None),
        }
    }
}
