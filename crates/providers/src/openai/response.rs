//! A chat completion as a response (spec: llm-provider §8.1.2).

use serde_json::Value;
use singletree_llm::{
    ChatMessage, ContentBlock, Error, Map, MessageContent, ModelFinishReason, ProviderErrorDetail, Response,
    Result, TokenUsage, ToolCall, parse_arguments,
};

use super::refusal;
use crate::usage::read_counter;

/// Reads the body of a successful answer.
pub(super) fn read_response(body: Value) -> Result<Response> {
    if body.get("choices").is_none() && body.get("error").is_some() {
        return Err(refusal::in_band_error(&body));
    }
    let choice = body
        .get("choices")
        .and_then(|it| it.get(0))
        .ok_or_else(|| invalid_response_error("has no choices"))?;
    let message = choice
        .get("message")
        .and_then(Value::as_object)
        .ok_or_else(|| invalid_response_error("has no message"))?;
    let (content, refused) = read_message_content(message)?;
    let read = match message.get("tool_calls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => {
            calls.iter().enumerate().map(|(at, it)| read_tool_call(at, it)).collect::<Result<_>>()?
        }
        Some(_) => return Err(invalid_response_error("has tool_calls that are no list")),
    };
    let (calls, texts): (Vec<ToolCall>, Vec<String>) = read.into_iter().unzip();
    let unread: Vec<usize> = (0..calls.len()).filter(|at| calls[*at].arguments.is_none()).collect();
    let reason = read_finish_reason(choice.get("finish_reason"), refused);
    let usage = read_token_usage(body.get("usage"));
    let message = ChatMessage::assistant(content).with_tool_calls(calls);
    let response = Response::new(message, reason, usage, body);
    Ok(unread.into_iter().fold(response, |response, at| response.with_unread_arguments(at, &texts[at])))
}

/// Returns the content of a message, and whether it is a refusal.
fn read_message_content(message: &Map) -> Result<(MessageContent, bool)> {
    let mut blocks = Vec::new();
    if let Some(text) = reasoning_text(message) {
        blocks.push(ContentBlock::Thinking { text: text.to_owned(), signature: None });
    }
    let said = match message.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(value) => {
            content_text(value).ok_or_else(|| invalid_response_error("has content that is no text"))?
        }
    };
    let refusal = message.get("refusal").and_then(Value::as_str).unwrap_or_default();
    let refused = said.is_empty() && !refusal.is_empty();
    let said = if refused { refusal.to_owned() } else { said };
    if !said.is_empty() {
        blocks.push(ContentBlock::from_text(said));
    }
    Ok((MessageContent::from_blocks(blocks), refused))
}

/// Returns the reasoning of a message or a delta; its name depends on the server (spec: llm-provider §8.1.6).
pub(super) fn reasoning_text(message: &Map) -> Option<&str> {
    let named = |name: &str| message.get(name).and_then(Value::as_str).filter(|it| !it.is_empty());
    named("reasoning_content").or_else(|| named("reasoning"))
}

/// Returns content as text: a string, or the text of its parts, as some servers write it.
pub(super) fn content_text(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter(|part| part["type"] == "text");
            Some(texts.filter_map(|text| text["text"].as_str()).collect())
        }
        _ => None,
    }
}

/// Reads a call, and the text of its arguments.
fn read_tool_call(at: usize, call: &Value) -> Result<(ToolCall, String)> {
    let function =
        call.get("function").ok_or_else(|| invalid_response_error("has a tool call without a function"))?;
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    let id = match call.get("id").and_then(Value::as_str) {
        Some(id) if !id.is_empty() => id.to_owned(),
        _ => generated_call_id(at),
    };
    let arguments = function.get("arguments").map(arguments_text).unwrap_or_default();
    let read = parse_arguments(&arguments);
    Ok((ToolCall { id, name: name.to_owned(), arguments: read, signature: None }, arguments))
}

/// Names a call that the server did not name. Unique within its message, and that is all an id must be.
pub(super) fn generated_call_id(at: usize) -> String {
    format!("call_{at}")
}

/// Returns the arguments as text; a few servers send the object itself.
pub(super) fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Reads why the model stopped. An unknown reason is `error` (spec: llm-provider §8.1.2).
pub(super) fn read_finish_reason(told: Option<&Value>, refused: bool) -> ModelFinishReason {
    match told.and_then(Value::as_str) {
        Some("stop") if refused => ModelFinishReason::ContentFilter,
        Some("stop") => ModelFinishReason::Stop,
        Some("length") => ModelFinishReason::Length,
        Some("tool_calls" | "function_call") => ModelFinishReason::ToolCalls,
        Some("content_filter") => ModelFinishReason::ContentFilter,
        _ => ModelFinishReason::Error,
    }
}

/// Reads the counters (spec: llm-provider §7).
pub(super) fn read_token_usage(usage: Option<&Value>) -> TokenUsage {
    TokenUsage {
        prompt_tokens: read_counter(usage, "/prompt_tokens"),
        completion_tokens: read_counter(usage, "/completion_tokens"),
        total_tokens: read_counter(usage, "/total_tokens"),
        cached_tokens: read_counter(usage, "/prompt_tokens_details/cached_tokens"),
        cache_creation_tokens: None,
    }
}

/// Makes the error of an answer that is none.
pub(super) fn invalid_response_error(problem: &str) -> Error {
    Error::InvalidResponse(ProviderErrorDetail::new(format!("the answer {problem}")))
}
