//! The caller's metadata: on everything, and what is added on the way (observability §3.4).

use serde_json::{Map, Value};
use singletree::engine::{GraphEvent, LineageBoundary, MetadataEvent};
use singletree_telemetry::{SpanSubject, TraceSpan};

use super::super::expect::attribute;
use super::super::runtime::{CapturedRead, RunTelemetry};
use super::super::view::{Holds, TelemetryRow, TelemetryView};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("caller_metadata_cross_cutting", spans_carry_baseline),
    ("caller_metadata_top_level_on_trace", traces_carry_baseline),
    ("caller_metadata_top_level_on_every_observation", observations_carry_baseline),
    ("baseline_caller_metadata_universal", everything_carries_baseline),
    ("fan_out_per_instance_metadata_isolation", siblings_are_untouched),
    ("open_span_update_reaches_invocation_and_node_spans", serial_additions_reach_open_spans),
    ("outer_dispatch_span_carries_inner_augmentation", dispatching_units_carry_additions),
    ("outer_fan_out_instance_carries_branch_augmentation", dispatching_units_carry_additions),
    ("serial_subgraph_wrapper_carries_inner_augmentation", dispatching_units_carry_additions),
    ("outer_dispatch_spans_isolated", siblings_are_untouched),
    ("sibling_branch_isolated_from_probe_augmentation", siblings_are_untouched),
    ("sibling_outer_instances_isolated", siblings_are_untouched),
    ("sibling_fan_out_instances_isolated", siblings_are_untouched),
    ("shared_parent_spans_not_augmented", shared_parents_are_untouched),
    ("fan_out_node_shared_parent_not_augmented", shared_parents_are_untouched),
    ("invocation_span_not_augmented", shared_parents_are_untouched),
    ("read_returns_caller_baseline", reads_have_baseline),
    ("caller_baseline_stable_across_attempts", reads_have_baseline),
    ("read_returns_in_node_write", last_read_has_all_additions),
    ("capture_after_augment_sees_write", last_read_has_all_additions),
    ("capture_before_augment_misses_write", last_read_is_baseline),
    ("read_returns_immutable_mapping", reads_never_change),
    ("per_instance_reads_isolated_from_siblings", reads_of_instances_differ),
    ("outermost_read_sees_pre_fan_out_baseline_only", last_read_is_baseline),
    ("no_global_aggregator_layered_across_join", last_read_is_baseline),
    ("prior_failed_attempt_writes_discarded", retried_read_is_baseline),
    ("successful_attempt_writes_visible_downstream", downstream_read_has_last_addition),
    ("outside_invocation_returns_empty_mapping", direct_read_is_empty),
    ("outside_invocation_does_not_raise", direct_read_is_empty),
    ("outside_invocation_return_is_immutable", direct_read_is_shared),
];

fn baseline<'a>(view: &TelemetryView<'a>) -> Result<&'a Map<String, Value>, String> {
    let baseline = &view.last()?.baseline;
    if baseline.is_empty() { Err("the caller says nothing".into()) } else { Ok(baseline) }
}

fn user_attribute(span: &TraceSpan, key: &str) -> Option<Value> {
    attribute(span, &format!("openarmature.user.{key}"))
}

fn spans_carry_baseline(view: &TelemetryView<'_>) -> Holds {
    for (key, value) in baseline(view)? {
        let missing = view.spans()?.iter().find(|span| user_attribute(span, key).as_ref() != Some(value));
        ensure(missing.is_none(), || format!("'{}' lacks {key}", missing.map_or("", |span| &span.name)))?;
    }
    Ok(())
}

fn traces_carry_baseline(view: &TelemetryView<'_>) -> Holds {
    let traces = &view.last()?.traces;
    ensure(!traces.is_empty(), || "there is no trace".into())?;
    let carries =
        |(key, value): (&String, &Value)| traces.iter().all(|trace| trace.metadata.get(key) == Some(value));
    ensure(baseline(view)?.iter().all(carries), || "a trace lacks an entry".into())
}

fn observations_carry_baseline(view: &TelemetryView<'_>) -> Holds {
    let observations = view.observations()?;
    let carries = |(key, value): (&String, &Value)| {
        observations.iter().all(|observation| observation.metadata.get(key) == Some(value))
    };
    ensure(baseline(view)?.iter().all(carries), || "an observation lacks an entry".into())
}

fn everything_carries_baseline(view: &TelemetryView<'_>) -> Holds {
    spans_carry_baseline(view)?;
    traces_carry_baseline(view)?;
    observations_carry_baseline(view)
}

fn additions(recorded: &RunTelemetry) -> Result<Vec<&MetadataEvent>, String> {
    let added = recorded.events.iter().filter_map(|event| match event {
        GraphEvent::MetadataAdded(event) => Some(event),
        _ => None,
    });
    let added: Vec<_> = added.collect();
    if added.is_empty() { Err("nothing was added".into()) } else { Ok(added) }
}

/// Tells whether a place is the other one, or around it.
fn is_around(outer: &TraceSpan, event: &MetadataEvent) -> bool {
    let inner = &event.source;
    inner.namespace.starts_with(&outer.namespace)
        && inner.lineage.boundaries().starts_with(outer.lineage.boundaries())
}

fn is_unit(span: &TraceSpan) -> bool {
    matches!(span.subject, SpanSubject::Subgraph | SpanSubject::Instance | SpanSubject::Branch)
}

/// Each inner run on the way to an addition carries the last one that was made inside of it.
fn dispatching_units_carry_additions(view: &TelemetryView<'_>) -> Holds {
    let added = additions(view.last()?)?;
    let mut checked = 0;
    for span in view.spans()?.iter().filter(|span| is_unit(span)) {
        let inside: Vec<_> = added.iter().filter(|event| is_around(span, event)).collect();
        for (key, value) in inside.last().into_iter().flat_map(|event| &event.entries) {
            checked += 1;
            let carried = user_attribute(span, key);
            ensure(carried.as_ref() == Some(value), || format!("'{}' carries {carried:?}", span.name))?;
        }
    }
    ensure(checked > 0, || "no inner run is on the way to an addition".into())
}

/// An addition is on no span that lies in another instance or branch.
fn siblings_are_untouched(view: &TelemetryView<'_>) -> Holds {
    let mut checked = 0;
    for event in additions(view.last()?)? {
        let own = event.source.lineage.boundaries();
        for span in view.spans()? {
            let other = span.lineage.boundaries();
            let depth = own.len().min(other.len());
            if own[..depth] == other[..depth] {
                continue;
            }
            checked += 1;
            let carried =
                event.entries.iter().find(|(key, value)| user_attribute(span, key).as_ref() == Some(value));
            ensure(carried.is_none(), || format!("'{}' carries {carried:?}", span.name))?;
        }
    }
    ensure(checked > 0, || "there is no sibling".into())
}

/// An addition in an instance or a branch is on no node that dispatches several, and not on the invocation.
fn shared_parents_are_untouched(view: &TelemetryView<'_>) -> Holds {
    let known = baseline(view)?;
    let mut checked = 0;
    for event in additions(view.last()?)? {
        let forks = |boundary: &LineageBoundary| *boundary != LineageBoundary::Subgraph;
        ensure(event.source.lineage.boundaries().iter().any(forks), || "an addition is in no fork".into())?;
        let shared = view.spans()?.iter().filter(|span| {
            let dispatches =
                ["openarmature.fan_out.item_count", "openarmature.parallel_branches.branch_count"];
            matches!(span.subject, SpanSubject::Invocation { .. })
                || dispatches.iter().any(|name| span.attributes.contains_key(*name))
        });
        for span in shared {
            checked += 1;
            let carried = event
                .entries
                .keys()
                .find(|key| !known.contains_key(*key) && user_attribute(span, key).is_some());
            ensure(carried.is_none(), || format!("'{}' carries {carried:?}", span.name))?;
        }
    }
    ensure(checked > 0, || "nothing is shared".into())
}

/// An addition outside of instances and branches is on its node, and on the invocation.
fn serial_additions_reach_open_spans(view: &TelemetryView<'_>) -> Holds {
    for event in additions(view.last()?)? {
        for (key, value) in &event.entries {
            let carries = |span: &&TraceSpan| user_attribute(span, key).as_ref() == Some(value);
            let on_path = |span: &&TraceSpan| match span.subject {
                SpanSubject::Invocation { .. } => true,
                SpanSubject::Node => span.namespace == event.source.namespace,
                _ => false,
            };
            let open: Vec<_> = view.spans()?.iter().filter(on_path).collect();
            ensure(open.len() > 1 && open.iter().all(carries), || format!("an open span lacks {key}"))?;
        }
    }
    Ok(())
}

fn reads<'a>(view: &TelemetryView<'a>) -> Result<&'a [CapturedRead], String> {
    let reads = view.last()?.reads.as_slice();
    if reads.is_empty() { Err("nothing was read".into()) } else { Ok(reads) }
}

fn last_read<'a>(view: &TelemetryView<'a>) -> Result<&'a CapturedRead, String> {
    reads(view)?.last().ok_or_else(|| "nothing was read".into())
}

fn reads_have_baseline(view: &TelemetryView<'_>) -> Holds {
    let known = baseline(view)?;
    let has = |read: &CapturedRead| known.iter().all(|(key, value)| read.content.get(key) == Some(value));
    ensure(reads(view)?.iter().all(has), || "a read lacks what the caller says".into())
}

fn last_read_has_all_additions(view: &TelemetryView<'_>) -> Holds {
    let read = last_read(view)?;
    let mut added = additions(view.last()?)?.into_iter().flat_map(|event| &event.entries);
    ensure(added.all(|(key, value)| read.content.get(key) == Some(value)), || "it lacks one".into())
}

fn last_read_is_baseline(view: &TelemetryView<'_>) -> Holds {
    additions(view.last()?)?;
    let read = &last_read(view)?.content;
    ensure(read == baseline(view)?, || format!("it is {read:?}"))
}

/// What was returned is as it was, whatever was added later.
fn reads_never_change(view: &TelemetryView<'_>) -> Holds {
    ensure(reads(view)?.iter().all(|read| *read.entries == read.content), || "a read has changed".into())
}

fn reads_of_instances_differ(view: &TelemetryView<'_>) -> Holds {
    let known = baseline(view)?;
    let inside: Vec<_> =
        reads(view)?.iter().filter(|read| read.source.lineage.fan_out_index().is_some()).collect();
    let own = |read: &CapturedRead| {
        read.content
            .iter()
            .filter(|(key, _)| !known.contains_key(*key))
            .map(|(_, value)| value.clone())
            .collect()
    };
    let own: Vec<Vec<Value>> = inside.into_iter().map(own).collect();
    let alone = own
        .iter()
        .enumerate()
        .all(|(at, values)| values.len() == 1 && own[..at].iter().all(|others| !others.contains(&values[0])));
    ensure(own.len() > 1 && alone, || format!("the instances read {own:?}"))
}

fn retried_read_is_baseline(view: &TelemetryView<'_>) -> Holds {
    let read = reads(view)?.iter().find(|read| read.source.attempt_index > 0);
    let read = &read.ok_or("no later attempt reads")?.content;
    ensure(read == baseline(view)?, || format!("it is {read:?}"))
}

fn downstream_read_has_last_addition(view: &TelemetryView<'_>) -> Holds {
    let added = additions(view.last()?)?;
    let last = added.last().ok_or("nothing was added")?;
    let read = last_read(view)?;
    let elsewhere = read.source.node_name != last.source.node_name;
    let has = last.entries.iter().all(|(key, value)| read.content.get(key) == Some(value));
    ensure(elsewhere && has, || format!("it is {:?}", read.content))
}

fn direct_read_is_empty(view: &TelemetryView<'_>) -> Holds {
    let read = view.direct_read()?;
    ensure(read.is_empty(), || format!("it is {read:?}"))
}

/// Nobody can change a mapping that others hold, too.
fn direct_read_is_shared(view: &TelemetryView<'_>) -> Holds {
    let mut read = view.direct_read()?.clone();
    ensure(std::sync::Arc::get_mut(&mut read).is_none(), || "it can be changed".into())
}
