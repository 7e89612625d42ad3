//! The options of an answer outside of a session: response format, maximum length and stop sequences.

use serde_json::{Value, json};
use singletree_agent::CallOptions;
use singletree_llm::Schema;
use singletree_protocol::openai::CompletionRequest;

use crate::problem::RequestProblem;

/// The maximum number of stop sequences.
const STOPS_MAX: usize = 16;

/// Reads the options.
///
/// # Errors
/// `server_request_invalid`, with the parameter.
pub(super) fn read_call_options(request: &CompletionRequest) -> Result<CallOptions, RequestProblem> {
    let mut options = CallOptions::new();
    let (name, max) = match request.max_completion_tokens {
        Some(max) => ("max_completion_tokens", Some(max)),
        None => ("max_tokens", request.max_tokens),
    };
    if let Some(max) = max {
        if max == 0 {
            return Err(RequestProblem::invalid_request("an answer has at least one token").with_field(name));
        }
        options = options.with_max_tokens(max);
    }
    let stops = request.stop.clone().map(|stop| stop.into_texts()).unwrap_or_default();
    if stops.len() > STOPS_MAX {
        return Err(RequestProblem::invalid_request(format!(
            "an answer ends at one of {STOPS_MAX} texts at most"
        ))
        .with_field("stop"));
    }
    options = options.with_stop_sequences(stops);
    if let Some(format) = request.response_format.as_ref().filter(|_| asks_for_response_format(request)) {
        let schema = Schema::compile(read_reply_schema(format)?);
        let schema = schema.map_err(|error| {
            RequestProblem::invalid_request(error.to_string()).with_field("response_format")
        })?;
        options = options.with_reply_schema(schema);
    }
    Ok(options)
}

/// Checks whether a request asks for a response format other than text.
pub(super) fn asks_for_response_format(request: &CompletionRequest) -> bool {
    let is_plain = |format: &Value| format.is_null() || format.get("type").is_some_and(|kind| kind == "text");
    request.response_format.as_ref().is_some_and(|format| !is_plain(format))
}

fn read_reply_schema(format: &Value) -> Result<Value, RequestProblem> {
    let wrong = |why: &str| RequestProblem::invalid_request(why).with_field("response_format");
    match format.get("type").and_then(Value::as_str) {
        Some("json_object") => Ok(json!({ "type": "object" })),
        Some("json_schema") => {
            let schema = format.pointer("/json_schema/schema").filter(|schema| schema.is_object());
            let schema = schema.ok_or_else(|| wrong("a `json_schema` has its `schema`, an object"))?;
            if schema.get("type").is_none_or(|kind| kind != "object") {
                return Err(wrong("the schema of an answer is one of an object"));
            }
            Ok(schema.clone())
        }
        _ => Err(wrong("the form of an answer is `text`, `json_object` or `json_schema`")),
    }
}
