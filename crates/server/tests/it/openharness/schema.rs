//! The protocol's own schema and examples, where they are.

use std::path::PathBuf;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

/// Where the specifications lie unless the environment says otherwise.
const BESIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/spec");

static SCHEMA: LazyLock<Option<Value>> = LazyLock::new(|| read("schema/openharness-v1.draft.json"));

static RESPONSE: LazyLock<Option<Validator>> = LazyLock::new(|| validator("responseMessage"));
static REQUEST: LazyLock<Option<Validator>> = LazyLock::new(|| validator("requestMessage"));

/// Finds a file of the protocol, or says that its test is not run.
pub(super) fn path(path: &str) -> Option<PathBuf> {
    let spec = std::env::var_os("SINGLETREE_SPEC").map_or_else(|| PathBuf::from(BESIDE), PathBuf::from);
    let path = spec.join("openharness").join(path);
    if !path.exists() {
        eprintln!("not run: openharness {}: no specification found", path.display());
        return None;
    }
    Some(path)
}

/// Reads a file of the protocol.
fn read(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(path(name)?).unwrap();
    Some(serde_json::from_str(&text).unwrap())
}

/// Reads an example, or says that its test is not run.
pub(super) fn example(name: &str) -> Option<Value> {
    read(&format!("examples/{name}.json"))
}

/// The schema of one kind of message; never the root, which takes a message for none that holds both.
fn validator(kind: &str) -> Option<Validator> {
    let schema = SCHEMA.as_ref()?;
    let one =
        json!({ "$schema": schema["$schema"], "$defs": schema["$defs"], "$ref": format!("#/$defs/{kind}") });
    Some(jsonschema::validator_for(&one).unwrap())
}

/// Checks an answer; without the schema nothing is.
pub(super) fn check_response(answer: &Value) {
    if let Some(validator) = RESPONSE.as_ref() {
        let wrong: Vec<_> = validator.iter_errors(answer).map(|it| it.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:?} in {answer}");
    }
}

/// Returns the verdict of the schema on a request; none without the schema.
pub(super) fn takes_request(request: &Value) -> Option<bool> {
    REQUEST.as_ref().map(|it| it.is_valid(request))
}
