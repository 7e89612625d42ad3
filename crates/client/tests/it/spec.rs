//! The protocol's own files, where they are.

use std::path::PathBuf;

use jsonschema::Validator;
use serde_json::{Value, json};

/// Where the specifications lie unless the environment says otherwise.
const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/spec");

/// Reads a file of the protocol, or says that its test is not run.
pub(crate) fn text(path: &str) -> Option<String> {
    let spec = std::env::var_os("SINGLETREE_SPEC").map_or_else(|| PathBuf::from(BESIDE), PathBuf::from);
    let text = std::fs::read_to_string(spec.join("openharness").join(path)).ok();
    if text.is_none() {
        eprintln!("not run: openharness shell {path}: no specification found");
    }
    text
}

/// The schema of one kind of message; never the root, which takes a message for none that holds both.
pub(crate) fn validator(kind: &str) -> Option<Validator> {
    let schema: Value = serde_json::from_str(&text("schema/openharness-v1.draft.json")?).unwrap();
    let one =
        json!({ "$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": format!("#/$defs/{kind}") });
    Some(jsonschema::validator_for(&one).unwrap())
}
