//! The answer of a rule, and its form: deltas, or an error.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::pattern::Captures;
use super::template;
use crate::Map;
use crate::delta::ResponseDelta;
use crate::error::{Error, ProviderErrorDetail};
use crate::fault::InvalidField;
use crate::request::Request;
use crate::response::{ModelFinishReason, TokenUsage};

/// The answer of a rule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ScriptedAnswer {
    thinking: Option<String>,
    reply: Option<String>,
    calls: Vec<ScriptedToolCall>,
    error: Option<ScriptedFailure>,
    finish: Option<ModelFinishReason>,
    /// A pause before each delta.
    delay_ms: u64,
}

/// A tool call to make. Its arguments are templates; raw ones are sent as they are.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedToolCall {
    tool: String,
    #[serde(default)]
    arguments: Option<Map>,
    /// The text of the arguments as a broken model might write it, sent as it is.
    #[serde(default)]
    raw_arguments: Option<String>,
}

/// An error to fail with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedFailure {
    category: ScriptedErrorCategory,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    retry_after_ms: Option<u64>,
}

/// The categories that a script can fail with. A reply that does not fit the response schema is
/// `structured_output_invalid` by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum ScriptedErrorCategory {
    #[serde(rename = "provider_authentication")]
    Authentication,
    #[serde(rename = "provider_unavailable")]
    Unavailable,
    #[serde(rename = "provider_invalid_model")]
    InvalidModel,
    #[serde(rename = "provider_model_not_loaded")]
    ModelNotLoaded,
    #[serde(rename = "provider_rate_limit")]
    RateLimit,
    #[serde(rename = "provider_invalid_response")]
    InvalidResponse,
    #[serde(rename = "provider_invalid_request")]
    InvalidRequest,
    #[serde(rename = "provider_unsupported_content_block")]
    UnsupportedContentBlock,
}

/// An answer, worked out for one request.
#[derive(Debug)]
pub(super) struct AnswerPlan {
    pub(super) deltas: Vec<ResponseDelta>,
    /// The error that comes in place of the end.
    pub(super) error: Option<Error>,
    pub(super) delay: Duration,
}

impl ScriptedAnswer {
    /// Makes an answer of text.
    pub(super) fn from_reply_template(template: String) -> Self {
        Self { reply: Some(template), ..Self::default() }
    }

    /// Checks that the answer says something, and uses only names that are known.
    pub(super) fn check_answer(&self, known: &BTreeSet<&str>) -> Result<(), InvalidField> {
        if self.reply.is_none() && self.calls.is_empty() && self.error.is_none() {
            return Err(InvalidField::at_path("", "needs a reply, calls or an error"));
        }
        let mut unknown = None;
        let mut visit = |name: &str| {
            if !known.contains(name) {
                unknown.get_or_insert_with(|| name.to_owned());
            }
        };
        for text in self.thinking.iter().chain(&self.reply) {
            template::for_each_name(text, &mut visit);
        }
        for (index, call) in self.calls.iter().enumerate() {
            for value in call.arguments.iter().flat_map(Map::values) {
                template::for_each_name_in_value(value, &mut visit);
            }
            if call.arguments.is_some() == call.raw_arguments.is_some() {
                let place = format!("calls[{index}]");
                return Err(InvalidField::at_path(place, "needs either arguments or raw_arguments"));
            }
        }
        match unknown {
            Some(name) => Err(InvalidField::at_path("", format!("{{{name}}} is kept by no pattern"))),
            None => Ok(()),
        }
    }

    /// Works the answer out. Ids come from the request, so that asking again gives them again.
    pub(super) fn build_answer_plan(
        &self,
        request: &Request,
        model: &str,
        captures: &Captures,
    ) -> AnswerPlan {
        let thinking = self.thinking.as_deref().map(|thinking| template::fill_template(thinking, captures));
        let reply = self.reply.as_deref().map(|reply| template::fill_template(reply, captures));
        let calls: Vec<(String, String, String)> = self
            .calls
            .iter()
            .enumerate()
            .map(|(index, call)| {
                let id = format!("call_{}_{index}", request.messages.len());
                (id, call.tool.clone(), call.fill_arguments_text(captures))
            })
            .collect();

        let mut deltas: Vec<ResponseDelta> =
            split_words(thinking.as_deref().unwrap_or_default()).map(ResponseDelta::from_thinking).collect();
        deltas.extend(split_words(reply.as_deref().unwrap_or_default()).map(ResponseDelta::from_text));
        for (index, (id, name, arguments)) in (0_u32..).zip(&calls) {
            deltas.extend(build_call_deltas(index, id, name, arguments));
        }
        let error = self.error.as_ref().map(ScriptedFailure::build_error);
        if error.is_none() {
            let reason = self.finish.unwrap_or(match calls.as_slice() {
                [] => ModelFinishReason::Stop,
                [..] => ModelFinishReason::ToolCalls,
            });
            let usage = count_word_usage(request, thinking.iter().chain(&reply));
            let raw = build_raw_response(
                model,
                reason,
                usage,
                json!({ "thinking": thinking, "content": reply, "tool_calls": calls }),
            );
            deltas.push(ResponseDelta::Finish { reason, usage, raw });
        }
        AnswerPlan { deltas, error, delay: Duration::from_millis(self.delay_ms) }
    }
}

impl ScriptedToolCall {
    fn fill_arguments_text(&self, captures: &Captures) -> String {
        match (&self.arguments, &self.raw_arguments) {
            (_, Some(raw)) => raw.clone(),
            (Some(map), None) => Value::Object(template::fill_map_strings(map, captures)).to_string(),
            (None, None) => "{}".to_owned(),
        }
    }
}

impl ScriptedFailure {
    fn build_error(&self) -> Error {
        let mut detail = ProviderErrorDetail::new(
            self.message.as_deref().unwrap_or("the script says that this call fails"),
        );
        if let Some(ms) = self.retry_after_ms {
            detail = detail.with_retry_after(Duration::from_millis(ms));
        }
        match self.category {
            ScriptedErrorCategory::Authentication => Error::Authentication(detail),
            ScriptedErrorCategory::Unavailable => Error::Unavailable(detail),
            ScriptedErrorCategory::InvalidModel => Error::InvalidModel(detail),
            ScriptedErrorCategory::ModelNotLoaded => Error::ModelNotLoaded(detail),
            ScriptedErrorCategory::RateLimit => Error::RateLimit(detail),
            ScriptedErrorCategory::InvalidResponse => Error::InvalidResponse(detail),
            ScriptedErrorCategory::InvalidRequest => Error::InvalidRequest(detail),
            ScriptedErrorCategory::UnsupportedContentBlock => Error::UnsupportedContentBlock(detail),
        }
    }
}

/// Splits a text into words, each with the space after it.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// A call as it streams: first who, then the arguments in two pieces.
fn build_call_deltas(index: u32, id: &str, name: &str, arguments: &str) -> [ResponseDelta; 3] {
    let fragment = |id: Option<&str>, name: Option<&str>, arguments: Option<&str>| {
        let owned = |it: Option<&str>| it.map(str::to_owned);
        let (id, name, arguments) = (owned(id), owned(name), owned(arguments));
        ResponseDelta::ToolCall { index, id, name, arguments, signature: None }
    };
    let middle = arguments.floor_char_boundary(arguments.len() / 2);
    let (head, tail) = arguments.split_at(middle);
    [fragment(Some(id), Some(name), None), fragment(None, None, Some(head)), fragment(None, None, Some(tail))]
}

/// Counts words as if they were tokens.
fn count_word_usage<'a>(request: &Request, said: impl Iterator<Item = &'a String>) -> TokenUsage {
    let count = |text: &str| text.split_whitespace().count() as u64;
    let prompt: u64 = request.messages.iter().map(|message| count(&message.text())).sum();
    let completion: u64 = said.map(|said| count(said)).sum();
    TokenUsage {
        prompt_tokens: Some(prompt),
        completion_tokens: Some(completion),
        total_tokens: Some(prompt + completion),
        ..TokenUsage::default()
    }
}

fn build_raw_response(model: &str, reason: ModelFinishReason, usage: TokenUsage, said: Value) -> Value {
    json!({ "model": model, "said": said, "finish_reason": reason, "usage": usage })
}
