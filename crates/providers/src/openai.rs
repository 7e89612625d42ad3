//! OpenAI's chat completions, and who speaks like it (spec: llm-provider §8.1).
//!
//! Points that the specification leaves open are decided so:
//!
//! - A response schema is sent as `response_format`, with `strict` where the schema meets the strict mode's rules.
//!   Where the capabilities say that the server does not take it, the schema is written into the system message
//!   instead (§8.1.5.1); `HttpProvider::capabilities` tells which.
//! - Reasoning (`reasoning_content`, `reasoning`) becomes a thinking block, streamed or not; it is never sent back.
//! - A refusal of the model (`refusal`) is its text, and finishes with `content_filter`.
//! - A call without an id gets one by its place, as in `call_0`; one without readable arguments is sent back with `{}`.
//! - A stream is over at `[DONE]`, or where its body ends after a finish reason; else it broke off.

mod refusal;
mod request;
mod response;
mod schema;
mod stream;

use serde_json::Value;
use singletree_llm::{Error, ProviderErrorDetail, Request, Response, Result};

use crate::mapping::{ComposeOptions, ComposedRequest, FailedResponse, StreamDecoder, WireMapping};

/// The mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenAiMapping;

impl WireMapping for OpenAiMapping {
    fn auth_headers(&self, key: Option<&str>) -> Vec<(String, String)> {
        key.map(|key| ("authorization".to_owned(), format!("Bearer {key}"))).into_iter().collect()
    }

    fn compose_request(
        &self,
        model: &str,
        request: &Request,
        manner: ComposeOptions,
    ) -> Result<ComposedRequest> {
        let body = request::write_request_body(model, request, manner)?;
        Ok(ComposedRequest {
            path: "/v1/chat/completions".to_owned(),
            body: Value::Object(body),
            answer_tool: None,
        })
    }

    fn read_response(&self, body: Value, _composed: &ComposedRequest) -> Result<Response> {
        response::read_response(body)
    }

    fn classify_failure(&self, refusal: &FailedResponse<'_>) -> Error {
        refusal::classify_failure(refusal)
    }

    fn stream_decoder(&self, _composed: &ComposedRequest) -> Box<dyn StreamDecoder> {
        Box::new(stream::ChunkDecoder::default())
    }

    fn probe_path(&self, _model: &str) -> String {
        "/v1/models".to_owned()
    }

    fn read_probe(&self, model: &str, body: &Value) -> Result<()> {
        let Some(models) = body.get("data").and_then(Value::as_array) else {
            return Err(Error::InvalidResponse(ProviderErrorDetail::new("the list of models has no data")));
        };
        let known = models.iter().find(|it| it.get("id").is_some_and(|id| id == model));
        let Some(known) = known else {
            return Err(Error::InvalidModel(ProviderErrorDetail::new(format!(
                "the server does not have the model {model:?}"
            ))));
        };
        match known.get("status").and_then(Value::as_str) {
            None | Some("loaded") => Ok(()),
            Some(status) => Err(Error::ModelNotLoaded(ProviderErrorDetail::new(format!(
                "the model {model:?} is {status:?}"
            )))),
        }
    }
}

#[cfg(test)]
mod tests;
