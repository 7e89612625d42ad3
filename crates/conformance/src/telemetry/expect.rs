//! Expectations about telemetry, by their keys (conformance-adapter §5.8).

use serde_json::{Value, json};
use singletree_telemetry::{AttributeValue, LangfuseTrace, SpanSubject, TraceSpan};
use std::borrow::Cow;

use super::attributes::{check_absent_attributes, check_attributes};
use super::determinism::check_determinism;
use super::event_json::usage_to_json;
use super::global_tracer;
use super::langfuse::{check_langfuse_trace, check_langfuse_traces};
use super::langfuse_client::OBSERVATION;
use super::measured::telemetry_invariants;
use super::metrics::check_measurements;
use super::runtime::{CapturedLog, RunTelemetry, TelemetryRuntime};
use super::span_tree::{SpanForest, check_parent_trace, check_single_root, check_span_tree, check_traces};
use super::typed_expect::{check_collector, check_node_failure, unknown_collector};
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown_key};
use crate::matcher::ExtraKeyPolicy;
use crate::run::InvocationResult;

/// The keys.
const KEYS: &[&str] = &[
    "span_tree",
    "span_tree_private",
    "span_tree_global",
    "otel_spans",
    "traces",
    "parent_trace",
    "detached_trace_count",
    "no_llm_provider_span",
    "no_openarmature_spans_on_global",
    "no_langfuse_observations_on_global",
    "no_langfuse_observations_on_private",
    "langfuse_observations_on_global",
    "no_spans_emitted",
    "no_langfuse_observations_emitted",
    "invoke_rejects_at_api_boundary",
    "augment_rejects_at_call_site",
    "langfuse_trace",
    "langfuse_traces",
    "first_trace_unchanged",
    "log_records",
    "metrics",
    "observers",
    "node_completed_event_carries_error",
    "invocation_id",
    "invocation_count",
    "determinism_check",
    "response_usage",
    "llm_span_attributes",
    "llm_span_attributes_absent",
    "final_state_bounds",
];

/// Tells whether a key is of an expectation about telemetry.
#[must_use]
pub(crate) fn is_telemetry_key(key: &str) -> bool {
    KEYS.contains(&key)
}

/// Tells whether an expectation is about telemetry, by its key or by the invariants in it: only then are recorders
/// attached.
#[must_use]
pub(crate) fn is_about_telemetry((key, spot): &(String, LocatedNode)) -> bool {
    let names_invariant = |name: &str| spot.node.get_entry(name).is_some();
    is_telemetry_key(key) || (key == "invariants" && telemetry_invariants().any(names_invariant))
}

/// The invocations that an expectation is about, and what recorded them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TelemetryContext<'a> {
    /// The recorders.
    pub(crate) runtime: &'a TelemetryRuntime,
    /// The invocations, in order.
    pub(crate) runs: &'a [&'a InvocationResult],
    /// Whether the number of detached traces is expected, too.
    pub(crate) are_detached_counted: bool,
}

impl<'a> TelemetryContext<'a> {
    fn last_run(&self, spot: &LocatedNode) -> Outcome<(&'a InvocationResult, &'a RunTelemetry)> {
        let last = self.runs.last().and_then(|run| Some((*run, run.telemetry.as_ref()?)));
        last.ok_or_else(|| CaseFailure::build_error(&spot.path, "nothing was recorded"))
    }

    fn recordings(&self) -> impl Iterator<Item = &'a RunTelemetry> + use<'a> {
        self.runs.iter().filter_map(|run| run.telemetry.as_ref())
    }
}

/// Asserts the expectation under a key.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn check_telemetry_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: LocatedNode,
    context: TelemetryContext<'_>,
) -> Outcome<()> {
    let (run, recorded) = context.last_run(&spot)?;
    match key {
        "span_tree" | "span_tree_private" => check_span_tree(checker, spot, recorded),
        "otel_spans" => check_observer_trees(checker, spot, recorded),
        "traces" => check_traces(checker, spot, recorded),
        "parent_trace" => check_parent_trace(checker, spot, recorded),
        "langfuse_trace" => check_langfuse_trace(checker, spot, &recorded.traces),
        "langfuse_traces" => {
            let traces: Vec<&LangfuseTrace> = context.recordings().flat_map(|run| &run.traces).collect();
            check_langfuse_traces(checker, spot, &traces, context.are_detached_counted)
        }
        "log_records" => check_log_records(checker, spot, &recorded.logs),
        "metrics" => check_measurements(checker, spot, &recorded.measurements),
        "observers" => check_observers(checker, spot, recorded),
        "node_completed_event_carries_error" => check_node_failure(checker, spot, &recorded.events),
        "determinism_check" => check_determinism(checker, spot, &context.recordings().collect::<Vec<_>>()),
        "llm_span_attributes" => match single_llm_span(recorded) {
            Ok(span) => check_attributes(checker, spot, &span.attributes),
            Err(what) => record_failure(checker, &spot, what),
        },
        "llm_span_attributes_absent" => match single_llm_span(recorded) {
            Ok(span) => check_absent_attributes(checker, spot, &span.attributes),
            Err(what) => record_failure(checker, &spot, what),
        },
        "final_state_bounds" => check_state_bounds(checker, spot, run),
        _ => {
            check_plain_key(checker, key, &spot, (run, recorded), context);
            Ok(())
        }
    }
}

fn record_failure(checker: &mut AssertionChecker, spot: &LocatedNode, what: String) -> Outcome<()> {
    checker.check_result(&spot.path, Err(what));
    Ok(())
}

/// Asserts expectations whose value is a number, a text or a truth value.
fn check_plain_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    (run, recorded): (&InvocationResult, &RunTelemetry),
    context: TelemetryContext<'_>,
) {
    let none = |what: &str, count: usize| ensure(count == 0, || format!("there are {count} {what}"));
    match key {
        "detached_trace_count" => {
            let count = SpanForest::new(&recorded.spans).traces.len();
            checker.check_exact(spot, count.saturating_sub(1));
        }
        "invocation_count" => checker.check_exact(spot, context.runs.len()),
        "invocation_id" => checker.check_exact(spot, run.invocation_id()),
        "no_llm_provider_span" => {
            let spans = recorded.spans.iter().filter(|span| matches!(span.subject, SpanSubject::Llm(_)));
            checker.check_truth(spot, none("spans of model calls", spans.count()));
        }
        "no_spans_emitted" => checker.check_truth(spot, none("spans", recorded.spans.len())),
        "no_langfuse_observations_emitted" => {
            checker.check_truth(spot, none("traces", recorded.traces.len()));
        }
        "invoke_rejects_at_api_boundary" => {
            let refused = run.ended.as_ref().err().map(singletree::engine::Error::category);
            let before_work = run.reel.visits.is_empty() && recorded.events.is_empty();
            let holds = refused == Some("invalid_argument") && before_work;
            checker.check_truth(spot, ensure(holds, || format!("it ended with {refused:?}, after work")));
        }
        "augment_rejects_at_call_site" => checker.check_truth(spot, ensure_addition_refused(recorded)),
        "first_trace_unchanged" => {
            checker.check_truth(spot, context.runtime.ensure_traces_unchanged());
        }
        "response_usage" => {
            let usage = recorded.answers.last().map(|answer| usage_to_json(&answer.usage));
            checker.check_value(spot, &json!(usage), ExtraKeyPolicy::Refused);
        }
        "span_tree_global" => {
            // Spans of other libraries have no parents here: a list of names is all that there is to compare.
            let spans = global_tracer::exported_spans();
            let trees = spans.iter().map(|span| json!({"name": span.name, "children": []}));
            checker.check_exact(spot, trees.collect::<Vec<_>>());
        }
        "no_langfuse_observations_on_global" => {
            let leaked =
                ensure_delivered(recorded).and_then(|()| none("observations", observations_on_global()));
            checker.check_truth(spot, leaked);
        }
        "no_langfuse_observations_on_private" => {
            let is_observation = |name: &Cow<'_, str>| name.starts_with(OBSERVATION);
            let leaked = recorded.spans.iter().filter(|span| span.attributes.keys().any(is_observation));
            let leaked = leaked.count();
            checker.check_truth(spot, ensure_delivered(recorded).and_then(|()| none("observations", leaked)));
        }
        "langfuse_observations_on_global" => {
            let count = observations_on_global();
            let all = recorded.delivered_observations.len();
            let reached = ensure(count > 0 && count == all, || format!("{count} of {all} reached it"));
            checker.check_truth(spot, reached);
        }
        _ => {
            let leaked = global_tracer::exported_spans()
                .into_iter()
                .filter(|span| span.name.starts_with("openarmature.") || has_own_attribute(span))
                .count();
            checker.check_truth(spot, none("spans on the global provider", leaked));
        }
    }
}

/// The client has got the observations: that none leaked says nothing of none.
fn ensure_delivered(recorded: &RunTelemetry) -> Result<(), String> {
    ensure(!recorded.delivered_observations.is_empty(), || "the client has got no observation".into())
}

/// Counts the observations of Langfuse that reached the global provider.
fn observations_on_global() -> usize {
    let spans = global_tracer::exported_spans();
    let is_observation = |span: &opentelemetry_sdk::trace::SpanData| {
        span.attributes.iter().any(|attribute| attribute.key.as_str().starts_with(OBSERVATION))
    };
    spans.iter().filter(|span| is_observation(span)).count()
}

fn has_own_attribute(span: &opentelemetry_sdk::trace::SpanData) -> bool {
    span.attributes.iter().any(|attribute| attribute.key.as_str().starts_with("openarmature."))
}

/// An addition to the metadata was refused where it was made, and no span carries any of it.
fn ensure_addition_refused(recorded: &RunTelemetry) -> Result<(), String> {
    let refused = recorded.refused_additions.iter();
    let count = refused.filter(|refusal| refusal["category"] == "invalid_argument").count();
    ensure(count > 0, || "nothing was refused".into())?;
    let baseline = recorded.baseline.keys().map(|key| format!("openarmature.user.{key}")).collect::<Vec<_>>();
    let added = recorded
        .spans
        .iter()
        .flat_map(|span| span.attributes.keys())
        .find(|name| name.starts_with("openarmature.user.") && !baseline.iter().any(|it| it == *name));
    ensure(added.is_none(), || format!("a span carries {added:?}"))
}

fn check_observer_trees(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    recorded: &RunTelemetry,
) -> Outcome<()> {
    let mut observers = spot.into_map_reader()?;
    while let Some((_, tree)) = observers.take_next_entry() {
        check_single_root(checker, tree, recorded)?;
    }
    Ok(())
}

fn check_observers(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    recorded: &RunTelemetry,
) -> Outcome<()> {
    let mut collectors = spot.into_map_reader()?;
    while let Some((name, wanted)) = collectors.take_next_entry() {
        let events = recorded.typed.get(&name);
        let events = events.ok_or_else(|| unknown_collector(&wanted.path, &name))?;
        check_collector(checker, wanted, events)?;
    }
    Ok(())
}

/// Returns the span of the one model call.
pub(super) fn single_llm_span(recorded: &RunTelemetry) -> Result<&TraceSpan, String> {
    let mut spans = recorded.spans.iter().filter(|span| matches!(span.subject, SpanSubject::Llm(_)));
    match (spans.next(), spans.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err("there is no span of a model call".into()),
        (Some(_), Some(_)) => Err("there are several spans of model calls".into()),
    }
}

/// Asserts all lines that were written, in order.
fn check_log_records(checker: &mut AssertionChecker, spot: LocatedNode, logs: &[CapturedLog]) -> Outcome<()> {
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let (count, found) = (wanted.len(), logs.len());
    checker.check_result(&path, ensure(count == found, || format!("expected {count} lines, found {found}")));
    for (spot, line) in wanted.into_iter().zip(logs) {
        let path = spot.path.clone();
        let mut wanted = spot.into_map_reader()?;
        while let Some((key, spot)) = wanted.take_next_entry() {
            match key.as_str() {
                "body" => checker.check_exact(&spot, line.body.as_str()),
                "level" => checker.check_exact(&spot, line.level.as_str()),
                "attributes" => check_attributes(checker, spot, &line.attributes)?,
                "attributes_absent" => check_absent_attributes(checker, spot, &line.attributes)?,
                other => return Err(unknown_key(&path, other, spot.node.line)),
            }
        }
    }
    Ok(())
}

/// Asserts that numbers of the final state lie between two others.
fn check_state_bounds(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    let mut fields = spot.into_map_reader()?;
    while let Some((field, spot)) = fields.take_next_entry() {
        let value = run.last_state().and_then(|state| state.get(&field)?.to_json().ok());
        let value = value.as_ref().and_then(Value::as_i64);
        let mut bounds = spot.into_map_reader()?;
        let (least, most) = (bounds.take_required("min")?, bounds.take_required("max")?);
        bounds.reject_remaining_keys()?;
        for (bound, holds) in
            [(&least, value >= Some(least.as_integer()?)), (&most, value <= Some(most.as_integer()?))]
        {
            checker
                .check_result(&bound.path, ensure(value.is_some() && holds, || format!("it is {value:?}")));
        }
    }
    Ok(())
}

/// Returns an attribute as JSON.
pub(super) fn attribute(span: &TraceSpan, name: &str) -> Option<Value> {
    span.attributes.get(name).map(AttributeValue::to_json)
}
