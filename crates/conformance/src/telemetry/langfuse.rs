//! Expected traces and observations of Langfuse (conformance-adapter §5.8, `langfuse_*`; observability §8).

use serde_json::{Map, Value};
use singletree_telemetry::{LangfuseObservation, LangfuseTrace};

use super::attributes::check_field;
use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::{LocatedNode, unknown_key};

/// Asserts the one trace of an invocation.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_langfuse_trace(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    traces: &[LangfuseTrace],
) -> Outcome<()> {
    let count = traces.len();
    checker.check_result(&spot.path, ensure(count == 1, || format!("there are {count} traces")));
    match traces.first() {
        Some(trace) => check_trace(checker, spot, trace),
        None => Ok(()),
    }
}

/// Asserts all traces. Where the count of detached ones is expected beside the list, the list begins with the
/// invocation's own and names no more than that.
///
/// # Errors
/// When the fixture block has an unknown key or value.
pub(super) fn check_langfuse_traces(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    traces: &[&LangfuseTrace],
    are_detached_counted: bool,
) -> Outcome<()> {
    let path = spot.path.clone();
    let wanted = spot.into_items()?;
    let listed = if are_detached_counted { traces.len().min(1) } else { traces.len() };
    let count = wanted.len();
    checker
        .check_result(&path, ensure(count == listed, || format!("expected {count} traces, found {listed}")));
    wanted.into_iter().zip(traces).try_for_each(|(spot, trace)| check_trace(checker, spot, trace))
}

fn check_trace(checker: &mut AssertionChecker, spot: LocatedNode, trace: &LangfuseTrace) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.into_map_reader()?;
    while let Some((key, spot)) = wanted.take_next_entry() {
        match key.as_str() {
            "id" => checker.check_exact(&spot, trace.id.as_str()),
            "name" => checker.check_exact(&spot, trace.name.as_str()),
            "sessionId" => checker.check_exact(&spot, trace.session_id.clone()),
            "userId" => checker.check_exact(&spot, trace.user_id.clone()),
            "metadata" => check_metadata(checker, spot, &trace.metadata)?,
            "input" => checker.check_exact(&spot, trace.input.clone()),
            "output" => checker.check_exact(&spot, trace.output.clone()),
            "observations" => check_observations(checker, spot, &trace.observations)?,
            other => return Err(unknown_key(&path, other, spot.node.line)),
        }
    }
    Ok(())
}

/// Asserts the entries that are named; each as a whole.
fn check_metadata(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: &Map<String, Value>,
) -> Outcome<()> {
    let mut wanted = spot.into_map_reader()?;
    while let Some((key, spot)) = wanted.take_next_entry() {
        check_field(checker, &spot, actual.get(&key))?;
    }
    Ok(())
}

/// Asserts siblings: all of them, in the order in which they began.
fn check_observations(
    checker: &mut AssertionChecker,
    list: LocatedNode,
    actual: &[LangfuseObservation],
) -> Outcome<()> {
    let path = list.path.clone();
    let wanted = list.into_items()?;
    let (count, found) = (wanted.len(), actual.len());
    let names = || actual.iter().map(|observation| observation.name.as_str()).collect::<Vec<_>>();
    checker.check_result(
        &path,
        ensure(count == found, || format!("expected {count} observations, found {:?}", names())),
    );
    wanted
        .into_iter()
        .zip(actual)
        .try_for_each(|(spot, observation)| check_observation(checker, spot, observation))
}

fn check_observation(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    actual: &LangfuseObservation,
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut wanted = spot.into_map_reader()?;
    while let Some((key, spot)) = wanted.take_next_entry() {
        match key.as_str() {
            "type" => checker.check_exact(&spot, actual.observation_type),
            "name" => checker.check_exact(&spot, actual.name.as_str()),
            "level" => checker.check_exact(&spot, actual.level.as_str()),
            "statusMessage" => checker.check_exact(&spot, actual.status_message.clone()),
            "metadata" => check_metadata(checker, spot, &actual.metadata)?,
            "model" => checker.check_exact(&spot, actual.model.clone()),
            "modelParameters" => checker.check_exact(&spot, actual.model_parameters.clone()),
            "usage" => checker.check_exact(&spot, actual.usage.clone()),
            "input" | "input_parses_as_messages" => checker.check_exact(&spot, actual.input.clone()),
            "input_is_raw_string_with_marker" => {
                let text = actual.input.as_ref().and_then(Value::as_str);
                let cut = text
                    .is_some_and(|text| text.contains("…[truncated, ") && text.ends_with(" bytes total]"));
                checker.check_truth(&spot, ensure(cut, || format!("the input is {:?}", actual.input)));
            }
            "output" => checker.check_exact(&spot, actual.output.clone()),
            "prompt_entity_link" => checker.check_exact(&spot, actual.prompt_entity.clone()),
            "prompt_entity_link_absent" => {
                let absent = actual.prompt_entity.is_none();
                checker.check_truth(&spot, ensure(absent, || "there is a link to a prompt".into()));
            }
            "children" => check_observations(checker, spot, &actual.children)?,
            other => return Err(unknown_key(&path, other, spot.node.line)),
        }
    }
    Ok(())
}
