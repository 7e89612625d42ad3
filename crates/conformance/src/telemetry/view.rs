//! What invariants look at: the invocations of a case, and what was recorded of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};
use singletree::engine::GraphEvent;
use singletree_telemetry::{LangfuseObservation, SpanSubject, TraceSpan};

use super::event_json::{event_type, typed_event_to_json};
use super::expect::attribute;
use super::runtime::RunTelemetry;
use crate::invariants::InvariantEvidence;
use crate::run::InvocationResult;

/// Whether something holds, or why not.
pub(super) type Holds = Result<(), String>;

/// A check of its own.
pub(super) type TelemetryMeasure = fn(&TelemetryView<'_>) -> Holds;

/// An invariant and its check.
pub(super) type TelemetryRow = (&'static str, TelemetryMeasure);

/// The invocations of a case.
#[derive(Debug)]
pub(super) struct TelemetryView<'a> {
    pub(super) evidence: &'a InvariantEvidence,
    pub(super) runs: Vec<(&'a InvocationResult, &'a RunTelemetry)>,
}

impl<'a> TelemetryView<'a> {
    pub(super) fn new(evidence: &'a InvariantEvidence) -> Self {
        let recorded = evidence.runs.iter().filter_map(|run| Some((run, run.telemetry.as_ref()?)));
        Self { evidence, runs: recorded.collect() }
    }

    /// Returns the last invocation.
    pub(super) fn last_run(&self) -> Result<&'a InvocationResult, String> {
        self.runs.last().map(|(run, _)| *run).ok_or_else(|| "nothing was invoked".into())
    }

    /// Returns what was recorded of the last invocation.
    pub(super) fn last(&self) -> Result<&'a RunTelemetry, String> {
        self.runs.last().map(|(_, recorded)| *recorded).ok_or_else(|| "nothing was recorded".into())
    }

    /// Returns what was recorded of each invocation.
    pub(super) fn recordings(&self) -> impl Iterator<Item = &'a RunTelemetry> {
        self.runs.iter().map(|(_, recorded)| *recorded)
    }

    /// Returns the events of a type of the last invocation, as the fixtures write them.
    pub(super) fn events(&self, kind: &str) -> Result<Vec<Value>, String> {
        let events = self.last()?.events.iter().filter(|event| event_type(event) == kind);
        Ok(events.map(typed_event_to_json).collect())
    }

    /// Returns the one event of a type of the last invocation.
    pub(super) fn single_event(&self, kind: &str) -> Result<Value, String> {
        let mut events = self.events(kind)?;
        match (events.pop(), events.len()) {
            (Some(event), 0) => Ok(event),
            (_, more) => {
                Err(format!("there are {} of {kind}, not one", if more == 0 { 0 } else { more + 1 }))
            }
        }
    }

    /// Returns the spans of the last invocation.
    pub(super) fn spans(&self) -> Result<&'a [TraceSpan], String> {
        let spans = self.last()?.spans.as_slice();
        if spans.is_empty() { Err("there is no span".into()) } else { Ok(spans) }
    }

    /// Returns the spans of model calls of the last invocation.
    pub(super) fn llm_spans(&self) -> Result<Vec<&'a TraceSpan>, String> {
        let is_call = |span: &&TraceSpan| matches!(span.subject, SpanSubject::Llm(_));
        Ok(self.spans()?.iter().filter(is_call).collect())
    }

    /// Returns the observations of all traces of the last invocation.
    pub(super) fn observations(&self) -> Result<Vec<&'a LangfuseObservation>, String> {
        let traces = &self.last()?.traces;
        let mut all = Vec::new();
        for trace in traces {
            trace.observations.iter().for_each(|observation| add_observations(observation, &mut all));
        }
        if all.is_empty() { Err("there is no observation".into()) } else { Ok(all) }
    }

    /// Returns the one generation of the last invocation.
    pub(super) fn single_generation(&self) -> Result<&'a LangfuseObservation, String> {
        let all = self.observations()?;
        let mut generations = all.into_iter().filter(|it| it.observation_type == "generation");
        match (generations.next(), generations.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err("there is no generation".into()),
            (Some(_), Some(_)) => Err("there are several generations".into()),
        }
    }

    /// Returns the mapping that a direct call read.
    pub(super) fn direct_read(&self) -> Result<&'a Arc<Map<String, Value>>, String> {
        self.evidence.direct_read.as_ref().ok_or_else(|| "nothing was called".into())
    }
}

fn add_observations<'a>(observation: &'a LangfuseObservation, all: &mut Vec<&'a LangfuseObservation>) {
    all.push(observation);
    observation.children.iter().for_each(|child| add_observations(child, all));
}

/// Returns the spans at the roots of traces, in the order in which they began.
pub(super) fn root_spans(recorded: &RunTelemetry) -> Vec<&TraceSpan> {
    let mut roots: Vec<&TraceSpan> = recorded.spans.iter().filter(|span| span.parent_id.is_none()).collect();
    roots.sort_by_key(|span| span.order);
    roots
}

/// Returns the correlation ids in everything that was recorded; nothing where something has none.
pub(super) fn correlation_ids(recorded: &RunTelemetry) -> Result<BTreeSet<String>, String> {
    const NAME: &str = "openarmature.correlation_id";
    let of_spans = recorded.spans.iter().map(|span| attribute(span, NAME));
    let of_traces = recorded.traces.iter().map(|trace| trace.metadata.get("correlation_id").cloned());
    let ids = of_spans.chain(of_traces).map(|id| match id {
        Some(Value::String(id)) if !id.is_empty() => Ok(id),
        other => Err(format!("a correlation id is {other:?}")),
    });
    let ids: BTreeSet<String> = ids.collect::<Result<_, _>>()?;
    if ids.is_empty() { Err("nothing was recorded".into()) } else { Ok(ids) }
}

/// Returns the events of nodes among events.
pub(super) fn node_events(events: &[GraphEvent]) -> impl Iterator<Item = &singletree::engine::NodeEvent> {
    events.iter().filter_map(|event| match event {
        GraphEvent::Node(event) => Some(event),
        _ => None,
    })
}
