//! Expectations about several results: the fields in which they are equal, and those in which they differ.

use serde_json::Value;

use super::shown::{message_to_json, result_fields};
use super::world::{PromptCallResult, PromptEnvironment};
use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::yaml::YamlValue;

/// Takes the names of two or more captured results.
fn parse_result_names(spot: LocatedNode) -> Outcome<Vec<String>> {
    let path = spot.path.clone();
    let names = spot.into_distinct_texts()?;
    // It stands in an expectation: that it compares nothing is for an assertion to say.
    if names.len() < 2 {
        Err(CaseFailure::assertion_error(path, "nothing to compare with"))
    } else {
        Ok(names)
    }
}

fn captured_field(world: &PromptEnvironment, (name, path): (&str, &str), key: &str) -> Outcome<Value> {
    let shown = result_fields(world.captured_result(name, path)?).unwrap_or_default();
    let found = shown.get(key).cloned();
    // It stands in an expectation: that there is no such field is for an assertion to say.
    found.ok_or_else(|| CaseFailure::assertion_error(path, format!("'{name}' has no field '{key}'")))
}

/// `result_equivalence`: fields that must be the same in all results, and fields that may differ.
pub(super) fn check_equivalence(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    world: &PromptEnvironment,
) -> Outcome<()> {
    let path = spot.path.clone();
    let mut block = spot.into_map_reader()?;
    let of = parse_result_names(block.take_required("of")?)?;
    for key in block.take_required("fields_must_match")?.into_distinct_items()? {
        let name = key.as_text()?;
        let first = captured_field(world, (&of[0], &path), name)?;
        for other in &of[1..] {
            let found = captured_field(world, (other, &path), name)?;
            let told = || format!("{name}: {first} in '{}', {found} in '{other}'", of[0]);
            checker.check_result(&key.path, ensure(first == found, told));
        }
    }
    if let Some(free) = block.take_value("fields_may_differ") {
        for key in free.into_distinct_items()? {
            // Nothing is asserted of it, but it must be a field of something.
            let known = ["fetched_at", "rendered_at"].contains(&key.as_text()?);
            known
                .then_some(())
                .map_or_else(|| captured_field(world, (&of[0], &path), key.as_text()?).map(drop), Ok)?;
        }
    }
    block.reject_remaining_keys()
}

/// `<field>_equal` and `<field>_different`: lists of results whose field is the same in all, or another in each.
pub(super) fn check_equal_fields(
    checker: &mut AssertionChecker,
    (spot, key, is_equal): (LocatedNode, &str, bool),
    world: &PromptEnvironment,
) -> Outcome<()> {
    let is_one = matches!(&spot.node.value, YamlValue::List(it) if it.iter().all(|it| matches!(it.value, YamlValue::Str(_))));
    let lists = if is_one { vec![spot] } else { spot.into_distinct_items()? };
    for list in lists {
        let path = list.path.clone();
        let names = parse_result_names(list)?;
        let values: Vec<Value> =
            names.iter().map(|name| captured_field(world, (name, &path), key)).collect::<Outcome<_>>()?;
        for (at, value) in values.iter().enumerate() {
            let others = values[at + 1..].iter();
            let wrong = others.filter(|other| (*other == value) != is_equal).count();
            checker.check_result(&path, ensure(wrong == 0, || format!("{key} of {names:?} is {values:?}")));
        }
    }
    Ok(())
}

/// The messages of two results that a block compares.
struct MessageComparison {
    names: Vec<String>,
    messages: Vec<Vec<Value>>,
    path: String,
}

impl MessageComparison {
    fn take_from_block(block: &mut YamlMapReader, world: &PromptEnvironment) -> Outcome<Self> {
        let path = block.path().to_owned();
        let names = parse_result_names(block.take_required("between")?)?;
        let messages = names.iter().map(|name| match world.captured_result(name, &path)? {
            PromptCallResult::Result(it) => Ok(it.messages().iter().map(|it| message_to_json(it)).collect()),
            PromptCallResult::Prompt(_)
            | PromptCallResult::Group(..)
            | PromptCallResult::Label(_)
            | PromptCallResult::Nothing => {
                Err(CaseFailure::reader_error(&path, format!("'{name}' is no rendered prompt")))
            }
        });
        let messages = messages.collect::<Outcome<_>>()?;
        Ok(Self { names, messages, path })
    }

    /// The message of each result at an index.
    fn messages_at_index(&self, index: &LocatedNode) -> Outcome<Vec<&Value>> {
        let at = usize::try_from(index.as_integer()?).ok();
        let missing =
            |name: &str| CaseFailure::assertion_error(&self.path, format!("'{name}' has no such message"));
        let each = self.names.iter().zip(&self.messages);
        each.map(|(name, it)| at.and_then(|at| it.get(at)).ok_or_else(|| missing(name))).collect()
    }
}

/// `expected_shared_prefix`: the text of a message begins with the same bytes in all results.
pub(super) fn check_shared_prefix(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    world: &PromptEnvironment,
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let between = MessageComparison::take_from_block(&mut block, world)?;
    let messages = between.messages_at_index(&block.take_required("message_index")?)?;
    let prefix = block.take_required("prefix")?;
    for (name, message) in between.names.iter().zip(messages) {
        let begins = message["content"]
            .as_str()
            .is_some_and(|text| prefix.as_text().is_ok_and(|p| text.starts_with(p)));
        checker
            .check_result(&prefix.path, ensure(begins, || format!("'{name}' begins otherwise: {message}")));
    }
    prefix.as_text()?;
    block.reject_remaining_keys()
}

/// `expected_message_equal`: messages are the same, byte for byte, in all results.
pub(super) fn check_equal_messages(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    world: &PromptEnvironment,
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    let between = MessageComparison::take_from_block(&mut block, world)?;
    for index in block.take_required("message_indices")?.into_distinct_items()? {
        let texts: Vec<String> =
            between.messages_at_index(&index)?.into_iter().map(Value::to_string).collect();
        let same = texts.iter().all(|text| *text == texts[0]);
        checker.check_result(&index.path, ensure(same, || format!("they differ: {texts:?}")));
    }
    block.reject_remaining_keys()
}
