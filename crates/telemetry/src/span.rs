//! Spans, as plain data.

use std::sync::Arc;

use singletree_engine::{Identity, LlmCall, NodeLineage, Snapshot, ToolExecution};
use singletree_env::Timestamp;

use crate::attribute::Attributes;
use crate::ids::{SpanId, TraceId};

/// A span (spec: observability §4).
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub span_id: SpanId,
    /// The span around it; nothing at the root of a trace.
    pub parent_id: Option<SpanId>,
    /// The `tracestate` of the caller, in a trace that is the caller's (W3C Trace Context §3.3).
    pub trace_state: Option<Arc<str>>,
    /// Its name.
    pub name: Arc<str>,
    /// The path to the node that it is at, outermost first; empty for an invocation.
    pub namespace: Arc<[Arc<str>]>,
    /// The boundaries to what it is of: one less than the namespace for a node, as many for an inner run.
    pub lineage: NodeLineage,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Its place among the spans of the invocation in the order in which they began.
    pub order: u64,
    /// How it ended.
    pub status: SpanStatus,
    /// Its attributes.
    pub attributes: Attributes,
    /// The error that it ended with.
    pub exception: Option<SpanException>,
    /// Other traces that belong to it.
    pub links: Vec<SpanLink>,
    /// What it is of.
    pub subject: SpanSubject,
}

impl TraceSpan {
    /// Changes each text that a receiver gets, as to leave out secrets: the name, the attributes, the texts of errors, and the
    /// `tracestate` of the caller.
    pub fn map_texts(&mut self, change: &dyn Fn(&str) -> String) {
        self.name = change(&self.name).into();
        self.trace_state = self.trace_state.as_deref().map(|state| change(state).into());
        self.attributes.values_mut().for_each(|value| value.map_texts(change));
        if let SpanStatus::Error { description: Some(description) } = &mut self.status {
            *description = change(description);
        }
        if let Some(exception) = &mut self.exception {
            exception.exception_type = change(&exception.exception_type);
            exception.message = change(&exception.message);
        }
    }
}

/// How a span ended (§4.2).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SpanStatus {
    /// Nobody said, because the run was dropped or waits.
    #[default]
    Unset,
    /// Well; a suspension is not a failure, either.
    Ok,
    /// With an error.
    Error {
        /// The category; nothing for an invocation that failed because a node of it did.
        description: Option<String>,
    },
}

impl SpanStatus {
    /// Returns OpenTelemetry's word.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unset => "UNSET",
            Self::Ok => "OK",
            Self::Error { .. } => "ERROR",
        }
    }
}

/// An error, as the event `exception` of a span tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanException {
    /// Its type: the most precise category, or the type or code that the error has.
    pub exception_type: String,
    /// Its message.
    pub message: String,
}

/// A reference to a span of another trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanLink {
    /// The other trace.
    pub trace_id: TraceId,
    /// The span in it.
    pub span_id: SpanId,
}

/// How an invocation ended, for its span.
#[derive(Debug, Clone, PartialEq)]
pub enum InvocationEnding {
    /// It reached its end.
    Completed(Option<Snapshot>),
    /// It waits.
    Suspended,
    /// It failed, with the state as far as it can be recovered.
    Failed(Option<Snapshot>),
}

/// What a span is of.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SpanSubject {
    /// An invocation, or a detached unit of it at the root of its trace.
    Invocation {
        /// Who the invocation is.
        identity: Arc<Identity>,
        /// The entry node of the outermost graph of the trace.
        entry_node: Arc<str>,
        /// What its caller calls it.
        label: Option<Arc<str>>,
        /// Whether it is a detached unit.
        detached: bool,
        /// The state that it began with, where it is known.
        initial_state: Option<Snapshot>,
        /// How it ended, where that is known.
        ending: Option<InvocationEnding>,
        /// The node of the trace's outermost graph that ended last.
        final_node: Option<Arc<str>>,
    },
    /// A node's attempt.
    Node,
    /// A plain subgraph.
    Subgraph,
    /// An instance of a fan-out.
    Instance,
    /// A branch.
    Branch,
    /// A model call, or an attempt of one.
    Llm(Arc<LlmCall>),
    /// An execution of a tool.
    Tool(Arc<ToolExecution>),
}
