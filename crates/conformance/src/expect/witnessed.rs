//! Expectations about the work of middleware and the events that observers received of it (pipeline-utilities §6).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use singletree::engine::IsolationEvent;

use crate::check::{AssertionChecker, ensure};
use crate::events::{error_word, state};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown};
use crate::matcher::ExtraKeyPolicy;
use crate::observers::RUNNERS;
use crate::run::InvocationResult;

/// Asserts the expectation under a key about middleware. Returns false when the key is about something else.
///
/// # Errors
/// When the value under the key has an unknown key or value.
pub(super) fn of_middleware(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    run: &InvocationResult,
) -> Outcome<bool> {
    match key {
        "trace_records" => traces(checker, spot.clone(), run)?,
        "timing_records" => checker.exactly(spot, run.reel.timings.clone()),
        "middleware_log_captured" => checker.exactly(spot, run.reel.log.clone()),
        "expected_attempt_events" => attempts(checker, spot.clone(), run)?,
        "expected_observer_event" => observed(checker, spot.clone(), run)?,
        "expected_failure_isolation_event" => isolated(checker, spot.clone(), run)?,
        "no_failure_isolation_event" => {
            let none = run.reel.isolated.is_empty();
            checker.truth(spot, ensure(none, || format!("there are {}", run.reel.isolated.len())));
        }
        "concurrency_invariant" => {
            let mut block = spot.clone().fields()?;
            checker.exactly(&block.need("max_in_flight")?, run.reel.in_flight.max);
            block.finish()?;
        }
        "instance_pre_states" => {
            let mut first: BTreeMap<u64, Value> = BTreeMap::new();
            for visit in &run.reel.visits {
                if let Some(index) = visit.index() {
                    first.entry(index).or_insert_with(|| Value::Object(visit.pre_state.clone()));
                }
            }
            checker.exactly(spot, first.into_values().collect::<Vec<_>>());
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Asserts the dispatches that recording middleware saw: of each the keys that are named.
fn traces(checker: &mut AssertionChecker, spot: LocatedNode, run: &InvocationResult) -> Outcome<()> {
    let mut lists = spot.fields()?;
    while let Some((name, list)) = lists.next() {
        let seen = run.reel.traces.get(&name).map(Vec::as_slice).unwrap_or_default();
        let path = list.path.clone();
        let wanted = list.items()?;
        let count = || format!("expected {} dispatches, found {}", wanted.len(), seen.len());
        checker.holds(&path, ensure(wanted.len() == seen.len(), count));
        for (wanted, trace) in wanted.into_iter().zip(seen) {
            let mut keys = wanted.fields()?;
            while let Some((key, it)) = keys.next() {
                match key.as_str() {
                    "state_in" => checker.exactly(&it, trace.state_in.clone()),
                    "state_seen_in_post_phase" => {
                        checker.exactly(&it, trace.after.as_ref().map(|(seen, _)| seen.clone()));
                    }
                    "partial_update_returned" => {
                        checker.exactly(&it, trace.after.as_ref().map(|(_, it)| it.clone()));
                    }
                    "pre_seen" => checker.truth(&it, Ok(())),
                    "post_seen" => {
                        let returned = trace.after.is_some();
                        checker.truth(&it, ensure(returned, || "what it wraps did not return".into()));
                    }
                    other => return Err(unknown("trace_records", other, it.node.line)),
                }
            }
        }
    }
    Ok(())
}

/// Asserts all events of attempts, in order; of each the keys that are named.
fn attempts(checker: &mut AssertionChecker, spot: LocatedNode, run: &InvocationResult) -> Outcome<()> {
    let seen: Vec<_> = run.reel.taken_by(RUNNERS).collect();
    let path = spot.path.clone();
    let wanted = spot.items()?;
    let count = || format!("expected {} events, found {}", wanted.len(), seen.len());
    checker.holds(&path, ensure(wanted.len() == seen.len(), count));
    for (wanted, event) in wanted.iter().zip(seen) {
        let mut keys = wanted.clone().fields()?;
        for key in ["phase", "node_name", "attempt_index"] {
            if keys.take(key).is_none() {
                checker.holds(&wanted.path, Err(format!("the event does not name its {key}")));
            }
        }
        let names_error = keys.take("error_category").is_some();
        keys.finish()?;
        let error = event.error();
        checker
            .holds(&wanted.path, ensure(names_error || error.is_none(), || format!("it failed: {error:?}")));
        let actual = json!({
            "phase": event.phase.as_str(),
            "node_name": event.node_name.as_ref(),
            "attempt_index": event.attempt_index,
            "error_category": error.map(|error| error.derived_category.clone()),
        });
        checker.value(wanted, &actual, ExtraKeyPolicy::Allowed);
    }
    Ok(())
}

/// pipeline-utilities 006 asserts one event among those of the run: some event has the keys that are named.
fn observed(checker: &mut AssertionChecker, spot: LocatedNode, run: &InvocationResult) -> Outcome<()> {
    let mut keys = spot.clone().fields()?;
    let (phase, node) = (keys.need("phase")?, keys.need("node_name")?);
    let mut of = run
        .reel
        .taken_by(RUNNERS)
        .filter(|taken_by| taken_by.phase.as_str() == phase.text().unwrap_or_default())
        .filter(|taken_by| Ok(taken_by.node_name.as_ref()) == node.text());
    let Some(event) = of.next() else {
        checker.holds(&spot.path, Err("there is no such event".into()));
        return Ok(());
    };
    checker.holds(&spot.path, ensure(of.next().is_none(), || "there are several such events".into()));
    while let Some((key, it)) = keys.next() {
        match key.as_str() {
            "error" if it.is_null() => checker.exactly(&it, event.error().map(error_word)),
            "error_absent" => {
                checker.truth(&it, ensure(event.error().is_none(), || "the attempt failed".into()));
            }
            "attempt_index" | "step" | "namespace" | "pre_state" | "post_state" | "error" => {
                checker.exactly(&it, crate::events::event_json(event).get(&key).cloned());
            }
            other => return Err(unknown("expected_observer_event", other, it.node.line)),
        }
    }
    Ok(())
}

fn isolated(checker: &mut AssertionChecker, spot: LocatedNode, run: &InvocationResult) -> Outcome<()> {
    let name = spot.node.get("event_name").map(crate::yaml::YamlNode::to_json);
    let name = name.as_ref().and_then(Value::as_str);
    let name = name.ok_or_else(|| CaseFailure::reader(&spot.path, "the event is not named"))?;
    let named: Vec<_> = run.reel.isolated.iter().filter(|it| *it.event_name == *name).collect();
    let found = || format!("no failure was isolated as '{name}', of {}", run.reel.isolated.len());
    checker.holds(&format!("{}.event_name", spot.path), ensure(!named.is_empty(), found));
    for event in named {
        let mut keys = spot.clone().fields()?;
        while let Some((key, it)) = keys.next() {
            match key.as_str() {
                "event_name" => {}
                "wrapped_node_lineage" => lineage(checker, it, event)?,
                "pre_state" => checker.exactly(&it, state(&event.pre_state)),
                "post_state" => {
                    let fields = event.post_state.entries();
                    let fields =
                        fields.map(|(name, slot)| (name.to_owned(), slot.to_json().unwrap_or_default()));
                    checker.exactly(&it, fields.collect::<Map<_, _>>());
                }
                "caught_exception" => caught(checker, it, event)?,
                other => return Err(unknown("expected_failure_isolation_event", other, it.node.line)),
            }
        }
    }
    Ok(())
}

fn lineage(checker: &mut AssertionChecker, spot: LocatedNode, event: &IsolationEvent) -> Outcome<()> {
    let namespace: Vec<&str> = event.namespace.iter().map(AsRef::as_ref).collect();
    let mut keys = spot.fields()?;
    while let Some((key, it)) = keys.next() {
        match key.as_str() {
            "namespace" => checker.exactly(&it, namespace.clone()),
            "attempt_index" => checker.exactly(&it, event.attempt_index),
            "fan_out_index" => checker.exactly(&it, event.lineage.fan_out_index()),
            "branch_name" => checker.exactly(&it, event.lineage.branch_name()),
            other => return Err(unknown("wrapped_node_lineage", other, it.node.line)),
        }
    }
    Ok(())
}

fn caught(checker: &mut AssertionChecker, spot: LocatedNode, event: &IsolationEvent) -> Outcome<()> {
    let caught = &event.caught_exception;
    let mut keys = spot.fields()?;
    while let Some((key, it)) = keys.next() {
        match key.as_str() {
            "category" => checker.exactly(&it, caught.category.clone()),
            "message" => checker.exactly(&it, caught.message.clone()),
            "chain" => {
                let path = it.path.clone();
                let wanted = it.items()?;
                let links = || format!("expected {} links, found {:?}", wanted.len(), caught.chain);
                checker.holds(&path, ensure(wanted.len() == caught.chain.len(), links));
                for (wanted, link) in wanted.iter().zip(&caught.chain) {
                    let mut known = wanted.clone().fields()?;
                    for key in ["carrier", "category", "message"] {
                        known.take(key);
                    }
                    known.finish()?;
                    let actual = json!({
                        "carrier": link.carrier,
                        "category": link.category,
                        "message": link.message,
                    });
                    checker.value(wanted, &actual, ExtraKeyPolicy::Allowed);
                }
            }
            other => return Err(unknown("caught_exception", other, it.node.line)),
        }
    }
    Ok(())
}
