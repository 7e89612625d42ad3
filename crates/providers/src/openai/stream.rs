//! The chunks of a streamed chat completion (spec: llm-provider §8.1.6).

mod whole;

use serde_json::Value;
use singletree_llm::{Map, ResponseDelta, Result};

use super::refusal;
use super::response::{
    arguments_text, content_text, generated_call_id, invalid_response_error, read_finish_reason,
    read_token_usage, reasoning_text,
};
use crate::answer::incomplete_stream_error;
use crate::mapping::{StreamDecoder, StreamProgress};

use whole::ChatCompletionAccumulator;

/// Reads chunks. Nothing is handed out for empty deltas.
#[derive(Debug, Default)]
pub(super) struct ChunkDecoder {
    whole: ChatCompletionAccumulator,
}

impl StreamDecoder for ChunkDecoder {
    fn decode_event(
        &mut self,
        _name: Option<&str>,
        data: &str,
        out: &mut Vec<ResponseDelta>,
    ) -> Result<StreamProgress> {
        let data = data.trim();
        if data == "[DONE]" {
            self.finish_response(out)?;
            return Ok(StreamProgress::Done);
        }
        if data.is_empty() {
            return Ok(StreamProgress::More);
        }
        let chunk: Value = serde_json::from_str(data)
            .map_err(|error| invalid_response_error(&format!("has an event that is no JSON: {error}")))?;
        self.apply_chunk(chunk, out)?;
        Ok(StreamProgress::More)
    }

    fn finish_stream(&mut self, out: &mut Vec<ResponseDelta>) -> Result<()> {
        self.finish_response(out)
    }
}

impl ChunkDecoder {
    fn apply_chunk(&mut self, chunk: Value, out: &mut Vec<ResponseDelta>) -> Result<()> {
        if chunk.get("error").is_some_and(|chunk| !chunk.is_null()) {
            return Err(refusal::in_band_error(&chunk));
        }
        let Value::Object(mut chunk) = chunk else {
            return Err(invalid_response_error("has an event that is no object"));
        };
        let choices = match chunk.remove("choices") {
            Some(Value::Array(choices)) => choices,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return Err(invalid_response_error("has choices that are no list")),
        };
        self.whole.merge_frame(chunk);
        // Only one answer is asked for: others, should a server send them, are not it.
        for mut choice in choices
            .into_iter()
            .filter(|choice| choice.get("index").is_none_or(|choice| choice == 0 || choice.is_null()))
        {
            match choice.as_object_mut().and_then(|object| object.remove("delta")) {
                Some(Value::Object(delta)) => self.apply_delta(&delta, out)?,
                None | Some(Value::Null) => {}
                Some(_) => return Err(invalid_response_error("has a delta that is no object")),
            }
            if let Value::Object(rest) = choice {
                self.whole.merge_choice(rest);
            }
        }
        Ok(())
    }

    fn apply_delta(&mut self, delta: &Map, out: &mut Vec<ResponseDelta>) -> Result<()> {
        if let Some(more) = reasoning_text(delta) {
            let name = if delta.get("reasoning_content").is_some_and(|delta| delta == more) {
                "reasoning_content"
            } else {
                "reasoning"
            };
            self.whole.append_text(name, more);
            out.push(ResponseDelta::from_thinking(more));
        }
        let said = match delta.get("content") {
            None | Some(Value::Null) => String::new(),
            Some(content) => {
                content_text(content).ok_or_else(|| invalid_response_error("has content that is no text"))?
            }
        };
        if !said.is_empty() {
            self.whole.append_text("content", &said);
            out.push(ResponseDelta::from_text(said));
        }
        if let Some(more) = delta.get("refusal").and_then(Value::as_str) {
            self.whole.append_text("refusal", more);
        }
        match delta.get("tool_calls") {
            None | Some(Value::Null) => Ok(()),
            Some(Value::Array(calls)) => {
                calls.iter().enumerate().try_for_each(|(at, it)| self.apply_call_fragment(at, it, out))
            }
            Some(_) => Err(invalid_response_error("has tool_calls that are no list")),
        }
    }

    fn apply_call_fragment(&mut self, at: usize, call: &Value, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let index = match call.get("index") {
            None | Some(Value::Null) => u32::try_from(at).ok(),
            Some(index) => index.as_u64().and_then(|number| u32::try_from(number).ok()),
        };
        let index =
            index.ok_or_else(|| invalid_response_error("has a tool call whose index is no number"))?;
        let field = |value: Option<&Value>| {
            value.and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned)
        };
        let id = field(call.get("id"));
        let function = call.get("function");
        let name = field(function.and_then(|function| function.get("name")));
        let arguments = function.and_then(|function| function.get("arguments")).map(arguments_text);
        self.whole.append_call_fragment(
            index,
            id.as_deref(),
            name.as_deref(),
            arguments.as_deref().unwrap_or_default(),
        );
        out.push(ResponseDelta::ToolCall { index, id, name, arguments, signature: None });
        Ok(())
    }

    /// Ends the answer, if the server said why it stopped.
    fn finish_response(&mut self, out: &mut Vec<ResponseDelta>) -> Result<()> {
        let whole = std::mem::take(&mut self.whole);
        if whole.finish_reason().is_none() {
            return Err(incomplete_stream_error());
        }
        for (at, index) in whole.calls_without_id() {
            let id = Some(generated_call_id(at));
            out.push(ResponseDelta::ToolCall { index, id, name: None, arguments: None, signature: None });
        }
        let refused = whole.refusal();
        out.extend(refused.map(ResponseDelta::from_text));
        let reason = read_finish_reason(whole.finish_reason(), refused.is_some());
        let usage = read_token_usage(whole.usage());
        out.push(ResponseDelta::Finish { reason, usage, raw: whole.into_body() });
        Ok(())
    }
}
