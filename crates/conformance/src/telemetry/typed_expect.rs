//! Expectations about the events that collectors hold (conformance-adapter §5.5, `contains_event` and its like).

use serde_json::Value;
use singletree::engine::GraphEvent;

use super::event_json::{EVENT_TYPES, event_type, typed_event_to_json};
use super::vocabulary::REQUEST_PARAMS;
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader, unknown_key};
use crate::matcher::{ExtraKeyPolicy, ValueMatcher};

/// Fields of events that are records: fixtures name some of their counters (conformance-adapter §5.5). Other maps are
/// compared as a whole.
const RECORDS: &[&str] = &["usage", "active_prompt", "active_prompt_group"];

/// Asserts what a collector holds.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_collector(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[GraphEvent],
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.into_map_reader()?;
    while let Some((key, spot)) = wanted.take_next_entry() {
        match key.as_str() {
            "contains_event" => check_contained_event(checker, spot, events)?,
            "contains_event_of_type" => check_type_count(checker, &spot, events, |count| count > 0)?,
            "contains_exactly_one_event_of_type" => {
                check_type_count(checker, &spot, events, |count| count == 1)?;
            }
            "does_not_contain_event_of_type" => {
                check_type_count(checker, &spot, events, |count| count == 0)?;
            }
            "event_count" | "contains_exactly_n_events_of_type" => check_count(checker, spot, events)?,
            "event_counts" => {
                for spot in spot.into_distinct_items()? {
                    check_count(checker, spot, events)?;
                }
            }
            "contains_events_in_order" => check_event_sequence(checker, spot, events)?,
            "captured_event_field_values_cover" => check_covered_values(checker, spot, events)?,
            "every_captured_event_has" => check_every_event(checker, spot, events)?,
            "relative_order_of_events_matching" => check_relative_order(checker, spot, events)?,
            // Whether a collector of everything hears of nodes, too, is left open by the fixture; ours does.
            "sentinel_node_event_emission_is_impl_defined" => {
                let hears = events.iter().any(|event| event_type(event) == "NodeEvent");
                checker.check_truth(&spot, ensure(hears, || "no event of a node is there".into()));
            }
            other => return Err(unknown_key(&path, other, spot.node.line)),
        }
    }
    Ok(())
}

/// Takes the type that an assertion is about, and returns the events of it. A type that does not exist is a fixture's
/// mistake.
fn take_events_of_type<'a>(
    checker: &mut AssertionChecker,
    block: &mut YamlMapReader,
    events: &'a [GraphEvent],
) -> Outcome<Vec<&'a GraphEvent>> {
    let spot = block.take_required("event_type")?;
    events_of_type(checker, &spot, events)
}

fn events_of_type<'a>(
    checker: &mut AssertionChecker,
    spot: &LocatedNode,
    events: &'a [GraphEvent],
) -> Outcome<Vec<&'a GraphEvent>> {
    let wanted = spot.as_text()?;
    let known = EVENT_TYPES.contains(&wanted);
    checker.check_result(&spot.path, ensure(known, || format!("there is no type '{wanted}'")));
    Ok(events.iter().filter(|event| event_type(event) == wanted).collect())
}

fn check_type_count(
    checker: &mut AssertionChecker,
    spot: &LocatedNode,
    events: &[GraphEvent],
    holds: impl FnOnce(usize) -> bool,
) -> Outcome<()> {
    let count = events_of_type(checker, spot, events)?.len();
    checker.check_result(&spot.path, ensure(holds(count), || format!("there are {count}")));
    Ok(())
}

fn check_count(checker: &mut AssertionChecker, spot: LocatedNode, events: &[GraphEvent]) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let found = take_events_of_type(checker, &mut block, events)?.len();
    checker.check_exact(&block.take_required("count")?, found);
    block.reject_remaining_keys()
}

/// Asserts that there is an event with these fields. Where there are several of the type, one of them has all of them.
fn check_contained_event(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[GraphEvent],
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut block = spot.into_map_reader()?;
    let found = take_events_of_type(checker, &mut block, events)?;
    let (fields, absent) = (block.take_value("fields"), block.take_value("fields_absent_keys"));
    block.reject_remaining_keys()?;
    let candidates: Vec<Value> = found.into_iter().map(typed_event_to_json).collect();
    checker.check_result(&path, ensure(!candidates.is_empty(), || "there is none".into()));
    let Some(first) = candidates.first() else { return Ok(()) };
    let chosen = match &fields {
        None => first,
        Some(fields) => candidates.iter().find(|event| matches_fields(fields, event)).unwrap_or(first),
    };
    if let Some(fields) = fields {
        check_event_fields(checker, fields, chosen)?;
    }
    if let Some(absent) = absent {
        check_absent_keys(checker, absent, chosen)?;
    }
    Ok(())
}

/// Tells whether an event has the expected fields, without asserting it.
fn matches_fields(fields: &LocatedNode, event: &Value) -> bool {
    let mut trial = AssertionChecker::default();
    check_event_fields(&mut trial, fields.clone(), event).is_ok() && trial.failures.is_empty()
}

/// Asserts the fields that are named: one that is null must be there and null.
fn check_event_fields(checker: &mut AssertionChecker, spot: LocatedNode, event: &Value) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    while let Some((field, spot)) = wanted.take_next_entry() {
        let Some(actual) = event.get(&field) else {
            checker.check_result(&spot.path, Err(format!("the event has no field '{field}'")));
            continue;
        };
        let is_record = RECORDS.contains(&field.as_str());
        let extra = if is_record { ExtraKeyPolicy::Allowed } else { ExtraKeyPolicy::Refused };
        checker.check_value(&spot, actual, extra);
    }
    Ok(())
}

/// Asserts that keys of maps are not there. One that no request has is a fixture's mistake.
fn check_absent_keys(checker: &mut AssertionChecker, spot: LocatedNode, event: &Value) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    while let Some((field, spot)) = wanted.take_next_entry() {
        let map = event.get(&field).and_then(Value::as_object);
        let path = spot.path.clone();
        checker.check_result(&path, ensure(map.is_some(), || format!("'{field}' is no map")));
        for key in spot.into_distinct_texts()? {
            let known = REQUEST_PARAMS.contains(&key.as_str());
            checker.check_result(&path, ensure(known, || format!("no request has '{key}'")));
            let absent = map.is_some_and(|map| !map.contains_key(&key));
            checker.check_result(&path, ensure(absent, || format!("'{key}' is there")));
        }
    }
    Ok(())
}

/// Asserts events of one type in this order; others may be between them.
fn check_event_sequence(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[GraphEvent],
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let found = take_events_of_type(checker, &mut block, events)?;
    let wanted = block.take_required("events")?.into_distinct_items()?;
    block.reject_remaining_keys()?;
    let mut rest = found.into_iter().map(typed_event_to_json);
    for fields in wanted {
        let there = rest.any(|event| matches_fields(&fields, &event));
        checker
            .check_result(&fields.path, ensure(there, || "no event has these fields in this order".into()));
    }
    Ok(())
}

/// Asserts the values that a field has over all events, as a set.
fn check_covered_values(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[GraphEvent],
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let field = block.take_required("field")?;
    let values = block.take_required("values")?;
    block.reject_remaining_keys()?;
    let name = field.as_text()?.to_owned();
    let actual: Vec<Value> =
        events.iter().filter_map(|event| typed_event_to_json(event).get(&name).cloned()).collect();
    checker.check_result(&field.path, ensure(!actual.is_empty(), || format!("no event has '{name}'")));
    let path = values.path.clone();
    let wanted: Vec<Value> = values.into_distinct_items()?.iter().map(|item| item.node.to_json()).collect();
    let same = wanted.iter().all(|value| actual.contains(value))
        && actual.iter().all(|value| wanted.contains(value));
    checker.check_result(&path, ensure(same, || format!("the values are {actual:?}")));
    Ok(())
}

fn check_every_event(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[GraphEvent],
) -> Outcome<()> {
    checker.check_result(&spot.path, ensure(!events.is_empty(), || "there is no event".into()));
    events.iter().try_for_each(|event| check_event_fields(checker, spot.clone(), &typed_event_to_json(event)))
}

/// Asserts that among the events that match a filter some come in this order.
fn check_relative_order(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[GraphEvent],
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let (filter, order) = (block.take_required("filter")?, block.take_required("expected_order")?);
    block.reject_remaining_keys()?;
    let matching: Vec<(&str, Value)> = events
        .iter()
        .map(|event| (event_type(event), typed_event_to_json(event)))
        .filter(|(_, event)| matches_fields(&filter, event))
        .collect();
    checker.check_result(&filter.path, ensure(!matching.is_empty(), || "no event matches".into()));
    let mut rest = matching.iter();
    for spot in order.into_distinct_items()? {
        let path = spot.path.clone();
        let mut wanted = spot.into_map_reader()?;
        let (kind, phase) = (wanted.take_required("event_type")?, wanted.take_value("phase"));
        wanted.reject_remaining_keys()?;
        let kind = kind.as_text()?.to_owned();
        let phase = phase.map(|phase| ValueMatcher::from_yaml_node(&phase)).transpose()?;
        let there = rest.any(|(found, event)| {
            let in_phase = phase.as_ref().is_none_or(|phase| {
                phase.match_value(&event["phase"], ExtraKeyPolicy::Refused, &mut checker.bindings).is_ok()
            });
            *found == kind && in_phase
        });
        checker.check_result(&path, ensure(there, || "it does not come then".into()));
    }
    Ok(())
}

/// Asserts that the completed event of a node carries a failure of this category.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_node_failure(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[GraphEvent],
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.into_map_reader()?;
    let (node, category) = (wanted.take_required("node_name")?, wanted.take_required("error_category")?);
    wanted.reject_remaining_keys()?;
    let failures = events.iter().filter_map(|event| match event {
        GraphEvent::Node(event) => Some((event.node_name.as_ref(), event.attempt_error()?)),
        _ => None,
    });
    let failures: Vec<_> = failures.collect();
    match failures.as_slice() {
        [(name, error)] => {
            checker.check_exact(&node, *name);
            checker.check_exact(&category, error.derived_category.as_str());
            Ok(())
        }
        found => {
            let what = format!("{} completed events carry an error", found.len());
            checker.check_result(&path, Err(what));
            Ok(())
        }
    }
}

/// Says that a collector is not there.
pub(super) fn unknown_collector(path: &str, name: &str) -> CaseFailure {
    CaseFailure::reader_error(path, format!("no collector is called '{name}'"))
}
