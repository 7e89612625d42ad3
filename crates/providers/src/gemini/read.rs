//! Reads an answer of Gemini, whole or chunk by chunk (spec: llm-provider §8.3.2; streaming is our extension).

use serde_json::Value;
use singletree_llm::{Map, Response, ResponseAssembler, ResponseDelta, ResponseLimits, Result};

use super::fold::GeminiAccumulator;
use super::refuse::in_band_error;
use crate::answer::{incomplete_stream_error, invalid_response_error, parse_event_data};
use crate::canonical;
use crate::mapping::{ComposedRequest, StreamDecoder, StreamProgress};

/// Reads a whole answer.
pub(super) fn read_response(body: Value, composed: &ComposedRequest) -> Result<Response> {
    let chunk = read_chunk_object(body)?;
    let raw = Value::Object(chunk.clone());
    let mut out = Vec::new();
    let mut fold = GeminiAccumulator::new(call_id_seed(composed));
    fold.apply_chunk(chunk, &mut out)?;
    fold.finish_response(&mut out)?;
    let mut assembler = ResponseAssembler::new(ResponseLimits::standard());
    for delta in out {
        assembler.push_delta(delta)?;
    }
    let mut response = assembler.finish_response()?;
    response.raw = raw;
    Ok(response)
}

/// Reads the chunks of a stream. Its end is the end of the body: nothing in it says so, and usage may follow the
/// finish.
#[derive(Debug)]
pub(super) struct GeminiStreamDecoder {
    fold: GeminiAccumulator,
}

impl GeminiStreamDecoder {
    /// Waits for the first chunk.
    pub(super) fn new(composed: &ComposedRequest) -> Self {
        Self { fold: GeminiAccumulator::new(call_id_seed(composed)) }
    }
}

impl StreamDecoder for GeminiStreamDecoder {
    fn decode_event(
        &mut self,
        _: Option<&str>,
        data: &str,
        out: &mut Vec<ResponseDelta>,
    ) -> Result<StreamProgress> {
        self.fold.apply_chunk(read_chunk_object(parse_event_data(data)?)?, out)?;
        Ok(StreamProgress::More)
    }

    fn finish_stream(&mut self, out: &mut Vec<ResponseDelta>) -> Result<()> {
        if self.fold.has_stopped() { self.fold.finish_response(out) } else { Err(incomplete_stream_error()) }
    }
}

fn read_chunk_object(chunk: Value) -> Result<Map> {
    if let Some(error) = in_band_error(&chunk) {
        return Err(error);
    }
    match chunk {
        Value::Object(chunk) => Ok(chunk),
        _ => Err(invalid_response_error("the answer is no object")),
    }
}

/// Makes the seed of minted ids from the last content of the request, which the model answers, and the number of
/// contents. The whole request would not distinguish more calls within one conversation, and is long.
fn call_id_seed(composed: &ComposedRequest) -> u64 {
    let contents = composed.body.get("contents").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let last = contents.last().map_or(0, canonical::digest_value);
    let count = u64::try_from(contents.len()).unwrap_or(u64::MAX);
    last ^ count.rotate_right(8)
}
