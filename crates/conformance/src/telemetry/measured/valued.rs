//! Invariants of observability that have a value other than a truth value.

use serde_json::{Value, json};
use singletree_telemetry::{AttributeValue, SpanSubject, TraceSpan};

use super::super::expect::attribute;
use super::super::span_tree::SpanForest;
use super::super::view::{TelemetryView, correlation_ids};
use super::nesting::{attempt_spans, branch_spans, instance_spans, node_spans};
use super::traces::dispatching_span;
use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::LocatedNode;

/// What an invariant measures: one value, or several that must all be the expected one.
type MeasuredValues = Result<Vec<Value>, String>;

/// Asserts an invariant that has a value; false when the name is none of them.
///
/// # Errors
/// When its value is of another kind.
pub(super) fn check_valued_invariant(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    view: &TelemetryView<'_>,
) -> Outcome<bool> {
    let measured: MeasuredValues = match name {
        "correlation_id_uniform_across_tree" => {
            view.last().and_then(correlation_ids).map(|ids| ids.into_iter().map(Value::from).collect())
        }
        "session_id_uniform_across_span_tree" => each_span_has(view, "openarmature.session_id"),
        "all_logs_carry_correlation_id" => each_line_has(view, "openarmature.correlation_id"),
        "all_logs_carry_session_id" => each_line_has(view, "openarmature.session_id"),
        "all_traces_share_session_id" => sessions_of_traces(view),
        "all_instance_traces_carry_detached_from_invocation_id" => origins_of_detached_traces(view),
        "dispatch_span_link_count" | "fan_out_node_span_link_count" => {
            view.last().and_then(dispatching_span).map(|span| vec![span.links.len().into()])
        }
        "dispatch_detached_child_trace_id_count" => count_of_detached_traces(view),
        "sibling_attempt_count_under_invocation" => attempt_spans(view).map(|spans| vec![spans.len().into()]),
        "attempt_indices" => attempt_spans(view).map(|spans| {
            let index = |span: &TraceSpan| attribute(span, "openarmature.node.attempt_index");
            vec![spans.into_iter().map(index).collect()]
        }),
        "fan_out_index_range" => instance_spans(view).and_then(|spans| index_range(view, &spans)),
        "dispatch_spans_close_in_declaration_order" => branch_spans(view)
            .map(|spans| vec![spans.iter().map(|span| span.name.as_ref()).collect::<Vec<_>>().into()]),
        "inner_node_span_count" => innermost_node_count(view),
        "llm_provider_span_count" => view.llm_spans().map(|spans| vec![spans.len().into()]),
        "unique_fan_out_indices_under" | "unique_fan_out_indices_per_node_span_under" => {
            let checked = ensure_distinct_indices(view, value.as_text()?);
            checker.check_result(&value.path, checked);
            return Ok(true);
        }
        _ => return Ok(false),
    };
    match measured {
        Ok(values) => {
            checker.check_result(&value.path, ensure(!values.is_empty(), || "there is nothing".into()));
            values.into_iter().for_each(|measured| checker.check_exact(value, measured));
        }
        Err(what) => checker.check_result(&value.path, Err(what)),
    }
    Ok(true)
}

fn each_span_has(view: &TelemetryView<'_>, name: &str) -> MeasuredValues {
    Ok(view.spans()?.iter().map(|span| json!(attribute(span, name))).collect())
}

fn each_line_has(view: &TelemetryView<'_>, name: &str) -> MeasuredValues {
    let value = |attribute: Option<&AttributeValue>| json!(attribute.map(AttributeValue::to_json));
    Ok(view.last()?.logs.iter().map(|line| value(line.attributes.get(name))).collect())
}

fn sessions_of_traces(view: &TelemetryView<'_>) -> MeasuredValues {
    Ok(view.recordings().flat_map(|run| &run.traces).map(|trace| json!(trace.session_id)).collect())
}

/// Returns the invocations that the detached traces say they are of.
fn origins_of_detached_traces(view: &TelemetryView<'_>) -> MeasuredValues {
    let origin = "detached_from_invocation_id";
    let detached = view.last()?.traces.iter().skip(1);
    let origins: Vec<Value> = detached.map(|trace| json!(trace.metadata.get(origin))).collect();
    let own = view.last_run()?.invocation_id();
    let same = origins.iter().all(|origin| Some(origin) == own.clone().map(Value::from).as_ref());
    ensure(same, || format!("they are of {origins:?}"))?;
    Ok(origins)
}

fn count_of_detached_traces(view: &TelemetryView<'_>) -> MeasuredValues {
    let key = "detached_child_trace_ids";
    let told = view.observations()?.into_iter().filter_map(|it| it.metadata.get(key)?.as_array());
    let lists: Vec<_> = told.collect();
    let [ids] = lists.as_slice() else { return Err(format!("{} observations dispatch", lists.len())) };
    let known = view.last()?.traces.iter().skip(1).map(|trace| Value::from(trace.id.as_str()));
    ensure(known.eq(ids.iter().cloned()), || format!("they are {ids:?}"))?;
    Ok(vec![ids.len().into()])
}

fn fan_out_index(span: &TraceSpan) -> Option<u64> {
    attribute(span, "openarmature.node.fan_out_index")?.as_u64()
}

/// Returns the least and the greatest index of instances; those below each node have no gap.
fn index_range(view: &TelemetryView<'_>, instances: &[&TraceSpan]) -> MeasuredValues {
    let indices: Option<Vec<u64>> = instances.iter().map(|span| fan_out_index(span)).collect();
    let indices = indices.ok_or("an instance has no index")?;
    let forest = SpanForest::new(view.spans()?);
    for node in node_spans(view)? {
        let children = forest.children(node).iter();
        let below = children.filter(|span| matches!(span.subject, SpanSubject::Instance));
        let mut below: Vec<u64> = below.filter_map(|span| fan_out_index(span)).collect();
        below.sort_unstable();
        let gapless = below.iter().zip(0..).all(|(index, number)| *index == number);
        ensure(gapless, || format!("the instances of '{}' are {below:?}", node.name))?;
    }
    Ok(vec![json!([indices.iter().min(), indices.iter().max()])])
}

fn ensure_distinct_indices(view: &TelemetryView<'_>, name: &str) -> Result<(), String> {
    let forest = SpanForest::new(view.spans()?);
    let nodes = node_spans(view)?.into_iter().filter(|node| *node.name == *name);
    let mut checked = 0;
    for node in nodes {
        let children = forest.children(node).iter();
        let instances = children.filter(|span| matches!(span.subject, SpanSubject::Instance));
        let mut indices: Vec<Option<u64>> = instances.map(|span| fan_out_index(span)).collect();
        let count = indices.len();
        indices.sort_unstable();
        indices.dedup();
        ensure(count > 1 && indices.len() == count && indices[0].is_some(), || format!("{indices:?}"))?;
        checked += 1;
    }
    ensure(checked > 0, || format!("no node '{name}' has instances"))
}

/// Counts the spans of the nodes that contain no other nodes, where spans lie deepest.
fn innermost_node_count(view: &TelemetryView<'_>) -> MeasuredValues {
    let nodes = node_spans(view)?;
    let deepest = nodes.iter().map(|span| span.namespace.len()).max();
    Ok(vec![nodes.iter().filter(|span| Some(span.namespace.len()) == deepest).count().into()])
}
