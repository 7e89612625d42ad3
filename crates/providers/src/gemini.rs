//! Gemini `generateContent` (spec: llm-provider §8.3). Streaming is our extension: the specification's mapping has
//! none.
//!
//! Points that the specification leaves open are decided so:
//!
//! - Whose a signature is, nothing in a message says; where it stands does. Gemini signs text and calls, Anthropic
//!   signs thinking, nobody else signs. So signed text and signed calls keep their token here; signed and redacted
//!   thinking is stripped (§3.1.7). Thinking without a signature goes back as the summary that Gemini's is.
//! - A call without an id gets an id made of the end of the request (the last content's digest, the number of
//!   contents) and of its place in the answer: asking again makes the same id.
//! - A schema of parameters goes under `parameters`, as the specification says, while Gemini reads it there; a schema
//!   beyond Gemini's part of OpenAPI would be refused there, and goes under `parametersJsonSchema`.
//! - The media type of a picture behind a URL comes from the end of its path, else from the block; else it is left
//!   out.
//! - A signature in a part without text belongs to the text before it.
//! - A blocked prompt has no candidate: it finishes with `content_filter`.
//! - A key that is wrong comes as 400 with the reason `API_KEY_INVALID`: an authentication error. How long to wait
//!   may stand in `RetryInfo`.
//! - A stream is over where its body ends after a finish reason; else it broke off.
//! - Parts that we do not know are passed over, and are on `raw`; so are other candidates.

mod compose;
mod contents;
mod fold;
mod read;
mod refuse;
mod schema;

use serde_json::Value;
use singletree_llm::{Error, ProviderErrorDetail, Request, Response, Result};

use crate::answer::invalid_response_error;
use crate::mapping::{ComposeOptions, ComposedRequest, FailedResponse, StreamDecoder, WireMapping};
use crate::path;

/// The protocol of Gemini.
#[derive(Debug)]
pub(crate) struct GeminiMapping;

impl WireMapping for GeminiMapping {
    fn auth_headers(&self, key: Option<&str>) -> Vec<(String, String)> {
        key.map(|key| ("x-goog-api-key".to_owned(), key.to_owned())).into_iter().collect()
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
        read::read_response(body, composed)
    }

    fn classify_failure(&self, refusal: &FailedResponse<'_>) -> Error {
        refuse::classify_failure(refusal)
    }

    fn stream_decoder(&self, composed: &ComposedRequest) -> Box<dyn StreamDecoder> {
        Box::new(read::GeminiStreamDecoder::new(composed))
    }

    fn probe_path(&self, model: &str) -> String {
        model_resource(model)
    }

    fn read_probe(&self, model: &str, body: &Value) -> Result<()> {
        if !body.get("name").is_some_and(Value::is_string) {
            return Err(invalid_response_error("the answer describes no model"));
        }
        match body.get("supportedGenerationMethods").and_then(Value::as_array) {
            Some(methods) if !methods.iter().any(|method| method == "generateContent") => Err(
                Error::InvalidModel(ProviderErrorDetail::new(format!("{model:?} does not generate content"))),
            ),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the path of a model: `models/NAME` and `tunedModels/NAME` are said as they are, a bare name is one of
/// `models`.
fn model_resource(model: &str) -> String {
    match model.split_once('/') {
        Some((kind @ ("models" | "tunedModels"), name)) => {
            format!("/v1beta/{kind}/{}", path::encode_path_segment(name))
        }
        Some(_) | None => format!("/v1beta/models/{}", path::encode_path_segment(model)),
    }
}

#[cfg(test)]
mod tests;
