//! The expectations about an error: its category, and the fields that it carries (conformance-adapter §5.13).

use serde_json::{Map, Value, json};
use singletree::prompts::Error;

use crate::check::{AssertionChecker, ensure};
use crate::failure::Outcome;
use crate::fields::{LocatedNode, unknown};
use crate::matcher::ExtraKeyPolicy;

/// Asserts the expectations of a fixture about an error.
pub(super) fn expect(checker: &mut AssertionChecker, spot: LocatedNode, error: &Error) -> Outcome<()> {
    let mut block = spot.fields()?;
    checker.exactly(&block.need("category")?, error.category());
    if let Some(carries) = block.take("carries") {
        let fields = fields(error);
        let mut carries = carries.fields()?;
        while let Some((key, spot)) = carries.next() {
            carried(checker, &key, &spot, &fields)?;
        }
    }
    block.finish()
}

/// The fields that an error exposes by its specification (§11); those of one that is not found are ours.
fn fields(error: &Error) -> Map<String, Value> {
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

fn carried(
    checker: &mut AssertionChecker,
    key: &str,
    spot: &LocatedNode,
    fields: &Map<String, Value>,
) -> Outcome<()> {
    if let Some(value) = fields.get(key) {
        checker.value(spot, value, ExtraKeyPolicy::Allowed);
        return Ok(());
    }
    if let Some(value) = key.strip_suffix("_present").and_then(|key| fields.get(key)) {
        checker.truth(spot, ensure(!value.is_null(), || "it is not there".into()));
        return Ok(());
    }
    if let Some(Value::String(text)) = key.strip_suffix("_mentions").and_then(|key| fields.get(key)) {
        let wanted = spot.text()?;
        let told = || format!("{text:?} does not mention {wanted:?}");
        checker.holds(&spot.path, ensure(text.contains(wanted), told));
        return Ok(());
    }
    Err(unknown(&spot.path, key, spot.node.line))
}
