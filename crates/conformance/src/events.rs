//! Expectations about observer events (conformance-adapter §5.8).

use serde_json::{Map, Value, json};
use singletree::engine::{AttemptEnd, BranchesConfig, EventError, FanOutConfig, NodeEvent, Snapshot};

use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown_key};
use crate::matcher::ExtraKeyPolicy;
use crate::tape::{CaseRecording, EventDelivery};

/// The keys of an event that are asserted.
const KEYS: &[&str] = &[
    "step",
    "phase",
    "node_name",
    "namespace",
    "pre_state",
    "post_state",
    "parent_states",
    "attempt_index",
    "error",
    "descriptor",
    "fan_out_index",
    "branch_name",
    "fan_out_index_chain",
    "branch_name_chain",
    "fan_out_config",
    "parallel_branches_config",
];

/// Returns a state as the fixtures write it.
#[must_use]
pub(crate) fn state_to_json(snapshot: &Snapshot) -> Value {
    snapshot.to_json().map_or_else(|it| json!({"unreadable": it.to_string()}), Value::Object)
}

/// Returns the category of a failed attempt.
#[must_use]
pub(crate) fn error_category(error: &EventError) -> &str {
    &error.category
}

/// Returns an event as the fixtures write it.
#[must_use]
pub(crate) fn event_to_json(event: &NodeEvent) -> Value {
    let mut map = Map::new();
    let namespace: Vec<&str> = event.namespace.iter().map(AsRef::as_ref).collect();
    map.insert("step".into(), event.step.into());
    map.insert("phase".into(), event.phase.as_str().into());
    map.insert("node_name".into(), event.node_name.as_ref().into());
    map.insert("namespace".into(), namespace.into());
    map.insert("pre_state".into(), state_to_json(&event.pre_state));
    map.insert(
        "parent_states".into(),
        event.parent_states.iter().map(state_to_json).collect::<Vec<_>>().into(),
    );
    map.insert("attempt_index".into(), event.attempt_index.into());
    map.insert("fan_out_index".into(), event.lineage.fan_out_index().into());
    map.insert("branch_name".into(), event.lineage.branch_name().into());
    map.insert("fan_out_index_chain".into(), event.lineage.fan_out_index_chain().collect::<Vec<_>>().into());
    map.insert("branch_name_chain".into(), event.lineage.branch_name_chain().collect::<Vec<_>>().into());
    map.insert("fan_out_config".into(), event.fan_out_config().map(fan_out_to_json).into());
    map.insert(
        "parallel_branches_config".into(),
        event.parallel_branches_config().map(branches_to_json).into(),
    );
    match &event.end {
        Some(AttemptEnd::Merged(after)) => drop(map.insert("post_state".into(), state_to_json(after))),
        Some(AttemptEnd::Failed(error)) => {
            drop(map.insert("error".into(), json!({"category": error_category(error)})))
        }
        None => {}
    }
    if let Some(descriptor) = &event.descriptor {
        let descriptor = serde_json::to_value(descriptor).unwrap_or_default();
        map.insert("descriptor".into(), descriptor);
    }
    Value::Object(map)
}

fn fan_out_to_json(config: &FanOutConfig) -> Value {
    json!({
        "item_count": config.item_count,
        "concurrency": config.concurrency,
        "error_policy": config.error_policy.as_str(),
        "parent_node_name": config.parent_node_name.as_ref(),
    })
}

fn branches_to_json(config: &BranchesConfig) -> Value {
    let names: Vec<&str> = config.branch_names.iter().map(AsRef::as_ref).collect();
    json!({
        "branch_names": names,
        "branch_count": config.branch_count,
        "error_policy": config.error_policy.as_str(),
        "parent_node_name": config.parent_node_name.as_ref(),
    })
}

/// Asserts the exact list of events of each named observer. An event asserts the keys that it names, whichever these
/// are (not every fixture names the phase of each event); one that names no `error` must not have failed.
///
/// # Errors
/// When the list has an unknown key or value.
pub(crate) fn check_events_by_observer(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    known: &[String],
    events: impl Fn(&str) -> Vec<NodeEvent>,
) -> Outcome<()> {
    let mut lists = spot.into_map_reader()?;
    while let Some((observer, list)) = lists.take_next_entry() {
        if !known.contains(&observer) {
            return Err(CaseFailure::reader_error(&list.path, format!("no observer is called '{observer}'")));
        }
        check_event_list(checker, list, &events(&observer))?;
    }
    Ok(())
}

/// Asserts one list of events.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(crate) fn check_event_list(
    checker: &mut AssertionChecker,
    list: LocatedNode,
    events: &[NodeEvent],
) -> Outcome<()> {
    let path = list.path.clone();
    let wanted = list.into_items()?;
    checker.check_result(
        &path,
        ensure(wanted.len() == events.len(), || {
            let seen: Vec<_> = events
                .iter()
                .map(|event| format!("{} {} {}", event.step, event.node_name, event.phase.as_str()))
                .collect();
            format!("expected {} events, found {}: {}", wanted.len(), events.len(), seen.join(", "))
        }),
    );
    for (wanted, event) in wanted.iter().zip(events) {
        let mut keys = wanted.clone().into_map_reader()?;
        let is_empty = keys.remaining_keys().next().is_none();
        let mut names_error = false;
        while let Some((key, it)) = keys.take_next_entry() {
            names_error |= key == "error";
            match key.as_str() {
                known if KEYS.contains(&known) => {}
                other => return Err(unknown_key(&wanted.path, other, it.node.line)),
            }
        }
        if is_empty {
            return Err(CaseFailure::reader_error(&wanted.path, "the event names nothing"));
        }
        let mut actual = event_to_json(event);
        // An error may be written as its bare category.
        if let (Some(category), Some(error)) = (wanted.node.get_entry("error"), actual.get_mut("error"))
            && category.to_json().is_string()
        {
            *error = error["category"].clone();
        }
        checker.check_value(wanted, &actual, ExtraKeyPolicy::Allowed);
        if !names_error && let Some(error) = event.attempt_error() {
            checker.check_result(
                &wanted.path,
                Err(format!("the attempt failed ({}): {}", error.category, error.message)),
            );
        }
    }
    Ok(())
}

/// Asserts which observer received which event, in order.
///
/// # Errors
/// When the list has an unknown key or value.
pub(crate) fn check_delivery_order(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    deliveries: &[EventDelivery],
) -> Outcome<()> {
    for one in spot.clone().into_items()? {
        let mut keys = one.into_map_reader()?;
        for key in ["observer", "step", "phase"] {
            // One that is not named is missed below, where the whole list is compared.
            keys.take_value(key);
        }
        keys.reject_remaining_keys()?;
    }
    let told = deliveries
        .iter()
        .map(|delivery| json!({"observer": delivery.observer, "step": delivery.event.step, "phase": delivery.event.phase.as_str()}));
    checker.check_exact(&spot, told.collect::<Vec<_>>());
    Ok(())
}

/// Returns the events that an observer received in a run.
#[must_use]
pub(crate) fn events_received_by(reel: &CaseRecording, observer: &str) -> Vec<NodeEvent> {
    reel.events_taken_by(observer).cloned().collect()
}
