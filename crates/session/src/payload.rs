//! Whether a signal's payload may be taken (suspension §6, §9; D2).

use serde_json::{Map, Value};
use singletree_durable::{JsonDocument, WaitRow};
use singletree_llm::Schema;

use crate::budget::effective_nesting;
use crate::codec::record::decode_wait_terms;
use crate::history::HISTORY;
use crate::limit::Limits;
use crate::{Error, Result};

/// Checks the rules that hold for every payload, independent of the wait.
///
/// # Errors
/// `suspension_resume_payload_invalid`.
pub fn check_payload(payload: &Map<String, Value>, limits: &Limits) -> Result<()> {
    if payload.contains_key(HISTORY) {
        return Err(invalid_payload_error(format!("it must not set '{HISTORY}'")));
    }
    let max = limits.payload_bytes;
    let text = Value::Object(payload.clone()).to_string();
    if text.len() > max {
        return Err(invalid_payload_error(format!("it has more than {max} bytes")));
    }
    check_payload_nesting(&text, limits)
}

/// Checks how deep a payload is.
///
/// # Errors
/// `suspension_resume_payload_invalid`.
pub fn check_payload_nesting(text: &str, limits: &Limits) -> Result<()> {
    let max = effective_nesting(limits);
    if JsonDocument::nesting_depth(text) > max {
        return Err(invalid_payload_error(format!("it has more than {max} levels")));
    }
    Ok(())
}

/// Checks the name of who answers, which is kept with the answer.
///
/// # Errors
/// `suspension_resume_payload_invalid`.
pub fn check_answerer_name(from: Option<&str>, limits: &Limits) -> Result<()> {
    let max = limits.key_bytes;
    if from.is_some_and(|it| it.len() > max) {
        return Err(invalid_payload_error(format!("who answers is named in more than {max} bytes")));
    }
    Ok(())
}

/// Checks a payload against the schema that the wait asks for.
///
/// # Errors
/// `suspension_resume_payload_invalid`.
pub fn check_against_schema(wait: &WaitRow, payload: &Map<String, Value>) -> Result<()> {
    let Some(schema) = decode_wait_terms(wait)?.payload_schema else { return Ok(()) };
    let schema = Schema::compile(schema)
        .map_err(|error| invalid_payload_error(format!("the wait's schema is unusable: {error}")))?;
    schema
        .check_value(&Value::Object(payload.clone()))
        .map_err(|error| invalid_payload_error(error.to_string()))
}

fn invalid_payload_error(why: String) -> Error {
    Error::Payload { why }
}
