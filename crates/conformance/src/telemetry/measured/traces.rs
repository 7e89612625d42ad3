//! Identities and statuses of traces, logs, and who made them (observability §3, §4, §5.1, §7).

use std::collections::BTreeSet;

use singletree_telemetry::{SpanStatus, SpanSubject, TraceSpan};

use super::super::expect::attribute;
use super::super::runtime::RunTelemetry;
use super::super::view::{Holds, TelemetryRow, TelemetryView, correlation_ids, node_events, root_spans};
use crate::adapt;
use crate::check::ensure;
use crate::events::event_to_json;
use crate::matcher::is_uuid4;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("correlation_id_consistency", one_correlation_id),
    ("correlation_id_consistent_across_traces", one_correlation_id),
    ("each_invocation_correlation_id_uniform", one_correlation_id_each),
    ("correlation_ids_differ_across_invocations", correlation_ids_differ),
    ("correlation_id_is_uuidv4", correlation_ids_are_uuids),
    ("all_correlation_ids_uuidv4", correlation_ids_are_uuids),
    ("distinct_trace_ids", trace_ids_are_distinct),
    ("all_instance_trace_ids_distinct", trace_ids_are_distinct),
    ("each_invocation_distinct_trace_id", trace_ids_are_distinct),
    ("detached_invocation_id_equals_parent", roots_share_invocation),
    ("each_instance_trace_roots_in_invocation_span_sharing_parent_invocation_id", roots_share_invocation),
    ("no_instance_spans_in_parent_trace", instances_are_detached),
    ("error_status_on_parent_dispatch_span", dispatcher_failed),
    ("error_status_on_parent_fan_out_node_span", dispatcher_failed),
    ("error_status_on_detached_invocation_span", detached_roots_failed),
    ("error_status_on_detached_instance_invocation_span", detached_roots_failed),
    ("exception_event_on_both_error_spans", exceptions_are_recorded),
    ("caller_invocation_id_verbatim_on_attribute", invocation_id_is_verbatim),
    ("all_logs_same_trace_id", logs_share_trace),
    ("log_span_ids_match_active_span_at_emission", logs_name_their_span),
    ("log_trace_ids_differ_when_detached", logs_have_their_traces),
    ("node_event_does_not_carry_session_id_field", node_events_have_no_session),
    ("invocation_span_carries_outcome_suspended", invocation_is_suspended),
    ("node_span_carries_suspension_attributes", node_is_suspended),
    ("otel_status_code_is_OK_per_4_2_mapping", suspended_spans_are_ok),
    ("same_execution_path", runs_take_one_path),
    ("span_count_equal_across_runs", runs_have_as_many_spans),
    ("implementation_name_non_empty", implementation_is_told),
    ("implementation_version_non_empty", implementation_is_told),
    ("implementation_name_matches_canonical_value", implementation_is_told),
    ("attributes_on_invocation_span_only", implementation_is_told_on_roots_alone),
    ("attributes_absent_on_inner_spans", implementation_is_told_on_roots_alone),
    ("attribution_attrs_on_parent_invocation_span", implementation_is_told),
    ("attribution_attrs_on_detached_child_invocation_span", detached_root_tells_implementation),
    ("attribution_attrs_absent_on_inner_spans_both_traces", implementation_is_told_on_roots_alone),
    ("always_emit_invariant_applies_to_every_invocation_span", detached_root_tells_implementation),
];

const NAME: &str = "openarmature.implementation.name";
const VERSION: &str = "openarmature.implementation.version";

fn one_correlation_id(view: &TelemetryView<'_>) -> Holds {
    let mut all = BTreeSet::new();
    for recorded in view.recordings() {
        all.extend(correlation_ids(recorded)?);
    }
    ensure(all.len() == 1, || format!("the correlation ids are {all:?}"))
}

fn one_correlation_id_each(view: &TelemetryView<'_>) -> Holds {
    view.last()?;
    view.recordings().try_for_each(|recorded| {
        let ids = correlation_ids(recorded)?;
        ensure(ids.len() == 1, || format!("the correlation ids are {ids:?}"))
    })
}

fn correlation_ids_differ(view: &TelemetryView<'_>) -> Holds {
    let each = view.recordings().map(correlation_ids).collect::<Result<Vec<_>, _>>()?;
    let distinct: BTreeSet<_> = each.iter().collect();
    ensure(each.len() > 1 && distinct.len() == each.len(), || format!("they are {each:?}"))
}

fn correlation_ids_are_uuids(view: &TelemetryView<'_>) -> Holds {
    view.last()?;
    view.recordings().try_for_each(|recorded| {
        let ids = correlation_ids(recorded)?;
        ensure(ids.iter().all(|id| is_uuid4(id)), || format!("they are {ids:?}"))
    })
}

/// Each trace of each invocation has an id of its own, in spans and in Langfuse.
fn trace_ids_are_distinct(view: &TelemetryView<'_>) -> Holds {
    let of_spans: Vec<String> = view
        .recordings()
        .flat_map(|recorded| root_spans(recorded).into_iter().map(|root| root.trace_id.to_string()))
        .collect();
    let of_langfuse: Vec<String> =
        view.recordings().flat_map(|recorded| recorded.traces.iter().map(|trace| trace.id.clone())).collect();
    for ids in [of_spans, of_langfuse] {
        let distinct: BTreeSet<_> = ids.iter().collect();
        ensure(ids.len() > 1 && distinct.len() == ids.len(), || format!("the trace ids are {ids:?}"))?;
    }
    Ok(())
}

fn roots_share_invocation(view: &TelemetryView<'_>) -> Holds {
    let roots = root_spans(view.last()?);
    let ids: BTreeSet<_> = roots
        .iter()
        .map(|root| attribute(root, "openarmature.invocation_id").map(|id| id.to_string()))
        .collect();
    let invocations = roots.iter().all(|root| root.name.as_ref() == "openarmature.invocation");
    let shared = ids.len() == 1 && ids.iter().all(Option::is_some);
    ensure(roots.len() > 1 && invocations && shared, || format!("the roots are of {ids:?}"))
}

fn instances_are_detached(view: &TelemetryView<'_>) -> Holds {
    let recorded = view.last()?;
    let roots = root_spans(recorded);
    let main = roots.first().ok_or("there is no trace")?.trace_id;
    let (inside, outside): (Vec<&TraceSpan>, Vec<_>) = recorded
        .spans
        .iter()
        .filter(|span| matches!(span.subject, SpanSubject::Instance))
        .partition(|span| span.trace_id == main);
    ensure(inside.is_empty() && !outside.is_empty(), || {
        format!("{} instances in the trace, {} outside", inside.len(), outside.len())
    })
}

/// Returns the span of the node that dispatched detached units.
pub(super) fn dispatching_span(recorded: &RunTelemetry) -> Result<&TraceSpan, String> {
    let mut linking = recorded.spans.iter().filter(|span| !span.links.is_empty());
    match (linking.next(), linking.next()) {
        (Some(only), None) => Ok(only),
        _ => Err("not one span links to another trace".into()),
    }
}

fn has_failed(span: &TraceSpan) -> bool {
    matches!(&span.status, SpanStatus::Error { description: Some(category) } if !category.is_empty())
}

fn dispatcher_failed(view: &TelemetryView<'_>) -> Holds {
    let dispatcher = dispatching_span(view.last()?)?;
    ensure(has_failed(dispatcher), || format!("its status is {:?}", dispatcher.status))
}

fn detached_roots(recorded: &RunTelemetry) -> Result<Vec<&TraceSpan>, String> {
    let roots = root_spans(recorded);
    let detached: Vec<_> = roots.into_iter().skip(1).collect();
    if detached.is_empty() { Err("there is no detached trace".into()) } else { Ok(detached) }
}

fn detached_roots_failed(view: &TelemetryView<'_>) -> Holds {
    let roots = detached_roots(view.last()?)?;
    ensure(roots.iter().all(|root| has_failed(root)), || "a detached trace did not fail".into())
}

fn exceptions_are_recorded(view: &TelemetryView<'_>) -> Holds {
    let recorded = view.last()?;
    let mut failed = detached_roots(recorded)?;
    failed.push(dispatching_span(recorded)?);
    ensure(failed.iter().all(|span| span.exception.is_some()), || "an exception is missing".into())
}

fn invocation_id_is_verbatim(view: &TelemetryView<'_>) -> Holds {
    let supplied = view.last()?.supplied_invocation.as_deref().ok_or("the caller supplied no id")?;
    let roots = root_spans(view.last()?);
    let same =
        |root: &&TraceSpan| attribute(root, "openarmature.invocation_id").is_some_and(|id| id == supplied);
    ensure(!roots.is_empty() && roots.iter().all(same), || format!("a span has another id than {supplied}"))
}

fn log_attributes(recorded: &RunTelemetry, name: &str) -> Result<Vec<String>, String> {
    let values = recorded.logs.iter().map(|line| {
        let value = line.attributes.get(name).and_then(|value| value.as_text());
        value.map(str::to_owned).ok_or_else(|| format!("'{}' has no {name}", line.body))
    });
    let values: Vec<String> = values.collect::<Result<_, _>>()?;
    if values.len() < 2 { Err("there are no two lines".into()) } else { Ok(values) }
}

fn logs_share_trace(view: &TelemetryView<'_>) -> Holds {
    let traces = log_attributes(view.last()?, "trace_id")?;
    ensure(traces.iter().all(|trace| *trace == traces[0]), || format!("they are {traces:?}"))
}

/// A line that a node wrote names the span of that node's attempt.
fn logs_name_their_span(view: &TelemetryView<'_>) -> Holds {
    let recorded = view.last()?;
    let ids = log_attributes(recorded, "span_id")?;
    for (line, id) in recorded.logs.iter().zip(ids) {
        let own = recorded.spans.iter().find(|span| {
            matches!(span.subject, SpanSubject::Node)
                && span.namespace == line.source.namespace
                && attribute(span, "openarmature.node.step") == line.source.step.map(Into::into)
        });
        let same = own.is_some_and(|span| span.span_id.to_string() == id);
        ensure(same, || format!("'{}' names {id}", line.body))?;
    }
    Ok(())
}

fn logs_have_their_traces(view: &TelemetryView<'_>) -> Holds {
    let recorded = view.last()?;
    let traces = log_attributes(recorded, "trace_id")?;
    let distinct: BTreeSet<_> = traces.iter().collect();
    let known = recorded.spans.iter().map(|span| span.trace_id.to_string()).collect::<BTreeSet<_>>();
    let real = traces.iter().all(|trace| known.contains(trace));
    ensure(real && distinct.len() == traces.len(), || format!("they are {traces:?}"))
}

fn node_events_have_no_session(view: &TelemetryView<'_>) -> Holds {
    let mut events = node_events(&view.last()?.events).peekable();
    ensure(events.peek().is_some(), || "there is no event of a node".into())?;
    let named = events.map(event_to_json).any(|event| event.get("session_id").is_some());
    ensure(!named, || "an event of a node has a session".into())
}

fn is_suspended(span: &TraceSpan) -> bool {
    attribute(span, "openarmature.outcome").is_some_and(|outcome| outcome == "suspended")
}

fn invocation_is_suspended(view: &TelemetryView<'_>) -> Holds {
    let roots = root_spans(view.last()?);
    ensure(!roots.is_empty() && roots.iter().all(|root| is_suspended(root)), || "it is not".into())
}

fn suspended_nodes<'a>(view: &TelemetryView<'a>) -> Result<Vec<&'a TraceSpan>, String> {
    let nodes = view.spans()?.iter().filter(|span| matches!(span.subject, SpanSubject::Node));
    let suspended: Vec<_> = nodes.filter(|span| is_suspended(span)).collect();
    if suspended.is_empty() { Err("no node is suspended".into()) } else { Ok(suspended) }
}

fn node_is_suspended(view: &TelemetryView<'_>) -> Holds {
    let described = suspended_nodes(view)?.iter().all(|span| {
        let of = |begin: &str| span.attributes.keys().any(|name| name.starts_with(begin));
        of("openarmature.suspension.signal_id") && of("openarmature.suspension.metadata.")
    });
    ensure(described, || "a suspended node does not tell its signal".into())
}

fn suspended_spans_are_ok(view: &TelemetryView<'_>) -> Holds {
    let mut suspended = suspended_nodes(view)?;
    suspended.extend(root_spans(view.last()?));
    ensure(suspended.iter().all(|span| span.status == SpanStatus::Ok), || "one has another status".into())
}

fn runs_take_one_path(view: &TelemetryView<'_>) -> Holds {
    let paths: Vec<Vec<String>> = view.runs.iter().map(|(run, _)| run.reel.execution_order()).collect();
    let same = paths.len() > 1 && !paths[0].is_empty() && paths.iter().all(|path| *path == paths[0]);
    ensure(same, || format!("they are {paths:?}"))
}

fn runs_have_as_many_spans(view: &TelemetryView<'_>) -> Holds {
    let counts: Vec<usize> = view.recordings().map(|recorded| recorded.spans.len()).collect();
    let same = counts.len() > 1 && counts[0] > 0 && counts.iter().all(|count| *count == counts[0]);
    ensure(same, || format!("they are {counts:?}"))
}

fn invocation_spans<'a>(view: &TelemetryView<'a>) -> Result<Vec<&'a TraceSpan>, String> {
    let spans = view.spans()?.iter();
    Ok(spans.filter(|span| matches!(span.subject, SpanSubject::Invocation { .. })).collect())
}

fn implementation_is_told(view: &TelemetryView<'_>) -> Holds {
    let canonical = adapt::harness_parameter("implementation_name");
    for span in invocation_spans(view)? {
        let (name, version) = (attribute(span, NAME), attribute(span, VERSION));
        let named = name.as_ref().is_some_and(|name| name.as_str() == canonical);
        let numbered = version.as_ref().and_then(|version| version.as_str()).is_some_and(|it| !it.is_empty());
        ensure(named && numbered, || format!("it is {name:?} {version:?}"))?;
    }
    Ok(())
}

fn implementation_is_told_on_roots_alone(view: &TelemetryView<'_>) -> Holds {
    implementation_is_told(view)?;
    let others = view.spans()?.iter().filter(|it| !matches!(it.subject, SpanSubject::Invocation { .. }));
    let others: Vec<_> = others.collect();
    let told =
        others.iter().any(|span| [NAME, VERSION].iter().any(|name| span.attributes.contains_key(*name)));
    ensure(!others.is_empty() && !told, || "an inner span tells it, too".into())
}

fn detached_root_tells_implementation(view: &TelemetryView<'_>) -> Holds {
    implementation_is_told(view)?;
    let count = invocation_spans(view)?.len();
    ensure(count > 1, || format!("there are {count} invocation spans"))
}
