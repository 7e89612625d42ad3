//! Reads an answer of Anthropic, whole or event by event (spec: llm-provider §8.2.2; streaming is our extension).

use serde_json::Value;
use singletree_llm::{Response, ResponseAssembler, ResponseDelta, ResponseLimits, Result};

use super::fold::AnthropicAccumulator;
use super::refuse::in_band_error;
use crate::answer::{incomplete_stream_error, invalid_response_error, parse_event_data};
use crate::mapping::{StreamDecoder, StreamProgress};

/// Reads a whole answer.
pub(super) fn read_response(body: Value, answer_tool: Option<&str>) -> Result<Response> {
    if body.get("type").is_some_and(|body| body == "error") {
        return Err(in_band_error(&body));
    }
    let Value::Object(mut message) = body else {
        return Err(invalid_response_error("the answer is no object"));
    };
    let Some(Value::Array(blocks)) = message.remove("content") else {
        return Err(invalid_response_error("content: is no list"));
    };
    let mut out = Vec::new();
    let mut fold = AnthropicAccumulator::new(message, answer_tool);
    for (index, block) in (0..).zip(blocks) {
        fold.begin_block(index, block, &mut out)?;
        fold.close_block(index, &mut out)?;
    }
    fold.finish_message(&mut out)?;
    let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
    for delta in out {
        assembler.push_delta(delta)?;
    }
    let mut response = assembler.finish_response()?;
    restore_exact_arguments(&mut response, answer_tool);
    Ok(response)
}

/// Takes the arguments as they were read: written and read once more, a number may lose its last bit.
fn restore_exact_arguments(response: &mut Response, answer_tool: Option<&str>) {
    let blocks = response.raw.get("content").and_then(Value::as_array).into_iter().flatten();
    let calls = blocks.filter(|block| {
        block.get("type").is_some_and(|value| value == "tool_use")
            && block.get("name").and_then(Value::as_str) != answer_tool
    });
    for (call, block) in response.message.tool_calls.iter_mut().zip(calls) {
        if let Some(Value::Object(input)) = block.get("input") {
            call.arguments = Some(input.clone());
        }
    }
}

/// Reads the events of a stream.
#[derive(Debug)]
pub(super) struct AnthropicStreamDecoder {
    answer_tool: Option<String>,
    fold: Option<AnthropicAccumulator>,
    done: bool,
}

impl AnthropicStreamDecoder {
    /// Waits for the first event.
    pub(super) fn new(answer_tool: Option<&str>) -> Self {
        Self { answer_tool: answer_tool.map(str::to_owned), fold: None, done: false }
    }

    fn accumulator(&mut self) -> Result<&mut AnthropicAccumulator> {
        self.fold
            .as_mut()
            .ok_or_else(|| invalid_response_error("the stream does not begin with message_start"))
    }

    fn begin_message(&mut self, event: &mut Value) -> Result<()> {
        if self.fold.is_some() {
            return Err(invalid_response_error("the stream begins twice"));
        }
        let Value::Object(message) = take_event_field(event, "message") else {
            return Err(invalid_response_error("message_start.message: is no object"));
        };
        self.fold = Some(AnthropicAccumulator::new(message, self.answer_tool.as_deref()));
        Ok(())
    }
}

impl StreamDecoder for AnthropicStreamDecoder {
    fn decode_event(
        &mut self,
        name: Option<&str>,
        data: &str,
        out: &mut Vec<ResponseDelta>,
    ) -> Result<StreamProgress> {
        if self.done {
            return Ok(StreamProgress::Done);
        }
        let mut event = parse_event_data(data)?;
        if !event.is_object() {
            return Err(invalid_response_error("an event of the stream is no object"));
        }
        let kind = event.get("type").and_then(Value::as_str).or(name).unwrap_or_default().to_owned();
        match kind.as_str() {
            "message_start" => self.begin_message(&mut event)?,
            "content_block_start" => {
                let (index, block) =
                    (read_block_index(&event)?, take_event_field(&mut event, "content_block"));
                self.accumulator()?.begin_block(index, block, out)?;
            }
            "content_block_delta" => {
                let (index, delta) = (read_block_index(&event)?, take_event_field(&mut event, "delta"));
                self.accumulator()?.apply_block_delta(index, &delta, out)?;
            }
            "content_block_stop" => self.accumulator()?.close_block(read_block_index(&event)?, out)?,
            "message_delta" => {
                let (delta, usage) =
                    (take_event_field(&mut event, "delta"), take_event_field(&mut event, "usage"));
                self.accumulator()?.apply_message_delta(delta, usage);
            }
            "message_stop" => {
                self.accumulator()?;
                if let Some(fold) = self.fold.take() {
                    fold.finish_message(out)?;
                }
                self.done = true;
                return Ok(StreamProgress::Done);
            }
            "error" => return Err(in_band_error(&event)),
            // A ping, or an event of a later version.
            _ => {}
        }
        Ok(StreamProgress::More)
    }

    fn finish_stream(&mut self, _: &mut Vec<ResponseDelta>) -> Result<()> {
        if self.done { Ok(()) } else { Err(incomplete_stream_error()) }
    }
}

fn read_block_index(event: &Value) -> Result<u64> {
    event
        .get("index")
        .and_then(Value::as_u64)
        .ok_or_else(|| invalid_response_error("an event without the index of its block"))
}

fn take_event_field(event: &mut Value, field: &str) -> Value {
    event.get_mut(field).map(Value::take).unwrap_or_default()
}
