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
pub(super) fn read(request: &CompletionRequest) -> Result<CallOptions, RequestProblem> {
    let mut options = CallOptions::new();
    let (name, max) = match request.max_completion_tokens {
        Some(max) => ("max_completion_tokens", Some(max)),
        None => ("max_tokens", request.max_tokens),
    };
    if let Some(max) = max {
        if max == 0 {
            return Err(RequestProblem::invalid("an answer has at least one token").field(name));
        }
        options = options.max_tokens(max);
    }
    let stops = request.stop.clone().map(|stop| stop.into_texts()).unwrap_or_default();
    if stops.len() > STOPS_MAX {
        return Err(RequestProblem::invalid(format!("an answer ends at one of {STOPS_MAX} texts at most"))
            .field("stop"));
    }
    options = options.stop_sequences(stops);
    if let Some(format) = request.response_format.as_ref().filter(|_| asks_for_form(request)) {
        let schema = Schema::compile(schema_of(format)?);
        let schema =
            schema.map_err(|error| RequestProblem::invalid(error.to_string()).field("response_format"))?;
        options = options.reply_schema(schema);
    }
    Ok(options)
}

/// Checks whether a request asks for a response format other than text.
pub(super) fn asks_for_form(request: &CompletionRequest) -> bool {
    let is_plain = |format: &Value| format.is_null() || format.get("type").is_some_and(|kind| kind == "text");
    request.response_format.as_ref().is_some_and(|format| !is_plain(format))
}

fn schema_of(format: &Value) -> Result<Value, RequestProblem> {
    let wrong = |why: &str| RequestProblem::invalid(why).field("response_format");
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
