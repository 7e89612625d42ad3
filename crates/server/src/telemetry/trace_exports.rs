//! The metrics and the log lines of the export of traces.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde::Serialize;
use singletree_export::{ExportCounts, ExportProblem};

/// Counters of turns whose traces are exported, and of their spans.
#[derive(Debug, Default)]
pub(super) struct TraceExportMetrics {
    turns: Family<[(&'static str, &'static str); 1], Counter>,
    spans: Family<[(&'static str, &'static str); 1], Counter>,
    failures: Counter,
}

impl TraceExportMetrics {
    pub(super) fn register_counters(&self, to: &mut Registry) {
        // All are there from the beginning: who watches them sees the first one that is skipped.
        self.set_from_counts(ExportCounts::default());
        to.register("trace_export_turns", "Turns whose traces were sent, or given up", self.turns.clone());
        to.register(
            "trace_export_spans",
            "Spans that were sent, or dropped by the receiver",
            self.spans.clone(),
        );
        to.register("trace_export_failures", "Failed attempts to send traces", self.failures.clone());
    }

    pub(super) fn set_from_counts(&self, counts: ExportCounts) {
        let set = |counter: &Counter, value: u64| counter.inner().store(value, Ordering::Relaxed);
        set(&self.turns.get_or_create(&[("outcome", "sent")]), counts.sent_turns);
        set(&self.turns.get_or_create(&[("outcome", "skipped")]), counts.skipped_turns);
        set(
            &self.spans.get_or_create(&[("outcome", "sent")]),
            counts.sent_spans.saturating_sub(counts.rejected_spans),
        );
        set(&self.spans.get_or_create(&[("outcome", "rejected")]), counts.rejected_spans);
        set(&self.failures, counts.failed_attempts);
    }
}

/// A problem of the export.
#[derive(Debug, Serialize)]
pub(super) struct TraceExportLine<'a> {
    pub(super) at: String,
    /// Always `trace_export`.
    pub(super) kind: &'static str,
    /// `not_taken`: the turns are sent again; `refused`: as well, once an operator has changed something; `rejected`: the
    /// receiver dropped spans; `skipped`: turns were given up.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

impl<'a> TraceExportLine<'a> {
    pub(super) fn new(at: String, problem: &'a ExportProblem) -> Option<Self> {
        let line =
            Self { at, kind: "trace_export", state: "", tenant: None, turns: None, spans: None, why: None };
        match problem {
            ExportProblem::NotTaken { problem, is_refused } => {
                let state = if *is_refused { "refused" } else { "not_taken" };
                Some(Self { state, why: Some(problem), ..line })
            }
            ExportProblem::Rejected { spans, message } => {
                Some(Self { state: "rejected", spans: Some(*spans), why: message.as_deref(), ..line })
            }
            ExportProblem::Skipped { tenant, turns, reason } => Some(Self {
                state: "skipped",
                tenant: Some(tenant.as_str()),
                turns: Some(*turns),
                why: Some(reason.as_str()),
                ..line
            }),
            _ => None,
        }
    }
}
