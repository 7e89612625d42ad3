//! Folds the blocks of an answer: into deltas, and into the message as Anthropic would have sent it at once.
//!
//! A whole answer goes through here as well, each block opened and closed: so both ways of asking give one message
//! (spec: llm-provider §6, structural identity).

use std::mem;

use serde_json::Value;
use singletree_llm::{
    Map, ModelFinishReason, ResponseDelta, Result, TokenUsage, canonical_json, parse_arguments,
};

use super::withheld;
use crate::answer::{invalid_response_error, merge_latest_fields, string_field};
use crate::usage::{read_counter, sum_if_complete};

/// An answer on its way.
#[derive(Debug)]
pub(super) struct AnthropicAccumulator {
    /// The message, without its content.
    message: Map,
    blocks: Vec<AccumulatedBlock>,
    calls: u32,
    /// Only where a made-up tool carries the structured answer.
    answer: Option<StructuredAnswer>,
}

#[derive(Debug)]
struct AccumulatedBlock {
    index: u64,
    value: Map,
    part: ContentBlockKind,
    open: bool,
}

/// Our kind of a content block.
#[derive(Debug)]
enum ContentBlockKind {
    Text,
    Thinking {
        shown: bool,
    },
    Redacted,
    Call {
        call: u32,
        json: String,
    },
    Answer {
        json: String,
    },
    /// Nothing: it stays on `raw`.
    Other {
        json: String,
    },
}

impl ContentBlockKind {
    fn is_content(&self) -> bool {
        match self {
            Self::Text | Self::Thinking { .. } | Self::Redacted => true,
            Self::Call { .. } | Self::Answer { .. } | Self::Other { .. } => false,
        }
    }
}

/// The structured answer. Text waits for it: where the tool is called, its arguments are the content and nothing else.
#[derive(Debug)]
struct StructuredAnswer {
    tool: String,
    text: String,
    given: Option<String>,
}

impl AnthropicAccumulator {
    /// Starts with the message, whose content comes in blocks.
    pub(super) fn new(mut message: Map, answer_tool: Option<&str>) -> Self {
        message.remove("content");
        let answer = answer_tool.map(|tool| StructuredAnswer {
            tool: tool.to_owned(),
            text: String::new(),
            given: None,
        });
        Self { message, blocks: Vec::new(), calls: 0, answer }
    }

    /// Begins a block.
    pub(super) fn begin_block(
        &mut self,
        index: u64,
        block: Value,
        out: &mut Vec<ResponseDelta>,
    ) -> Result<()> {
        let Value::Object(value) = block else {
            return Err(invalid_response_error(format!("content[{index}]: is no object")));
        };
        if self.blocks.last().is_some_and(|blocks| blocks.index >= index) {
            return Err(invalid_response_error(format!("content[{index}]: is there twice, or out of order")));
        }
        let part = self.read_block_kind(index, &value, out)?;
        if part.is_content() && self.blocks.iter().any(|block| block.open && block.part.is_content()) {
            return Err(invalid_response_error(format!(
                "content[{index}]: begins before the one before it ended"
            )));
        }
        self.blocks.push(AccumulatedBlock { index, value, part, open: true });
        Ok(())
    }

    fn read_block_kind(
        &mut self,
        index: u64,
        value: &Map,
        out: &mut Vec<ResponseDelta>,
    ) -> Result<ContentBlockKind> {
        let field = |name: &str| {
            string_field(value, name)
                .ok_or_else(|| invalid_response_error(format!("content[{index}].{name}: is no string")))
        };
        Ok(match string_field(value, "type").unwrap_or_default() {
            "text" => {
                self.push_text(string_field(value, "text").unwrap_or_default(), out);
                ContentBlockKind::Text
            }
            "thinking" => {
                let text = string_field(value, "thinking").unwrap_or_default();
                push_thinking(text, out);
                ContentBlockKind::Thinking { shown: !text.is_empty() }
            }
            "redacted_thinking" => {
                out.push(ResponseDelta::RedactedThinking { data: field("data")?.to_owned() });
                ContentBlockKind::Redacted
            }
            "tool_use" => {
                let (id, name) = (field("id")?.to_owned(), field("name")?.to_owned());
                if self.answer.as_ref().is_some_and(|answer| answer.tool == name) {
                    return Ok(ContentBlockKind::Answer { json: String::new() });
                }
                let call = self.calls;
                self.calls += 1;
                out.push(tool_call_fragment(call, Some((id, name)), None));
                ContentBlockKind::Call { call, json: String::new() }
            }
            _ => ContentBlockKind::Other { json: String::new() },
        })
    }

    /// Takes the next piece of a block. Pieces of a kind that we do not know are left out.
    pub(super) fn apply_block_delta(
        &mut self,
        index: u64,
        delta: &Value,
        out: &mut Vec<ResponseDelta>,
    ) -> Result<()> {
        let piece = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = piece("type");
        let block = find_open_block(&mut self.blocks, index)?;
        match (kind, &mut block.part) {
            ("text_delta", ContentBlockKind::Text) => {
                append_text_field(&mut block.value, "text", piece("text"));
                self.push_text(piece("text"), out);
            }
            ("thinking_delta", ContentBlockKind::Thinking { shown }) => {
                let text = piece("thinking");
                *shown |= !text.is_empty();
                append_text_field(&mut block.value, "thinking", text);
                push_thinking(text, out);
            }
            ("signature_delta", ContentBlockKind::Thinking { .. }) => {
                block.value.insert("signature".to_owned(), Value::from(piece("signature")));
            }
            ("input_json_delta", ContentBlockKind::Call { json, call }) => {
                json.push_str(piece("partial_json"));
                if !piece("partial_json").is_empty() {
                    out.push(tool_call_fragment(*call, None, Some(piece("partial_json").to_owned())));
                }
            }
            ("input_json_delta", ContentBlockKind::Answer { json } | ContentBlockKind::Other { json }) => {
                json.push_str(piece("partial_json"));
            }
            ("citations_delta", ContentBlockKind::Text) => append_citation(&mut block.value, delta),
            ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta", _) => {
                return Err(invalid_response_error(format!(
                    "content[{index}]: a {kind} does not belong there"
                )));
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a block.
    pub(super) fn close_block(&mut self, index: u64, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let block = find_open_block(&mut self.blocks, index)?;
        block.open = false;
        match &mut block.part {
            ContentBlockKind::Text | ContentBlockKind::Redacted => {}
            ContentBlockKind::Thinking { shown } => {
                push_signature(string_field(&block.value, "signature"), *shown, out)
            }
            ContentBlockKind::Call { call, json } => {
                if let Some(whole) = store_whole_input(&mut block.value, json) {
                    out.push(tool_call_fragment(*call, None, Some(whole)));
                }
            }
            ContentBlockKind::Answer { json } => {
                let given = store_whole_input(&mut block.value, json)
                    .unwrap_or_else(|| canonical_text(mem::take(json)));
                if let Some(answer) = &mut self.answer {
                    answer.given.get_or_insert(given);
                }
            }
            ContentBlockKind::Other { json } if json.is_empty() => {}
            ContentBlockKind::Other { json } => {
                store_whole_input(&mut block.value, json);
            }
        }
        Ok(())
    }

    /// Takes the fields of the message that come at its end, and its usage counter by counter.
    pub(super) fn apply_message_delta(&mut self, delta: Value, usage: Value) {
        if let Value::Object(delta) = delta {
            merge_latest_fields(&mut self.message, delta);
        }
        let known = self.message.entry("usage").or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(known), Value::Object(usage)) = (known, usage) {
            merge_latest_fields(known, usage);
        }
    }

    /// Ends the message.
    pub(super) fn finish_message(mut self, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let open: Vec<u64> = self.blocks.iter().filter(|block| block.open).map(|block| block.index).collect();
        for index in open {
            self.close_block(index, out)?;
        }
        let answered = self.answer.as_ref().is_some_and(|answer| answer.given.is_some());
        if let Some(StructuredAnswer { text, given, .. }) = self.answer {
            let text = given.unwrap_or(text);
            if !text.is_empty() {
                out.push(ResponseDelta::from_text(text));
            }
        }
        let reason = read_finish_reason(&self.message, answered)?;
        let usage = read_token_usage(self.message.get("usage"));
        let content = self.blocks.into_iter().map(|block| Value::Object(block.value)).collect();
        self.message.insert("content".to_owned(), content);
        out.push(ResponseDelta::Finish { reason, usage, raw: Value::Object(self.message) });
        Ok(())
    }

    fn push_text(&mut self, text: &str, out: &mut Vec<ResponseDelta>) {
        match &mut self.answer {
            Some(answer) => answer.text.push_str(text),
            None if text.is_empty() => {}
            None => out.push(ResponseDelta::from_text(text)),
        }
    }
}

fn push_thinking(text: &str, out: &mut Vec<ResponseDelta>) {
    if !text.is_empty() {
        out.push(ResponseDelta::from_thinking(text));
    }
}

/// Signs the thinking that just ended.
fn push_signature(signature: Option<&str>, shown: bool, out: &mut Vec<ResponseDelta>) {
    match signature.filter(|signature| !signature.is_empty()) {
        Some(signature) if shown => {
            out.push(ResponseDelta::Thinking { text: String::new(), signature: Some(signature.to_owned()) });
        }
        Some(signature) => {
            out.push(ResponseDelta::RedactedThinking { data: withheld::signature_to_data(signature) })
        }
        None => {}
    }
}

fn tool_call_fragment(
    index: u32,
    named: Option<(String, String)>,
    arguments: Option<String>,
) -> ResponseDelta {
    let (id, name) = named.unzip();
    ResponseDelta::ToolCall { index, id, name, arguments, signature: None }
}

fn find_open_block(blocks: &mut [AccumulatedBlock], index: u64) -> Result<&mut AccumulatedBlock> {
    let block = blocks.iter_mut().rev().find(|block| block.index == index);
    block
        .filter(|block| block.open)
        .ok_or_else(|| invalid_response_error(format!("content[{index}]: is not open")))
}

fn append_text_field(block: &mut Map, field: &str, more: &str) {
    match block.entry(field).or_insert_with(|| Value::from("")) {
        Value::String(text) => text.push_str(more),
        other => *other = Value::from(more),
    }
}

fn append_citation(block: &mut Map, delta: &Value) {
    let citation = delta.get("citation").cloned().unwrap_or_default();
    match block.entry("citations").or_insert_with(|| Value::Array(Vec::new())) {
        Value::Array(all) => all.push(citation),
        other => *other = Value::Array(vec![citation]),
    }
}

/// Writes streamed input into its block, as the whole answer would have it. Where nothing was streamed, the input
/// came with the block, and its text is returned.
fn store_whole_input(block: &mut Map, json: &str) -> Option<String> {
    if json.is_empty() {
        return match block.get("input") {
            None | Some(Value::Null) => None,
            Some(input) => Some(canonical_json(input)),
        };
    }
    let input = match parse_arguments(json) {
        Some(input) => Value::Object(input),
        None => Value::from(json),
    };
    block.insert("input".to_owned(), input);
    None
}

/// Writes the structured answer the same way whether it came in pieces or whole. Text that is no object is not
/// changed.
fn canonical_text(written: String) -> String {
    parse_arguments(&written)
        .map_or(written, |parse_arguments| canonical_json(&Value::Object(parse_arguments)))
}

/// Reads why the model stopped (spec: llm-provider §8.2.2).
fn read_finish_reason(message: &Map, answered: bool) -> Result<ModelFinishReason> {
    Ok(
        match string_field(message, "stop_reason")
            .ok_or_else(|| invalid_response_error("stop_reason: is no string"))?
        {
            "end_turn" | "stop_sequence" | "pause_turn" => ModelFinishReason::Stop,
            "max_tokens" => ModelFinishReason::Length,
            "tool_use" if answered => ModelFinishReason::Stop,
            "tool_use" => ModelFinishReason::ToolCalls,
            "refusal" => ModelFinishReason::ContentFilter,
            _ => ModelFinishReason::Error,
        },
    )
}

/// Reads the counters; the sum is ours and stands only where both addends do (spec: llm-provider §7, §8.2.2).
/// Anthropic's cache counters are about explicit caching, and stay on `raw`.
fn read_token_usage(usage: Option<&Value>) -> TokenUsage {
    let prompt_tokens = read_counter(usage, "/input_tokens");
    let completion_tokens = read_counter(usage, "/output_tokens");
    let total_tokens = sum_if_complete([prompt_tokens, completion_tokens]);
    TokenUsage { prompt_tokens, completion_tokens, total_tokens, ..TokenUsage::default() }
}
