//! Expectations about the work of middleware and the events that observers received of it (pipeline-utilities §6).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use singletree::engine::IsolationEvent;

use crate::check::{AssertionChecker, ensure};
use crate::events::{error_category, state_to_json};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown_key};
use crate::matcher::ExtraKeyPolicy;
use crate::observers::RUNNERS;
use crate::run::InvocationResult;

/// Asserts the expectation under a key about middleware. Returns false when the key is about something else.
///
/// # Errors
/// When the value under the key has an unknown key or value.
pub(super) fn check_middleware_key(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    run: &InvocationResult,
) -> Outcome<bool> {
    match key {
        "trace_records" => check_dispatch_traces(checker, spot.clone(), run)?,
        "timing_records" => checker.check_exact(spot, run.reel.timings.clone()),
        "middleware_log_captured" => checker.check_exact(spot, run.reel.log.clone()),
        "expected_attempt_events" => check_attempt_events(checker, spot.clone(), run)?,
        "expected_observer_event" => check_observed_event(checker, spot.clone(), run)?,
        "expected_failure_isolation_event" => check_isolated_failure(checker, spot.clone(), run)?,
        "no_failure_isolation_event" => {
            let none = run.reel.isolated.is_empty();
            checker.check_truth(spot, ensure(none, || format!("there are {}", run.reel.isolated.len())));
        }
        "concurrency_invariant" => {
            let mut block = spot.clone().into_map_reader()?;
            checker.check_exact(&block.take_required("max_in_flight")?, run.reel.in_flight.max);
            block.reject_remaining_keys()?;
        }
        "instance_pre_states" => {
            let mut first: BTreeMap<u64, Value> = BTreeMap::new();
            for visit in &run.reel.visits {
                if let Some(index) = visit.fan_out_index() {
                    first.entry(index).or_insert_with(|| Value::Object(visit.pre_state.clone()));
                }
            }
            checker.check_exact(spot, first.into_values().collect::<Vec<_>>());
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Asserts the dispatches that recording middleware saw: of each the keys that are named.
fn check_dispatch_traces(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    let mut lists = spot.into_map_reader()?;
    while let Some((name, list)) = lists.take_next_entry() {
        let seen = run.reel.traces.get(&name).map(Vec::as_slice).unwrap_or_default();
        let path = list.path.clone();
        let wanted = list.into_items()?;
        let count = || format!("expected {} dispatches, found {}", wanted.len(), seen.len());
        checker.check_result(&path, ensure(wanted.len() == seen.len(), count));
        for (wanted, trace) in wanted.into_iter().zip(seen) {
            let mut keys = wanted.into_map_reader()?;
            while let Some((key, it)) = keys.take_next_entry() {
                match key.as_str() {
                    "state_in" => checker.check_exact(&it, trace.state_in.clone()),
                    "state_seen_in_post_phase" => {
                        checker.check_exact(&it, trace.after.as_ref().map(|(seen, _)| seen.clone()));
                    }
                    "partial_update_returned" => {
                        checker.check_exact(&it, trace.after.as_ref().map(|(_, it)| it.clone()));
                    }
                    "pre_seen" => checker.check_truth(&it, Ok(())),
                    "post_seen" => {
                        let returned = trace.after.is_some();
                        checker.check_truth(&it, ensure(returned, || "what it wraps did not return".into()));
                    }
                    other => return Err(unknown_key("trace_records", other, it.node.line)),
                }
            }
        }
    }
    Ok(())
}

/// Asserts all events of attempts, in order; of each the keys that are named.
fn check_attempt_events(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    let seen: Vec<_> = run.reel.events_taken_by(RUNNERS).collect();
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let count = || format!("expected {} events, found {}", wanted.len(), seen.len());
    checker.check_result(&path, ensure(wanted.len() == seen.len(), count));
    for (wanted, event) in wanted.iter().zip(seen) {
        let mut keys = wanted.clone().into_map_reader()?;
        for key in ["phase", "node_name", "attempt_index"] {
            if keys.take_value(key).is_none() {
                checker.check_result(&wanted.path, Err(format!("the event does not name its {key}")));
            }
        }
        let names_error = keys.take_value("error_category").is_some();
        keys.reject_remaining_keys()?;
        let error = event.attempt_error();
        checker.check_result(
            &wanted.path,
            ensure(names_error || error.is_none(), || format!("it failed: {error:?}")),
        );
        let actual = json!({
            "phase": event.phase.as_str(),
            "node_name": event.node_name.as_ref(),
            "attempt_index": event.attempt_index,
            "error_category": error.map(|error| error.derived_category.clone()),
        });
        checker.check_value(wanted, &actual, ExtraKeyPolicy::Allowed);
    }
    Ok(())
}

/// pipeline-utilities 006 asserts one event among those of the run: some event has the keys that are named.
fn check_observed_event(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    let mut keys = spot.clone().into_map_reader()?;
    let (phase, node) = (keys.take_required("phase")?, keys.take_required("node_name")?);
    let mut of = run
        .reel
        .events_taken_by(RUNNERS)
        .filter(|taken_by| taken_by.phase.as_str() == phase.as_text().unwrap_or_default())
        .filter(|taken_by| Ok(taken_by.node_name.as_ref()) == node.as_text());
    let Some(event) = of.next() else {
        checker.check_result(&spot.path, Err("there is no such event".into()));
        return Ok(());
    };
    checker.check_result(&spot.path, ensure(of.next().is_none(), || "there are several such events".into()));
    while let Some((key, it)) = keys.take_next_entry() {
        match key.as_str() {
            "error" if it.is_null() => checker.check_exact(&it, event.attempt_error().map(error_category)),
            "error_absent" => {
                checker.check_truth(
                    &it,
                    ensure(event.attempt_error().is_none(), || "the attempt failed".into()),
                );
            }
            "attempt_index" | "step" | "namespace" | "pre_state" | "post_state" | "error" => {
                checker.check_exact(&it, crate::events::event_to_json(event).get(&key).cloned());
            }
            other => return Err(unknown_key("expected_observer_event", other, it.node.line)),
        }
    }
    Ok(())
}

fn check_isolated_failure(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    run: &InvocationResult,
) -> Outcome<()> {
    let name = spot.node.get_entry("event_name").map(crate::yaml::YamlNode::to_json);
    let name = name.as_ref().and_then(Value::as_str);
    let name = name.ok_or_else(|| CaseFailure::reader_error(&spot.path, "the event is not named"))?;
    let named: Vec<_> = run.reel.isolated.iter().filter(|it| *it.event_name == *name).collect();
    let found = || format!("no failure was isolated as '{name}', of {}", run.reel.isolated.len());
    checker.check_result(&format!("{}.event_name", spot.path), ensure(!named.is_empty(), found));
    for event in named {
        let mut keys = spot.clone().into_map_reader()?;
        while let Some((key, it)) = keys.take_next_entry() {
            match key.as_str() {
                "event_name" => {}
                "wrapped_node_lineage" => check_isolation_lineage(checker, it, event)?,
                "pre_state" => checker.check_exact(&it, state_to_json(&event.pre_state)),
                "post_state" => {
                    let fields = event.post_state.iter_entries();
                    let fields =
                        fields.map(|(name, slot)| (name.to_owned(), slot.to_json().unwrap_or_default()));
                    checker.check_exact(&it, fields.collect::<Map<_, _>>());
                }
                "caught_exception" => check_caught_error(checker, it, event)?,
                other => return Err(unknown_key("expected_failure_isolation_event", other, it.node.line)),
            }
        }
    }
    Ok(())
}

fn check_isolation_lineage(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    event: &IsolationEvent,
) -> Outcome<()> {
    let namespace: Vec<&str> = event.namespace.iter().map(AsRef::as_ref).collect();
    let mut keys = spot.into_map_reader()?;
    while let Some((key, it)) = keys.take_next_entry() {
        match key.as_str() {
            "namespace" => checker.check_exact(&it, namespace.clone()),
            "attempt_index" => checker.check_exact(&it, event.attempt_index),
            "fan_out_index" => checker.check_exact(&it, event.lineage.fan_out_index()),
            "branch_name" => checker.check_exact(&it, event.lineage.branch_name()),
            other => return Err(unknown_key("wrapped_node_lineage", other, it.node.line)),
        }
    }
    Ok(())
}

fn check_caught_error(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    event: &IsolationEvent,
) -> Outcome<()> {
    let caught = &event.caught_exception;
    let mut keys = spot.into_map_reader()?;
    while let Some((key, it)) = keys.take_next_entry() {
        match key.as_str() {
            "category" => checker.check_exact(&it, caught.category.clone()),
            "message" => checker.check_exact(&it, caught.message.clone()),
            "chain" => {
                let path = it.path.clone();
                let wanted = it.into_items()?;
                let links = || format!("expected {} links, found {:?}", wanted.len(), caught.chain);
                checker.check_result(&path, ensure(wanted.len() == caught.chain.len(), links));
                for (wanted, link) in wanted.iter().zip(&caught.chain) {
                    let mut known = wanted.clone().into_map_reader()?;
                    for key in ["carrier", "category", "message"] {
                        known.take_value(key);
                    }
                    known.reject_remaining_keys()?;
                    let actual = json!({
                        "carrier": link.carrier,
                        "category": link.category,
                        "message": link.message,
                    });
                    checker.check_value(wanted, &actual, ExtraKeyPolicy::Allowed);
                }
            }
            other => return Err(unknown_key("caught_exception", other, it.node.line)),
        }
    }
    Ok(())
}
