//! Spans that begin.

use std::sync::Arc;

use singletree_engine::NodeLineage;
use singletree_env::Timestamp;

use crate::attribute::Attributes;
use crate::ids::{SpanId, TraceId};
use crate::span::{SpanStatus, SpanSubject, TraceSpan};

/// A span that begins: everything but its trace, parent and number.
pub(crate) struct SpanDraft {
    pub(crate) span_id: SpanId,
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Arc<[Arc<str>]>,
    pub(crate) lineage: NodeLineage,
    pub(crate) at: Timestamp,
    pub(crate) attributes: Attributes,
    pub(crate) subject: SpanSubject,
}

impl SpanDraft {
    pub(crate) fn into_span(self, (trace_id, parent_id): (TraceId, Option<SpanId>), order: u64) -> TraceSpan {
        TraceSpan {
            trace_id,
            span_id: self.span_id,
            parent_id,
            trace_state: None,
            name: self.name,
            namespace: self.namespace,
            lineage: self.lineage,
            started_at: self.at,
            ended_at: self.at,
            order,
            status: SpanStatus::Unset,
            attributes: self.attributes,
            exception: None,
            links: Vec::new(),
            subject: self.subject,
        }
    }
}

/// A unit that has a trace of its own.
pub(crate) struct DetachedUnit<'a> {
    pub(crate) kind: &'a str,
    pub(crate) name: Arc<str>,
    pub(crate) subject: SpanSubject,
    pub(crate) around: (TraceId, Option<SpanId>),
    pub(crate) graph_name: Option<&'a Arc<str>>,
    pub(crate) entry_node: Option<&'a Arc<str>>,
}
