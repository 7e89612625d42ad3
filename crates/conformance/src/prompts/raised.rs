//! The expectations about an error: its category, and the fields that it carries (conformance-adapter §5.13).

use serde_json::{Map, Value, json};
use singletree::prompts::Error;

use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::{LocatedNode, unknown_key};
use crate::matcher::ExtraKeyPolicy;

/// Asserts the expectations of a fixture about an error.
pub(super) fn check_raised_error(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    error: &Error,
) -> Outcome<()> {
    let mut block = spot.into_map_reader()?;
    checker.check_exact(&block.take_required("category")?, error.category());
    if let Some(carries) = block.take_value("carries") {
        let fields = exposed_fields(error);
        let mut carries = carries.into_map_reader()?;
        while let Some((key, spot)) = carries.take_next_entry() {
            check_carried_field(checker, &key, &spot, &fields)?;
        }
    }
    block.reject_remaining_keys()
}

/// The fields that an error exposes by its specification (§11); those of one that is not found are ours.
fn exposed_fields(error: &Error) -> Map<String, Value> {
    let fields = match error {
        Error::Render(it) => json!({
            "name": it.name(),
            "version": it.version(),
            "label": it.label(),
            "variables": it.variables(),
            "description": it.description(),
        }),
        Error::NotFound { name, label } => json!({ "name": name, "label": label }),
        _ => json!({}),
    };
    match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn check_carried_field(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    fields: &Map<String, Value>,
) -> Outcome<()> {
    if let Some(value) = fields.get(key) {
        checker.check_value(spot, value, ExtraKeyPolicy::Allowed);
        return Ok(());
    }
    if let Some(value) = key.strip_suffix("_present").and_then(|key| fields.get(key)) {
        checker.check_truth(spot, ensure(!value.is_null(), || "it is not there".into()));
        return Ok(());
    }
    if let Some(Value::String(text)) = key.strip_suffix("_mentions").and_then(|key| fields.get(key)) {
        let wanted = spot.as_text()?;
        let told = || format!("{text:?} does not mention {wanted:?}");
        checker.check_result(&spot.path, ensure(text.contains(wanted), told));
        return Ok(());
    }
    Err(unknown_key(&spot.path, key, spot.node.line))
}
