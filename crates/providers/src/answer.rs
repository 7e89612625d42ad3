//! Reading answers: the code that all wires share.

use serde_json::Value;
use singletree_llm::{Error, Map, ProviderErrorDetail, Result};

/// Makes the error of an answer that is none.
pub(crate) fn invalid_response_error(problem: impl Into<String>) -> Error {
    Error::InvalidResponse(ProviderErrorDetail::new(problem))
}

/// Makes the error of a stream that ended before its answer did.
pub(crate) fn incomplete_stream_error() -> Error {
    Error::Unavailable(ProviderErrorDetail::new("the stream ended before the response was complete"))
}

/// Reads the data of an event.
pub(crate) fn parse_event_data(data: &str) -> Result<Value> {
    serde_json::from_str(data).map_err(|error| {
        Error::InvalidResponse(
            ProviderErrorDetail::new("an event of the stream is no JSON").with_source(error),
        )
    })
}

/// Returns a field that is a string.
pub(crate) fn string_field<'a>(object: &'a Map, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

/// Takes fields that a stream says again: the last word counts, and null unsays nothing.
pub(crate) fn merge_latest_fields(known: &mut Map, more: Map) {
    for (name, value) in more {
        if !value.is_null() || !known.contains_key(&name) {
            known.insert(name, value);
        }
    }
}
