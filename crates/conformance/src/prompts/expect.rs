//! Asserts the expectations of a case: about each call, about all calls, and about the backends.

use serde_json::{Value, json};
use singletree::prompts::{Error, PromptGroup};

use super::call::PromptCallSpec;
use super::shown::{PromptFields, prompt_fields, result_fields};
use super::world::{PromptCallResult, PromptEnvironment};
use super::{equal, raised};
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, unknown_key};
use crate::matcher::ExtraKeyPolicy;
use crate::yaml::{YamlNode, YamlValue};

/// How the name of an expectation about one backend ends.
const CALL_COUNT: &str = "_backend_call_count";

/// Asserts the expectations of a call, and captures its result.
pub(super) fn check_call(
    checker: &mut AssertionChecker,
    call: &PromptCallSpec,
    outcome: Result<PromptCallResult, Error>,
    world: &mut PromptEnvironment,
) -> Outcome<()> {
    let mut is_raise_expected = false;
    if let Some(expected) = call.expected.clone() {
        let mut block = expected.into_map_reader()?;
        while let Some((key, spot)) = block.take_next_entry() {
            match (key.as_str(), &outcome) {
                ("raises", Err(error)) => {
                    is_raise_expected = true;
                    raised::check_raised_error(checker, spot, error)?;
                }
                ("raises", Ok(_)) => checker.check_result(&spot.path, Err("nothing is raised".into())),
                ("prompt" | "prompt_result" | "prompt_group", Ok(given)) => {
                    check_result_key(checker, (&key, spot), given, world)?;
                }
                ("label" | "resolved_label" | "resolves_to", Ok(PromptCallResult::Label(label))) => {
                    checker.check_exact(&spot, label.as_str());
                }
                // That it raised is told below.
                ("prompt" | "prompt_result" | "prompt_group", Err(_)) => {}
                (key, _) => check_backend_calls(checker, (key, spot), world)?,
            }
        }
    }
    match (outcome, &call.capture) {
        (Ok(given), Some(name)) => drop(world.captured.insert(name.clone(), given)),
        (Ok(_), None) => {}
        (Err(error), _) if !is_raise_expected => {
            checker.check_result(&call.path, Err(format!("raises {} ({error})", error.category())));
        }
        (Err(_), _) => {}
    }
    Ok(())
}

fn check_result_key(
    checker: &mut AssertionChecker,
    (key, spot): (&str, LocatedNode),
    given: &PromptCallResult,
    world: &PromptEnvironment,
) -> Outcome<()> {
    match (key, given) {
        ("prompt_group", PromptCallResult::Group(group, refs)) => {
            check_prompt_group(checker, spot, (group, refs), world)
        }
        ("prompt", PromptCallResult::Result(it)) => {
            check_field_subset(checker, spot, &prompt_fields(it.prompt()))
        }
        ("prompt", PromptCallResult::Prompt(_)) | ("prompt_result", PromptCallResult::Result(_)) => {
            check_field_subset(checker, spot, &result_fields(given).unwrap_or_default())
        }
        _ => {
            checker.check_result(&spot.path, Err(format!("the call gave no {key}")));
            Ok(())
        }
    }
}

/// Asserts the expectations about all calls together.
pub(super) fn check_case(
    checker: &mut AssertionChecker,
    expected: LocatedNode,
    world: &PromptEnvironment,
) -> Outcome<()> {
    let mut block = expected.into_map_reader()?;
    while let Some((key, spot)) = block.take_next_entry() {
        if let Some(shown) = world.captured.get(&key).and_then(result_fields) {
            check_field_subset(checker, spot, &shown)?;
        } else if let Some(PromptCallResult::Group(group, refs)) = world.captured.get(&key) {
            check_prompt_group(checker, spot, (group, refs), world)?;
        } else {
            check_results_key(checker, (&key, spot), world)?;
        }
    }
    Ok(())
}

fn check_results_key(
    checker: &mut AssertionChecker,
    (key, spot): (&str, LocatedNode),
    world: &PromptEnvironment,
) -> Outcome<()> {
    match key {
        "result_equivalence" => equal::check_equivalence(checker, spot, world),
        "prompt_group" => {
            let of = spot.node.get_entry("of").map(YamlNode::to_json);
            let (group, refs) = find_prompt_group(of, world).ok_or_else(|| {
                CaseFailure::assertion_error(format!("{}.of", spot.path), "there is no such group")
            })?;
            check_prompt_group(checker, spot, (group, refs), world)
        }
        "rendered_hash_equal" => equal::check_equal_fields(checker, (spot, "rendered_hash", true), world),
        "rendered_hash_different" => {
            equal::check_equal_fields(checker, (spot, "rendered_hash", false), world)
        }
        "template_hash_equal" => equal::check_equal_fields(checker, (spot, "template_hash", true), world),
        "template_hash_different" => {
            equal::check_equal_fields(checker, (spot, "template_hash", false), world)
        }
        _ => check_backend_calls(checker, (key, spot), world),
    }
}

/// Asserts the expectations beside `expected`.
pub(super) fn check_sibling_key(
    checker: &mut AssertionChecker,
    (key, spot): (&str, LocatedNode),
    world: &PromptEnvironment,
) -> Outcome<()> {
    // One, or a list of them.
    let each =
        if matches!(spot.node.value, YamlValue::List(_)) { spot.into_distinct_items()? } else { vec![spot] };
    each.into_iter().try_for_each(|spot| match key {
        "expected_shared_prefix" => equal::check_shared_prefix(checker, spot, world),
        "expected_message_equal" => equal::check_equal_messages(checker, spot, world),
        _ => check_backend_calls(checker, (key, spot), world),
    })
}

fn check_backend_calls(
    checker: &mut AssertionChecker,
    (key, spot): (&str, LocatedNode),
    world: &PromptEnvironment,
) -> Outcome<()> {
    match (key, key.strip_suffix(CALL_COUNT)) {
        ("backend_call_counts", _) => {
            let mut counts = spot.into_map_reader()?;
            while let Some((name, count)) = counts.take_next_entry() {
                checker.check_exact(&count, world.find_backend(&name, &count.path)?.fetch_count());
            }
            Ok(())
        }
        ("expected_backend_state", _) => {
            let mut states = spot.into_map_reader()?;
            while let Some((name, state)) = states.take_next_entry() {
                let backend = world.find_backend(&name, &state.path)?;
                let mut state = state.into_map_reader()?;
                checker.check_exact(&state.take_required("source_read_count")?, backend.source_read_count());
                state.reject_remaining_keys()?;
            }
            Ok(())
        }
        (_, Some(name)) => {
            checker.check_exact(&spot, world.find_backend(name, &spot.path)?.fetch_count());
            Ok(())
        }
        (_, None) => Err(unknown_key(&spot.path, key, spot.node.line)),
    }
}

/// Asserts the fields that are named. Each is compared as a whole.
fn check_field_subset(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    shown: &PromptFields,
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    while let Some((key, spot)) = block.take_next_entry() {
        let is_there = |it: &Value| ensure(!it.is_null(), || "it is not there".into());
        let is_absent = |it: &Value| ensure(it.is_null(), || format!("it is there: {it}"));
        let is_text = |it: &Value| {
            ensure(it.as_str().is_some_and(|text| !text.is_empty()), || format!("no text, or empty: {it}"))
        };
        let named = |suffix: &str| key.strip_suffix(suffix).and_then(|key| shown.get(key));
        if let Some(value) = shown.get(&key) {
            match spot.node.get_entry("non_empty_string").cloned() {
                Some(node) if value.is_string() => {
                    checker.check_truth(&LocatedNode::new(node, spot.path), is_text(value))
                }
                Some(_) | None => {
                    checker.check_value(&remove_null_entries(&key, spot), value, ExtraKeyPolicy::Refused)
                }
            }
        } else if let Some(value) = named("_absent") {
            checker.check_truth(&spot, is_absent(value));
        } else if let Some(value) = named("_present") {
            checker.check_truth(&spot, is_there(value));
        } else if let Some(value) = named("_non_empty_string") {
            checker.check_truth(&spot, is_text(value));
        } else {
            return Err(unknown_key(&spot.path, &key, spot.node.line));
        }
    }
    Ok(())
}

/// In records whose fields are all optional, null is absent.
fn remove_null_entries(key: &str, mut spot: LocatedNode) -> LocatedNode {
    if let (true, YamlValue::Map(entries)) =
        (matches!(key, "sampling" | "token_budget"), &mut spot.node.value)
    {
        entries.retain(|(_, it)| it.value != YamlValue::Null);
    }
    spot
}

/// Finds a group: by the name that it was captured under, by its members, or as the only one.
fn find_prompt_group(of: Option<Value>, world: &PromptEnvironment) -> Option<(&PromptGroup, &[String])> {
    let mut groups = world.captured.iter().filter_map(|(name, it)| match it {
        PromptCallResult::Group(group, refs) => Some((name, group, refs.as_slice())),
        PromptCallResult::Prompt(_)
        | PromptCallResult::Result(_)
        | PromptCallResult::Label(_)
        | PromptCallResult::Nothing => None,
    });
    let found = match of {
        Some(Value::String(wanted)) => groups.find(|(name, ..)| **name == wanted),
        Some(Value::Array(wanted)) => groups.find(|(_, _, refs)| json!(refs) == json!(wanted)),
        Some(_) => None,
        None => groups.next().filter(|_| groups.next().is_none()),
    };
    found.map(|(_, group, refs)| (group, refs))
}

fn check_prompt_group(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    (group, refs): (&PromptGroup, &[String]),
    world: &PromptEnvironment,
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    block.take_value("of");
    let names: Vec<&str> = group.members().iter().map(|member| member.prompt().name()).collect();
    while let Some((key, spot)) = block.take_next_entry() {
        match key.as_str() {
            "group_name" => checker.check_exact(&spot, group.name()),
            "member_count" => checker.check_exact(&spot, names.len()),
            "member_names" => checker.check_exact(&spot, json!(names)),
            "member_order_preserved" => {
                let is = |(name, member)| match world.captured_result(name, &spot.path) {
                    Ok(PromptCallResult::Result(it)) => it.as_ref() == member,
                    Ok(
                        PromptCallResult::Prompt(_)
                        | PromptCallResult::Group(..)
                        | PromptCallResult::Label(_)
                        | PromptCallResult::Nothing,
                    )
                    | Err(_) => false,
                };
                let kept = refs.iter().map(String::as_str).zip(group.members()).all(is);
                checker.check_truth(&spot, ensure(kept, || format!("the members are {names:?}")));
            }
            _ => return Err(unknown_key(&spot.path, &key, spot.node.line)),
        }
    }
    Ok(())
}
