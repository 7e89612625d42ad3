//! Folds deltas into the response that the provider would have returned at once.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Map;
use crate::content::{ContentBlock, MessageContent};
use crate::delta::ResponseDelta;
use crate::error::{Error, ProviderErrorDetail, Result};
use crate::message::{ChatMessage, ToolCall};
use crate::response::{ModelFinishReason, Response, TokenUsage};

/// How large a streamed response may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseLimits {
    /// Bytes of text, reasoning, names, ids and arguments together.
    pub bytes_max: usize,
    /// Content blocks and tool calls together.
    pub parts_max: usize,
}

impl ResponseLimits {
    /// Returns limits that no honest response reaches: 16 MiB in 1024 parts.
    #[must_use]
    pub fn standard() -> Self {
        Self { bytes_max: 16 * 1024 * 1024, parts_max: 1024 }
    }
}

/// Folds deltas into a response (spec: llm-provider §6, streaming assembly). Pure.
#[derive(Debug)]
pub struct ResponseAssembler {
    limits: ResponseLimits,
    bytes: usize,
    blocks: Vec<ContentBlock>,
    calls: Vec<PartialToolCall>,
    /// Where the call is that a provider's index means now.
    positions: BTreeMap<u32, usize>,
    finish: Option<(ModelFinishReason, TokenUsage, Value)>,
}

#[derive(Debug, Default)]
struct PartialToolCall {
    id: String,
    name: String,
    arguments: String,
    signature: Option<String>,
}

impl ResponseAssembler {
    /// Makes an assembler that refuses to grow beyond the limits.
    #[must_use]
    pub fn new(limits: ResponseLimits) -> Self {
        Self {
            limits,
            bytes: 0,
            blocks: Vec::new(),
            calls: Vec::new(),
            positions: BTreeMap::new(),
            finish: None,
        }
    }

    /// Takes the next delta.
    ///
    /// # Errors
    ///
    /// `provider_invalid_response` after the end, or beyond the limits.
    pub fn push_delta(&mut self, delta: ResponseDelta) -> Result<()> {
        if self.finish.is_some() {
            return Err(invalid_response_error("the stream went on after its end"));
        }
        self.bytes = self.bytes.saturating_add(count_delta_bytes(&delta));
        match delta {
            ResponseDelta::Text { text, signature } => self.append_text(text, signature),
            ResponseDelta::Thinking { text, signature } => self.append_thinking(text, signature),
            ResponseDelta::RedactedThinking { data } => {
                self.blocks.push(ContentBlock::RedactedThinking { data });
            }
            ResponseDelta::ToolCall { index, id, name, arguments, signature } => {
                let call = self.find_or_add_call(index, id.as_deref());
                call.append_call_fragment(id, name, arguments, signature);
            }
            ResponseDelta::Finish { reason, usage, raw } => self.finish = Some((reason, usage, raw)),
        }
        let parts = self.blocks.len() + self.calls.len();
        if self.bytes > self.limits.bytes_max || parts > self.limits.parts_max {
            return Err(invalid_response_error("the response is larger than the limit"));
        }
        Ok(())
    }

    /// Returns the response, not yet validated.
    ///
    /// # Errors
    ///
    /// `provider_unavailable` when the stream ended before the response did.
    pub fn finish_response(self) -> Result<Response> {
        let Some((reason, usage, raw)) = self.finish else {
            return Err(Error::Unavailable(ProviderErrorDetail::new(
                "the stream ended before the response was complete",
            )));
        };
        let texts: Vec<String> = self.calls.iter().map(|call| call.arguments.clone()).collect();
        let calls = self.calls.into_iter().map(PartialToolCall::into_tool_call);
        let message = ChatMessage::assistant(MessageContent::from_blocks(self.blocks)).with_tool_calls(calls);
        let unread: Vec<(usize, &String)> = texts
            .iter()
            .enumerate()
            .filter(|(at, _)| message.tool_calls.get(*at).is_some_and(|call| call.arguments.is_none()))
            .collect();
        let response = Response::new(message, reason, usage, raw);
        Ok(unread.into_iter().fold(response, |response, (at, text)| response.with_unread_arguments(at, text)))
    }

    fn append_text(&mut self, more: String, sign: Option<String>) {
        if let Some(ContentBlock::Text { text, signature: signature @ None }) = self.blocks.last_mut() {
            text.push_str(&more);
            *signature = sign;
        } else if !more.is_empty() {
            self.blocks.push(ContentBlock::Text { text: more, signature: sign });
        }
    }

    fn append_thinking(&mut self, more: String, sign: Option<String>) {
        if let Some(ContentBlock::Thinking { text, signature: signature @ None }) = self.blocks.last_mut() {
            text.push_str(&more);
            *signature = sign;
        } else if !more.is_empty() {
            self.blocks.push(ContentBlock::Thinking { text: more, signature: sign });
        }
    }

    /// Finds the call of an index. Some servers give every parallel call the same index: another
    /// id is another call.
    fn find_or_add_call(&mut self, index: u32, id: Option<&str>) -> &mut PartialToolCall {
        let position = self.positions.get(&index).copied().filter(|&position| {
            let known = self.calls[position].id.as_str();
            id.is_none_or(|id| id.is_empty() || known.is_empty() || known == id)
        });
        let position = position.unwrap_or_else(|| {
            self.calls.push(PartialToolCall::default());
            self.calls.len() - 1
        });
        self.positions.insert(index, position);
        &mut self.calls[position]
    }
}

impl PartialToolCall {
    /// Takes a fragment. Id, name and signature come whole, and some servers repeat them: the
    /// first one counts. Arguments come in pieces.
    fn append_call_fragment(
        &mut self,
        id: Option<String>,
        name: Option<String>,
        arguments: Option<String>,
        signature: Option<String>,
    ) {
        if self.id.is_empty() {
            self.id = id.unwrap_or_default();
        }
        if self.name.is_empty() {
            self.name = name.unwrap_or_default();
        }
        self.arguments.push_str(arguments.as_deref().unwrap_or_default());
        if self.signature.is_none() {
            self.signature = signature;
        }
    }

    fn into_tool_call(self) -> ToolCall {
        let arguments = parse_arguments(&self.arguments);
        ToolCall { id: self.id, name: self.name, arguments, signature: self.signature }
    }
}

/// Reads the arguments of a call from the text that a model wrote.
///
/// `None` for text that is no JSON object. Blank text means no arguments: that is how some servers write the call of
/// a tool without parameters, streamed or not.
#[must_use]
pub fn parse_arguments(text: &str) -> Option<Map> {
    if text.trim().is_empty() {
        return Some(Map::new());
    }
    serde_json::from_str(text).ok()
}

fn count_delta_bytes(delta: &ResponseDelta) -> usize {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match delta {
        ResponseDelta::Text { text, signature } | ResponseDelta::Thinking { text, signature } => {
            text.len() + len(signature)
        }
        ResponseDelta::RedactedThinking { data } => data.len(),
        ResponseDelta::ToolCall { id, name, arguments, signature, .. } => {
            len(id) + len(name) + len(arguments) + len(signature)
        }
        ResponseDelta::Finish { .. } => 0,
    }
}

fn invalid_response_error(problem: &str) -> Error {
    Error::InvalidResponse(ProviderErrorDetail::new(problem))
}

#[cfg(test)]
mod tests;
