//! Folds the chunks of an answer: into deltas, and into the body as Gemini would have sent it at once.
//!
//! A whole answer is a stream of one chunk: so both ways of asking give one message (spec: llm-provider §6, structural
//! identity).

use std::mem;

use serde_json::Value;
use singletree_llm::{Map, ModelFinishReason, ResponseDelta, Result, TokenUsage, canonical_json};

use crate::answer::{invalid_response_error, merge_latest_fields, string_field};
use crate::usage::read_counter;

/// An answer on its way.
#[derive(Debug)]
pub(super) struct GeminiAccumulator {
    /// The seed of the ids of calls that have none.
    seed: u64,
    calls: u32,
    raw: Map,
}

impl GeminiAccumulator {
    /// Starts; equal seeds mint equal ids.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, calls: 0, raw: Map::new() }
    }

    /// Takes the next chunk.
    pub(super) fn apply_chunk(&mut self, mut chunk: Map, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let candidates = match chunk.remove("candidates") {
            Some(Value::Array(candidates)) => candidates,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return Err(invalid_response_error("candidates: is no list")),
        };
        // Counters too: each chunk has those of the whole answer so far.
        merge_latest_fields(&mut self.raw, chunk);
        for candidate in candidates {
            let Value::Object(candidate) = candidate else {
                return Err(invalid_response_error("candidates: holds no object"));
            };
            if candidate_index(&candidate) == 0 {
                self.push_candidate_parts(&candidate, out)?;
            }
            self.merge_candidate(candidate);
        }
        Ok(())
    }

    /// Says whether the model said that it stopped.
    pub(super) fn has_stopped(&self) -> bool {
        self.is_prompt_blocked()
            || self.first_candidate().is_some_and(|answer| string_field(answer, "finishReason").is_some())
    }

    /// Ends the answer.
    pub(super) fn finish_response(&mut self, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let reason = self.read_finish_reason()?;
        let usage = read_token_usage(self.raw.get("usageMetadata"));
        out.push(ResponseDelta::Finish { reason, usage, raw: Value::Object(mem::take(&mut self.raw)) });
        Ok(())
    }

    fn push_candidate_parts(&mut self, candidate: &Map, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let parts = match candidate.get("content").and_then(|it| it.get("parts")) {
            Some(Value::Array(parts)) => parts.as_slice(),
            None | Some(Value::Null) => &[],
            Some(_) => return Err(invalid_response_error("candidates[0].content.parts: is no list")),
        };
        for part in parts {
            let Value::Object(part) = part else {
                return Err(invalid_response_error("candidates[0].content.parts: holds no object"));
            };
            self.push_part(part, out)?;
        }
        Ok(())
    }

    /// Reads a part. A part that is neither text nor a call stays on `raw`.
    fn push_part(&mut self, part: &Map, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let signature = string_field(part, "thoughtSignature")
            .filter(|signature| !signature.is_empty())
            .map(str::to_owned);
        if let Some(call) = part.get("functionCall") {
            out.push(self.tool_call_delta(call, signature)?);
            return Ok(());
        }
        let Some(text) = part.get("text") else {
            return Ok(());
        };
        let text = text
            .as_str()
            .ok_or_else(|| invalid_response_error("candidates[0].content.parts: a text is no string"))?;
        match (is_thought(part), text.is_empty()) {
            (true, true) => {}
            // A summary has no signature of its own (spec: llm-provider §8.3.2).
            (true, false) => out.push(ResponseDelta::from_thinking(text)),
            (false, true) if signature.is_none() => {}
            (false, _) => out.push(ResponseDelta::Text { text: text.to_owned(), signature }),
        }
        Ok(())
    }

    fn tool_call_delta(&mut self, call: &Value, signature: Option<String>) -> Result<ResponseDelta> {
        let name = call
            .get("name")
            .and_then(Value::as_str)
            .ok_or_else(|| invalid_response_error("a functionCall has no name"))?;
        let index = self.calls;
        self.calls += 1;
        let id = call.get("id").and_then(Value::as_str).filter(|it| !it.is_empty());
        let id = id.map_or_else(|| mint_call_id(self.seed, index), str::to_owned);
        let arguments = call.get("args").filter(|it| !it.is_null()).map(canonical_json);
        Ok(ResponseDelta::ToolCall { index, id: Some(id), name: Some(name.to_owned()), arguments, signature })
    }

    /// Folds a candidate into the body.
    fn merge_candidate(&mut self, mut candidate: Map) {
        let all = self.raw.entry("candidates").or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(all) = all else { return };
        let known = all
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .find(|item| candidate_index(item) == candidate_index(&candidate));
        let Some(known) = known else {
            if let Some(Value::Array(parts)) = candidate.get_mut("content").and_then(|it| it.get_mut("parts"))
            {
                *parts = join_parts(Vec::new(), mem::take(parts));
            }
            all.push(Value::Object(candidate));
            return;
        };
        if let Some(Value::Object(content)) = candidate.remove("content") {
            append_content(known, content);
        }
        merge_latest_fields(known, candidate);
    }

    fn first_candidate(&self) -> Option<&Map> {
        let all = self.raw.get("candidates")?.as_array()?;
        all.iter().filter_map(Value::as_object).find(|item| candidate_index(item) == 0)
    }

    fn is_prompt_blocked(&self) -> bool {
        self.first_candidate().is_none()
            && self.raw.get("promptFeedback").is_some_and(|raw| raw.get("blockReason").is_some())
    }

    /// Reads why the model stopped (spec: llm-provider §8.3.2). A prompt that was blocked has no candidate.
    fn read_finish_reason(&self) -> Result<ModelFinishReason> {
        if self.is_prompt_blocked() {
            return Ok(ModelFinishReason::ContentFilter);
        }
        let answer = self.first_candidate().ok_or_else(|| invalid_response_error("candidates: is empty"))?;
        let reason = string_field(answer, "finishReason");
        let reason =
            reason.ok_or_else(|| invalid_response_error("candidates[0].finishReason: is no string"))?;
        if self.calls > 0 {
            return Ok(ModelFinishReason::ToolCalls);
        }
        Ok(match reason {
            "STOP" => ModelFinishReason::Stop,
            "MAX_TOKENS" => ModelFinishReason::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
                ModelFinishReason::ContentFilter
            }
            _ => ModelFinishReason::Error,
        })
    }
}

fn candidate_index(candidate: &Map) -> u64 {
    candidate.get("index").and_then(Value::as_u64).unwrap_or(0)
}

fn is_thought(part: &Map) -> bool {
    part.get("thought").is_some_and(|part| *part == Value::Bool(true))
}

/// Makes an id from the request and the place of the call in its answer: asking again makes the same id. The id has
/// only characters that every provider accepts.
fn mint_call_id(seed: u64, index: u32) -> String {
    format!("call_{seed:016x}_{index}")
}

fn append_content(candidate: &mut Map, more: Map) {
    let content = candidate.entry("content").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(content) = content else { return };
    for (field, value) in more {
        match (content.get_mut(&field), value) {
            (Some(Value::Array(known)), Value::Array(parts)) if field == "parts" => {
                *known = join_parts(mem::take(known), parts);
            }
            (_, value) => {
                content.insert(field, value);
            }
        }
    }
}

/// Puts parts after parts. Text goes on in the part before it, until a signature closes that: an answer that came
/// whole has no parts for pieces.
fn join_parts(mut parts: Vec<Value>, more: Vec<Value>) -> Vec<Value> {
    for part in more {
        match (parts.last_mut().and_then(Value::as_object_mut), part) {
            (Some(last), Value::Object(part)) if continues_text(last, &part) => append_text_part(last, part),
            (_, part) => parts.push(part),
        }
    }
    parts
}

fn continues_text(last: &Map, part: &Map) -> bool {
    let plain =
        |it: &Map| it.get("text").is_some_and(Value::is_string) && it.keys().all(|key| is_text_field(key));
    plain(last)
        && plain(part)
        && is_thought(last) == is_thought(part)
        && !last.contains_key("thoughtSignature")
}

fn is_text_field(key: &str) -> bool {
    matches!(key, "text" | "thought" | "thoughtSignature")
}

fn append_text_part(last: &mut Map, mut part: Map) {
    if let (Some(Value::String(text)), Some(Value::String(more))) =
        (last.get_mut("text"), part.remove("text"))
    {
        text.push_str(&more);
    }
    last.extend(part);
}

fn read_token_usage(usage: Option<&Value>) -> TokenUsage {
    TokenUsage {
        prompt_tokens: read_counter(usage, "/promptTokenCount"),
        completion_tokens: read_counter(usage, "/candidatesTokenCount"),
        total_tokens: read_counter(usage, "/totalTokenCount"),
        cached_tokens: read_counter(usage, "/cachedContentTokenCount"),
        cache_creation_tokens: None,
    }
}
