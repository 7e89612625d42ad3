//! Observers that nodes read (observability §9), and collectors of typed events by their types.

use serde_json::Value;
use singletree::engine::GraphEvent;

use super::super::event_json::{event_type, typed_event_to_json};
use super::super::view::{Holds, TelemetryRow, TelemetryView, node_events};
use crate::check::ensure;

pub(super) const ROWS: &[TelemetryRow] = &[
    ("observer_attach_emit_consume_cycle_works", counter_was_attached_and_read),
    ("read_returns_non_negative_integer", reads_are_counts),
    ("read_is_consistent_no_torn_view", views_are_consistent),
    ("observer_does_not_mutate_state_or_influence_routing", counter_changes_nothing),
    ("snapshot_total_equals_sum_of_breakdown", views_are_consistent),
    ("read_does_not_raise_on_concurrent_write", counter_was_attached_and_read),
    ("type_discrimination_filter_works", filter_keeps_one_type),
    ("type_filtered_count_independent_of_sentinel_emission", filter_misses_nothing),
    ("opt_in_disabled_yields_null_caller_metadata", collected_events_have_no_metadata),
    ("opt_in_enabled_yields_snapshot_caller_metadata", collected_events_have_metadata),
    ("snapshot_is_immutable_mapping", collected_events_have_metadata),
];

fn counter_was_attached_and_read(view: &TelemetryView<'_>) -> Holds {
    let recorded = view.last()?;
    let nodes = node_events(&recorded.events).count();
    let counted = recorded.counters.first().and_then(|counts| counts["total"].as_u64());
    let heard = counted.is_some_and(|total| total >= u64::try_from(nodes).unwrap_or(u64::MAX));
    ensure(heard && nodes > 0, || format!("{counted:?} events were counted of {nodes}"))?;
    ensure(!recorded.counter_reads.is_empty(), || "no node has read it".into())
}

fn reads_are_counts(view: &TelemetryView<'_>) -> Holds {
    let reads = &view.last()?.counter_reads;
    ensure(!reads.is_empty() && reads.iter().all(Value::is_u64), || format!("they are {reads:?}"))
}

/// Of each view, read while events came or at the end, the total is the sum of its parts.
fn views_are_consistent(view: &TelemetryView<'_>) -> Holds {
    let recorded = view.last()?;
    ensure(!recorded.counter_reads.is_empty(), || "no node has read it".into())?;
    let views = recorded.counter_reads.iter().filter(|read| read.is_object()).chain(&recorded.counters);
    views.into_iter().try_for_each(|counts| {
        let parts = counts["by_type"].as_object().into_iter().flatten();
        let sum: u64 = parts.filter_map(|(_, count)| count.as_u64()).sum();
        ensure(counts["total"].as_u64() == Some(sum), || format!("torn: {counts}"))
    })
}

/// Only the field that was read into has changed, and the nodes ran in the graph's order, each once.
fn counter_changes_nothing(view: &TelemetryView<'_>) -> Holds {
    let run = view.last_run()?;
    let order = run.reel.execution_order();
    ensure(order == view.evidence.nodes, || format!("the nodes ran in the order {order:?}"))?;
    let last = run.last_state().and_then(|state| state.to_json().ok()).ok_or("there is no state")?;
    let first = run.reel.visits.first().map(|visit| &visit.pre_state).ok_or("no node ran")?;
    let changed = last.iter().filter(|(field, value)| first.get(*field) != Some(value)).count();
    ensure(changed <= 1, || format!("{changed} fields have changed"))
}

/// Returns the events of the collector with a filter, and of the one without.
fn filtered_and_all<'a>(view: &TelemetryView<'a>) -> Result<(&'a [GraphEvent], &'a [GraphEvent]), String> {
    let mut lists: Vec<&[GraphEvent]> = view.last()?.typed.values().map(Vec::as_slice).collect();
    lists.sort_by_key(|events| events.len());
    match lists.as_slice() {
        [filtered, all] => Ok((filtered, all)),
        _ => Err("there are no two collectors".into()),
    }
}

fn filter_keeps_one_type(view: &TelemetryView<'_>) -> Holds {
    let (filtered, all) = filtered_and_all(view)?;
    let kind = filtered.first().map(event_type).ok_or("it kept nothing")?;
    let only = filtered.iter().all(|event| event_type(event) == kind);
    let others = all.iter().any(|event| event_type(event) != kind);
    ensure(only && others, || "the filter does not tell types apart".into())
}

fn filter_misses_nothing(view: &TelemetryView<'_>) -> Holds {
    let (filtered, all) = filtered_and_all(view)?;
    let kind = filtered.first().map(event_type).ok_or("it kept nothing")?;
    let count = all.iter().filter(|event| event_type(event) == kind).count();
    ensure(count == filtered.len(), || format!("{} of {count} were kept", filtered.len()))
}

fn collected_metadata(view: &TelemetryView<'_>) -> Result<Vec<Value>, String> {
    let events = view.last()?.typed.values().flatten();
    let metadata: Vec<Value> =
        events.map(|event| typed_event_to_json(event)["caller_invocation_metadata"].clone()).collect();
    if metadata.is_empty() { Err("nothing was collected".into()) } else { Ok(metadata) }
}

fn collected_events_have_no_metadata(view: &TelemetryView<'_>) -> Holds {
    ensure(!view.last()?.baseline.is_empty(), || "the caller says nothing".into())?;
    let metadata = collected_metadata(view)?;
    ensure(metadata.iter().all(Value::is_null), || format!("it is {metadata:?}"))
}

/// The events carry what the caller said when they happened; the mapping is shared, and nobody can change it.
fn collected_events_have_metadata(view: &TelemetryView<'_>) -> Holds {
    let baseline = Value::Object(view.last()?.baseline.clone());
    let metadata = collected_metadata(view)?;
    ensure(metadata.iter().all(|entries| *entries == baseline), || format!("it is {metadata:?}"))
}
