//! Anthropic Messages (spec: llm-provider §8.2). Streaming is our extension: the specification's mapping has none.
//!
//! Points that the specification leaves open are decided so:
//!
//! - Whose a signature is, nothing in a message says; where it stands does. Anthropic signs thinking, Gemini signs
//!   text and calls, nobody else signs. So signed and redacted thinking goes to Anthropic; unsigned thinking and
//!   every other signature is stripped (§3.1.7).
//! - Thinking whose text the server withholds is kept as redacted thinking, and goes back as it came.
//! - Text blocks that follow each other are one text, streamed or not: a delta does not say where a block ends. `raw`
//!   has them as they were.
//! - Blank text of the model, and thinking at the end of a message, is not sent back: the server refuses both. A
//!   message of which nothing is left is left out.
//! - A response schema is sent as `output_config.format`. Where the capabilities say that the model does not take it,
//!   it is the input of a made-up tool that must be called, whose arguments are then the content and no call; where
//!   the request has tools of its own, or extended thinking is on, it is written into `system` (§8.2.5.1). The answer
//!   of the made-up tool is handed out in one piece, because its content is the canonical text of the whole.
//! - Blocks, deltas and events that we do not know are passed over; the blocks are on `raw`.
//! - `tools`, `tool_choice`, `system` and `output_config` may come as extras while the call does not set the same
//!   itself.
//! - An error in the stream is classified by its type, as the status that usually carries it.

mod compose;
mod fold;
mod messages;
mod read;
mod refuse;
mod withheld;

use serde_json::Value;
use singletree_llm::{Error, Request, Response, Result};

use crate::answer::invalid_response_error;
use crate::mapping::{ComposeOptions, ComposedRequest, FailedResponse, StreamDecoder, WireMapping};
use crate::path;

/// Which version of the protocol is spoken.
const VERSION: &str = "2023-06-01";

/// The protocol of Anthropic.
#[derive(Debug)]
pub(crate) struct AnthropicMapping;

impl WireMapping for AnthropicMapping {
    fn auth_headers(&self, key: Option<&str>) -> Vec<(String, String)> {
        let version = ("anthropic-version".to_owned(), VERSION.to_owned());
        let key = key.map(|key| ("x-api-key".to_owned(), key.to_owned()));
        [Some(version), key].into_iter().flatten().collect()
    }

    fn compose_request(
        &self,
        model: &str,
        request: &Request,
        manner: ComposeOptions,
    ) -> Result<ComposedRequest> {
        compose::compose_request(model, request, manner)
    }

    fn read_response(&self, body: Value, composed: &ComposedRequest) -> Result<Response> {
        read::read_response(body, composed.answer_tool.as_deref())
    }

    fn classify_failure(&self, refusal: &FailedResponse<'_>) -> Error {
        refuse::classify_failure(refusal)
    }

    fn stream_decoder(&self, composed: &ComposedRequest) -> Box<dyn StreamDecoder> {
        Box::new(read::AnthropicStreamDecoder::new(composed.answer_tool.as_deref()))
    }

    fn probe_path(&self, model: &str) -> String {
        format!("/v1/models/{}", path::encode_path_segment(model))
    }

    // An alias is answered with the model that it stands for: the id need not be ours.
    fn read_probe(&self, _: &str, body: &Value) -> Result<()> {
        match body.get("id") {
            Some(Value::String(_)) => Ok(()),
            Some(_) | None => Err(invalid_response_error("the answer describes no model")),
        }
    }
}

#[cfg(test)]
mod tests;
