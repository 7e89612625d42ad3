//! The response of a model, and its validation.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Map;
use crate::error::{Error, InvalidOutput, Result};
use crate::fault::InvalidField;
use crate::message::{ChatMessage, Role, ToolCall};
use crate::request::Request;
use crate::schema::Schema;

/// Why a model stopped (spec: llm-provider §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFinishReason {
    /// It was done.
    Stop,
    /// It hit the token budget.
    Length,
    /// It waits for tool results.
    ToolCalls,
    /// The provider's filter stepped in.
    ContentFilter,
    /// The provider failed on the way; the response so far may be malformed.
    Error,
}

impl ModelFinishReason {
    /// Returns the reason as it is written on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for ModelFinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Token counts; `None` where the provider reported nothing usable (spec: llm-provider §6, §7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the completion.
    pub completion_tokens: Option<u64>,
    /// Tokens in all.
    pub total_tokens: Option<u64>,
    /// Prompt tokens that came from a cache; zero is a reported miss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Prompt tokens that were written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u64>,
}

/// The answer of a model (spec: llm-provider §6).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The assistant message.
    pub message: ChatMessage,
    /// Why the model stopped.
    pub finish_reason: ModelFinishReason,
    /// The tokens that the call used.
    pub usage: TokenUsage,
    /// The structured value, when the request had a response schema and the model kept to it.
    pub parsed: Option<Value>,
    /// The argument texts of calls whose [`arguments`](ToolCall::arguments) are `None`, by the index of the call: each
    /// cut to [`UNREAD_ARGUMENTS_MAX`] bytes. Empty where the provider did not say.
    pub unread_arguments: BTreeMap<usize, String>,
    /// The provider's response, with everything that we do not normalize.
    pub raw: Value,
}

/// How many bytes are kept of an argument text that cannot be read.
pub const UNREAD_ARGUMENTS_MAX: usize = 2048;

impl Response {
    /// Makes a response that nobody has validated yet.
    #[must_use]
    pub fn new(
        message: ChatMessage,
        finish_reason: ModelFinishReason,
        usage: TokenUsage,
        raw: Value,
    ) -> Self {
        Self { message, finish_reason, usage, parsed: None, unread_arguments: BTreeMap::new(), raw }
    }

    /// Returns the provider's identifier of the response, when it gave one (spec: observability §5.5.3). An empty one,
    /// or one that is no text, is none.
    #[must_use]
    pub fn response_id(&self) -> Option<&str> {
        find_raw_text(&self.raw, &["id", "responseId"])
    }

    /// Returns the model that the provider says it answered with, which may be more specific than the one that was
    /// asked.
    #[must_use]
    pub fn response_model(&self) -> Option<&str> {
        find_raw_text(&self.raw, &["model", "modelVersion"])
    }

    /// Keeps the argument text of the call at an index, where that is no JSON object.
    #[must_use]
    pub fn with_unread_arguments(mut self, call: usize, text: &str) -> Self {
        let end = (0..=UNREAD_ARGUMENTS_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        self.unread_arguments.insert(call, text[..end.unwrap_or(0)].to_owned());
        self
    }

    /// Checks the response against its request and fills in `parsed`. Every provider calls this
    /// before it returns.
    ///
    /// A response that finished with `error` passes as it is: its calls may be malformed, and
    /// whoever reads it must look at each one. Everything else is held to the shape of a message,
    /// also when the model was cut: an empty message or half a call never reaches a history.
    ///
    /// # Errors
    ///
    /// - `provider_invalid_response`: the message is malformed, a call names a tool that was not
    ///   offered, or its arguments do not fit. The error carries the response ([`Error::refused_response`]).
    /// - `structured_output_invalid`: the content is no JSON, or does not fit the response schema.
    pub fn validate_against(mut self, request: &Request) -> Result<Self> {
        self.parsed = None;
        if self.finish_reason == ModelFinishReason::Error {
            return Ok(self);
        }
        let calls = self.finish_reason == ModelFinishReason::ToolCalls || !self.message.tool_calls.is_empty();
        if let Some(schema) = request.response_schema.as_deref()
            && !calls
        {
            self.parsed = Some(self.parse_structured_value(schema)?);
        }
        match self.check_message_shape(request) {
            Ok(()) => Ok(self),
            Err(fault) => Err(fault.into_response_error(self)),
        }
    }

    fn check_message_shape(&self, request: &Request) -> Result<(), InvalidField> {
        let cut = |fault: InvalidField| match self.finish_reason {
            ModelFinishReason::Stop | ModelFinishReason::ToolCalls | ModelFinishReason::Error => fault,
            ModelFinishReason::Length => fault.with_note("the model hit its token budget"),
            ModelFinishReason::ContentFilter => fault.with_note("the provider's filter stepped in"),
        };
        if self.message.role != Role::Assistant {
            return Err(InvalidField::at_path("message.role", "must be assistant"));
        }
        if let Some(fault) = self.message.find_invalid_field() {
            return Err(cut(fault.nest_under("message")));
        }
        for (index, call) in self.message.tool_calls.iter().enumerate() {
            let place = || format!("message.tool_calls[{index}]");
            check_tool_call(call, request).map_err(|error| cut(error.nest_under(&place())))?;
        }
        Ok(())
    }

    fn parse_structured_value(&self, schema: &Schema) -> Result<Value> {
        let content = self.message.text();
        let invalid = |error_message: String| {
            Error::StructuredOutputInvalid(Box::new(InvalidOutput {
                response_schema: schema.as_value().clone(),
                output_content: content.clone().into_owned(),
                error_message,
                finish_reason: self.finish_reason,
                usage: self.usage,
                response_id: self.response_id().map(str::to_owned),
                response_model: self.response_model().map(str::to_owned),
            }))
        };
        let value = serde_json::from_str(&content).map_err(|error| invalid(format!("no JSON: {error}")))?;
        schema.check_value(&value).map_err(|error| invalid(error.to_string()))?;
        Ok(value)
    }
}

/// Returns the first of these fields of a provider's response that is a text and not empty.
fn find_raw_text<'a>(raw: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| raw.get(key)?.as_str()).filter(|text| !text.is_empty())
}

/// How many levels of arrays and objects the arguments of a call may have. A message with them stays within the 64
/// levels that chats store.
const ARGUMENT_LEVELS: usize = 60;

/// Tells whether the arguments of a call have more levels of arrays and objects than a chat can keep.
#[must_use]
pub fn is_too_deep(arguments: &Map) -> bool {
    arguments.values().any(|value| is_deeper_than(value, ARGUMENT_LEVELS - 1))
}

/// Tells whether a value has more levels than this.
fn is_deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(|inner| is_deeper_than(inner, levels - 1)),
        Value::Object(fields) => {
            levels == 0 || fields.values().any(|inner| is_deeper_than(inner, levels - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn check_tool_call(call: &ToolCall, request: &Request) -> Result<(), InvalidField> {
    let Some(tool) = request.find_tool(&call.name) else {
        return Err(InvalidField::at_path("name", format!("{:?} is not a tool of this request", call.name)));
    };
    let Some(arguments) = &call.arguments else {
        return Err(InvalidField::at_path("arguments", "are no JSON object"));
    };
    if is_too_deep(arguments) {
        return Err(InvalidField::at_path("arguments", format!("have more than {ARGUMENT_LEVELS} levels")));
    }
    tool.schema()
        .check_arguments(arguments)
        .map_err(|error| InvalidField::at_path("arguments", error.to_string()))
}

#[cfg(test)]
mod tests;
